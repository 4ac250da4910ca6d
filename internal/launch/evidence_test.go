package launch

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link"
)

// TestTheCulpritIsFound: a rank that lost another ends first; the other is given the time to say why.
func TestTheCulpritIsFound(t *testing.T) { eachWay(t, testTheCulpritIsFound) }

func testTheCulpritIsFound(t *testing.T, _ *world, make func(func(*engine.Replica), ...string) *replica) {
	r := make(several(2), "sh", "-c", `
		if [ $RANK = 0 ]; then
			echo 'RuntimeError: [./gloo/transport/tcp/pair.cc:598] Connection closed by peer [127.0.0.1]:1' >&2
			echo done > $FERMI_SHM/first
			exit 1
		fi
		until [ -e $FERMI_SHM/first ]; do :; done
		printf 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\nModuleNotFoundError: No module named x\n' >&2
		exit 1`)
	l := r.launch()
	r.generation(1, true)
	said := r.ranks("the culprit", func(s link.Ranks) bool { return s.Failed != nil && s.Failed.Rank == 1 })
	if f := said.Failed; f.Cause != "import" || f.Line != "ModuleNotFoundError: No module named x" || f.Fingerprint == "" || f.Code != 1 {
		t.Errorf("%+v", f)
	}
	eventually(t, "both are gone", func() bool { return len(r.marked()) == 0 })
	if err := r.w.server.hub.Stop(r.spec.Name, 0); err != nil {
		t.Error(err)
	}
	if err := l.wait(); err != nil {
		t.Error(err)
	}
	if e := r.exit(); e.Rank == nil || *e.Rank != 1 || e.Cause != "import" {
		t.Errorf("%+v", e)
	}
}

// TestTheLeaverIsNamed: a rank that ended well while another still needed it is the culprit, not the one that lost it.
func TestTheLeaverIsNamed(t *testing.T) { eachWay(t, testTheLeaverIsNamed) }

func testTheLeaverIsNamed(t *testing.T, _ *world, make func(func(*engine.Replica), ...string) *replica) {
	r := make(several(3), "sh", "-c", `
		case $RANK in
		0) exec sleep 1000;;
		1) echo > $FERMI_SHM/left; exit 0;;
		esac
		until [ -e $FERMI_SHM/left ]; do :; done
		sleep 0.2
		echo 'RuntimeError: [./gloo/transport/tcp/pair.cc:598] Connection closed by peer [127.0.0.1]:1' >&2
		exit 1`)
	l := r.launch()
	r.generation(1, true)
	// The one that lost it may be heard of first, where the other's process takes long to end.
	said := r.ranks("the leaver", func(s link.Ranks) bool { return s.Failed != nil && s.Failed.Rank == 1 })
	if f := said.Failed; f.Cause != "left-early" || f.Reason != engine.ReasonLeftEarly || f.Code != 0 || f.Fingerprint == "" {
		t.Errorf("%+v", f)
	}
	if err := r.w.server.hub.Stop(r.spec.Name, 0); err != nil {
		t.Error(err)
	}
	if err := l.wait(); err != nil {
		t.Error(err)
	}
}

// TestAVictimAlone: where nobody else fails the victim's end counts after a while.
func TestAVictimAlone(t *testing.T) {
	w := newWorld(t)
	r := w.replica(several(2), "sh", "-c", `
		if [ $RANK = 0 ]; then echo 'error: another rank was lost: EOF' >&2; exit 1; fi
		exec sleep 1000`)
	if err := os.WriteFile(filepath.Join(r.dir, fileImpatient), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l := r.launch()
	r.generation(1, false)
	if err := l.wait(); err != nil {
		t.Error(err)
	}
	if e := r.exit(); e.Cause != "peer-lost" || *e.Rank != 0 || e.Code != 1 {
		t.Errorf("%+v", e)
	}
}
