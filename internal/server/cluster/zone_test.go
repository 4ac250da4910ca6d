package cluster

import (
	"errors"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// FuzzMeasured: any report is refused with both languages, or holds only usable numbers of other zones.
func FuzzMeasured(f *testing.F) {
	f.Add([]byte(`{"to":{"b":{"p50Ms":1.3,"p99Ms":2,"samples":9}}}`))
	f.Add([]byte(`{"to":{"a":{"p50Ms":-1}}}{}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		seen, err := decodeMeasured(data, "a", time.Unix(0, 0))
		if err != nil {
			if e := faultOf(t, err); e.Message.EN == "" || e.Message.ZH == "" {
				t.Fatalf("%v", err)
			}
			return
		}
		for to, m := range seen {
			if to == "a" || !api.IsName(to) || !(m.P50Ms >= 0 && m.P50Ms <= m.P99Ms && m.P99Ms <= 60_000) || m.Samples < 1 {
				t.Fatalf("%s: %+v", to, m)
			}
		}
	})
}

func faultOf(t *testing.T, err error) *fault.Error {
	t.Helper()
	var e *fault.Error
	if !errors.As(err, &e) {
		t.Fatalf("not a fault: %v", err)
	}
	return e
}
