package asset

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// TestPatiently: servers that are away for minutes cost a home nothing; what can't be mended by waiting, and servers that stay away, end it.
func TestPatiently(t *testing.T) {
	away := fault.New(fault.Unavailable, "Unreachable", fault.T("nobody", "无人应答"))
	full := fault.New(fault.Full, "NoSpace", fault.T("full", "已满"))
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		back := func() error {
			if time.Since(begin) < 5*time.Minute {
				return away
			}
			return nil
		}
		if err := patiently(t.Context(), homePatience, back); err != nil {
			t.Error(err)
		}
		tries := 0
		if err := patiently(t.Context(), homePatience, func() error { tries++; return full }); !errors.Is(err, full) || tries != 1 {
			t.Errorf("%v after %d tries", err, tries)
		}
		begin = time.Now()
		if err := patiently(t.Context(), homePatience, func() error { return away }); !errors.Is(err, away) || time.Since(begin) < homePatience || time.Since(begin) > 2*homePatience {
			t.Errorf("%v after %s", err, time.Since(begin))
		}
	})
}
