package v1

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// A manifest full of mistakes costs about what reading it costs, and its answer names at most 100.
func TestAFloodOfFaultsIsBounded(t *testing.T) {
	const size = 1 << 19
	// many repeats make until the manifest is large.
	many := func(head, tail, sep string, make func(i int) string) []byte {
		var b strings.Builder
		b.WriteString(head)
		for i := 0; b.Len() < size; i++ {
			if i > 0 {
				b.WriteString(sep)
			}
			b.WriteString(make(i))
		}
		b.WriteString(tail)
		return []byte(b.String())
	}
	key := func(i int) string { return fmt.Sprintf(`"k%d":0`, i) }
	decode := func(data []byte) error { _, err := Decode(KindTrainingTask, data); return err }
	prepare := func(data []byte) error {
		o, err := Decode(KindTrainingTask, data)
		if err != nil {
			t.Fatal(err)
		}
		return Prepare(o, func(int) string { return "x" })
	}
	all := func(data []byte) error { _, err := DecodeAll(data); return err }
	for name, c := range map[string]struct {
		data []byte
		read func([]byte) error
	}{
		"unknown fields":        {many(`{`, `}`, ",", key), decode},
		"unknown in spec":       {many(`{"spec":{`, `}}`, ",", key), decode},
		"unknown in YAML":       {many("", "", "\n", func(i int) string { return fmt.Sprintf("k%d: 0", i) }), decode},
		"the same key":          {many(`{"spec":{`, `}}`, ",", func(int) string { return `"roles":0` }), decode},
		"the same key in YAML":  {many("", "", "\n", func(int) string { return "spec: 0" }), decode},
		"keys that are no text": {many("spec:\n", "", "\n", func(i int) string { return fmt.Sprintf("  %d: 0", i) }), decode},
		"wrong items":           {many(`{"spec":{"roles":[`, `]}}`, ",", func(int) string { return "0" }), decode},
		"wrong values":          {many(`{"spec":{"hyperParameters":{`, `}}}`, ",", func(i int) string { return fmt.Sprintf(`"k%d":1e999`, i) }), decode},
		"documents":             {many("", "", "\n", func(int) string { return "---\nx: 0" }), all},
		"bad arguments":         {many(`{"metadata":{"name":"x"},"spec":{"roles":[{"command":["x"],"args":[`, `]}]}}`, ",", func(int) string { return `"\u0000"` }), prepare},
		"bad zones":             {many(`{"metadata":{"name":"x"},"spec":{"roles":[{"command":["x"]}],"zones":{"data":[{"bytes":0,"zones":[`, `]}]}}}`, ",", func(int) string { return `"Z"` }), prepare},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := c.read(c.data)
			runtime.ReadMemStats(&after)
			e := fault.From(err)
			if e == nil || e.Code != fault.Invalid || len(e.Fields) == 0 || len(e.Fields) > 100 {
				t.Fatalf("%d fields: %.200v", len(e.Fields), err)
			}
			if len(e.Fields) == 100 && !strings.HasPrefix(e.Message.EN, "At least 100 fields are refused") {
				t.Errorf("it does not say that there are more: %.200s", e.Message.EN)
			}
			if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 130*uint64(len(c.data)) {
				t.Errorf("%d bytes were allocated for %d read", bytes, len(c.data))
			}
			if pieces := after.Mallocs - before.Mallocs; pieces > 4*uint64(len(c.data)) {
				t.Errorf("%d allocations for %d bytes read", pieces, len(c.data))
			}
			t.Logf("%.1f bytes and %.2f allocations a byte", float64(after.TotalAlloc-before.TotalAlloc)/float64(len(c.data)), float64(after.Mallocs-before.Mallocs)/float64(len(c.data)))
		})
	}
}
