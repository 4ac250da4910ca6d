package tensor

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fermi-cluster/fermi/internal/fault"
)

func TestTreeRefusals(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON":                 `{"d":`,
		"two keys":                `{"t":[],"s":[]}`,
		"an unknown kind":         `{"q":[0,1]}`,
		"outside":                 `{"y":[60,5]}`,
		"below nought":            `{"y":[-1,5]}`,
		"no pair":                 `{"d":[[1]]}`,
		"too deep":                strings.Repeat("[", 200) + strings.Repeat("]", 200),
		"a long name":             `{"d":[["` + strings.Repeat("k", 2000) + `",1]]}`,
		"an odd type":             `{"h":["text",[2],[4],[0],0,0,8]}`,
		"a shard that sticks out": `{"h":["int8",[2],[4],[3],0,0,2]}`,
		"a wrong length":          `{"h":["int8",[2],[4],[2],0,0,3]}`,
		"no such dimension":       `{"h":["int8",[2],[4],[2],1,0,2]}`,
		"an endless shape":        `{"h":["int64",[0,1],[4611686018427387904,8],[0,0],0,0,0]}`,
	} {
		if _, _, err := Parse([]byte(text), 64); fault.ReasonOf(err) != "BadTree" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzTree: a tree that is taken, written anew with its blobs where they are, says the same.
func FuzzTree(f *testing.F) {
	f.Add([]byte(`{"d":[["w",{"x":["float32",[2],[1],0,8]}],["r",{"h":["int8",[2],[4],[2],0,8,2]}],[3,{"t":[1,null,{"f":"00"}]}]]}`))
	f.Add([]byte("0\v"))
	f.Add([]byte("1E777"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		root, leaves, err := Parse(raw, 64)
		if err != nil || json.Valid(raw) && json.Unmarshal(raw, new(any)) != nil { // numbers beyond float64 are handed on as they are
			return
		}
		var b bytes.Buffer
		root.Write(&b, func(x *Tensor) *Tensor { return x })
		if diff := cmp.Diff(decoded(t, raw), decoded(t, b.Bytes())); diff != "" && json.Valid(raw) {
			t.Fatal(diff)
		}
		again, more, err := Parse(b.Bytes(), 64)
		if err != nil || again == nil || len(more) != len(leaves) {
			t.Fatalf("%v: %d blobs, then %d", err, len(leaves), len(more))
		}
	})
}

func decoded(t testing.TB, raw []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return v
}
