package launch

import (
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/cgroup"
)

// A program that forks without end has no more processes than its limit, what it dies of is told by name,
// and its launcher lives.
func TestForkBombIsLimitedByName(t *testing.T) {
	t.Parallel()
	if s := cgroup.Detect(); !s.Limited("pids") {
		t.Skipf("no limit on processes here: %v", s)
	}
	const limit = 48
	script := sh(`i=0; while [ $i -lt 500 ]; do sleep 1000 & i=$((i+1)); done; echo made all`)
	w := newWorld(t)
	for name, make := range map[string]func() *replica{
		"behind a wall": func() *replica { return w.walled(func(r *engine.Replica) { r.Resources.Processes = limit }, script...) },
		"without one": func() *replica {
			return w.replica(func(r *engine.Replica) { r.Resources.Processes = limit }, script...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := make()
			r.w.t = t
			l := r.grouped(cgroup.Limits{Pids: limit})
			r.goes()
			if err := l.wait(); err != nil {
				t.Fatal(err)
			}
			e := r.exit()
			if e.Reason != engine.ReasonProcessLimit || e.Cause != "process-limit" || !strings.Contains(e.Message, "process limit of 48 was reached") {
				t.Errorf("%+v", e)
			}
			if lines := r.lines(); slices.Contains(lines, "O:made all") {
				t.Errorf("%v", lines)
			}
		})
	}
}

// What the engine makes of a request: only assigned cards, and a limit on processes, on virtual nodes too.
func TestDevicesAreClosedBehindAWall(t *testing.T) {
	t.Parallel()
	s := cgroup.Detect()
	if !s.Rules || os.Geteuid() != 0 {
		t.Skip("no devices rule here")
	}
	w := newWorld(t)
	card, other := w.dir+"/card", w.dir+"/other"
	for path, minor := range map[string]uint32{card: 11, other: 235} {
		major := uint32(1)
		if minor == 235 {
			major = 10
		}
		if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(major, minor))); err != nil {
			t.Skip(err)
		}
		if err := os.Chmod(path, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	r := w.replica(func(r *engine.Replica) { r.Resources = api.Resources{} }, sh(`for f in `+card+` `+other+` /dev/null; do (: <$f) 2>/dev/null && echo open || echo closed; done`)...)
	l := r.grouped(cgroup.Limits{Devices: true, Open: cgroup.DevicesOf([]string{card})})
	r.goes()
	if err := l.wait(); err != nil {
		t.Fatal(err)
	}
	if got := r.lines(); !slices.Equal(got, []string{"O:open", "O:closed", "O:open"}) {
		t.Errorf("%v", got)
	}
}
