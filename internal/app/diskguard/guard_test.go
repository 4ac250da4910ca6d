package diskguard

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store/embedded"
)

const mib = 1 << 20

func TestJudge(t *testing.T) {
	well := embedded.Room{Total: 1000 * mib, Free: 500 * mib, Names: 100_000, FreeNames: 50_000}
	for _, tc := range []struct {
		name   string
		change func(*embedded.Room)
		probed error
		want   string
	}{
		{"well", func(*embedded.Room) {}, nil, ""},
		{"no limit of names", func(r *embedded.Room) { r.Names, r.FreeNames = 0, 0 }, nil, ""},
		{"full", func(r *embedded.Room) { r.Free = 10 * mib }, nil, "DiskFull"},
		{"full, and the probe says so", func(r *embedded.Room) { r.Free = 0 }, unix.ENOSPC, "DiskFull"},
		{"names", func(r *embedded.Room) { r.FreeNames = 3 }, nil, "NamesExhausted"},
		{"failing", func(*embedded.Room) {}, unix.EIO, "DiskFailing"},
		{"read-only", func(*embedded.Room) {}, unix.EROFS, "DiskFailing"},
	} {
		room := well
		tc.change(&room)
		got := Judge("/d", room, tc.probed)
		if tc.want == "" && got == nil {
			continue
		}
		if got == nil || fault.ReasonOf(got) != tc.want || got.Message.ZH == "" || got.Hint.IsZero() {
			t.Errorf("%s: %v", tc.name, got)
		}
		if tc.probed != nil && tc.want == "DiskFailing" && !errors.Is(got, tc.probed) {
			t.Errorf("%s: the cause is lost", tc.name)
		}
	}
}

func TestGuilty(t *testing.T) {
	of := func(name string, bytes, files int64) living {
		l := living{}
		l.Replica, l.Bytes, l.Files = "r", bytes, files
		l.TaskID = name
		return l
	}
	full := embedded.Room{Total: 1000 * mib, Free: mib, Names: 100_000, FreeNames: 50_000}
	names := embedded.Room{Total: 1000 * mib, Free: 500 * mib, Names: 100_000, FreeNames: 1}
	all := []living{of("small", mib, 90_000), of("large", 600*mib, 10), of("second", 300*mib, 20)}
	if one, ok := guilty(all, full); !ok || one.TaskID != "large" {
		t.Errorf("%+v", one)
	}
	if one, ok := guilty(all, names); !ok || one.TaskID != "small" {
		t.Errorf("%+v", one)
	}
	// Somebody else has filled the disk: ending a small task would not help.
	if one, ok := guilty([]living{of("small", 10*mib, 5)}, full); ok {
		t.Errorf("%+v", one)
	}
}
