package launch

import (
	"strings"
	"testing"

	"github.com/fermi-cluster/fermi/internal/engine"
)

// Who writes more than asked for is ended by name, wherever in its folders it writes.
func TestDiskLimit(t *testing.T) {
	t.Parallel()
	for where, script := range map[string]string{
		"code":     `head -c 30000000 /dev/zero > big`,
		"output":   `head -c 30000000 /dev/zero > $FERMI_OUTPUT/big`,
		"tmp":      `head -c 30000000 /dev/zero > $TMPDIR/big`,
		"/tmp":     `head -c 30000000 /dev/zero > /tmp/big`,
		"/var/tmp": `head -c 30000000 /dev/zero > /var/tmp/big`,
		"home":     `head -c 30000000 /dev/zero > $HOME/big`,
		"nameless": `exec 9>$TMPDIR/big; rm $TMPDIR/big; head -c 30000000 /dev/zero >&9`,
	} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			r := w.walled(func(s *engine.Replica) { s.Resources.EphemeralDisk = 16 << 20 }, sh(script+`; echo written; trap 'exit 0' TERM; while :; do sleep 0.05; done`)...)
			e := r.run()
			if e.Reason != engine.ReasonDiskLimit || !strings.Contains(e.Message, "more than its limit of 16Mi") {
				t.Errorf("%+v", e)
			}
		})
	}
}

func TestWithinTheDiskLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.walled(func(s *engine.Replica) { s.Resources.EphemeralDisk = 64 << 20 }, sh(`head -c 30000000 /dev/zero > $TMPDIR/big; sleep 3`)...)
	if e := r.run(); e.Reason != engine.ReasonSucceeded {
		t.Errorf("%+v", e)
	}
}
