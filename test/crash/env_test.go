package crash

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/app/kinds"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/test/harness"
)

// A machine is an environment as the test knows it: what its last acknowledged verb wants, and what its home had when it was looked at last.
type machine struct {
	name    string
	wants   string // "running", "stopped", "gone"; "": a verb was not answered, and either may be
	id      string
	journal string
}

// opens says in the home that an attempt began, and D where another process has the home open.
const opens = `exec 9>>.lock; flock -n 9 || echo D >> journal; echo "S $FERMI_REPLICA" >> journal; exec sleep 100000`

// TestCrashEnvironments kills the server at random moments of creating, starting, stopping and deleting environments. Whatever the moment: what was
// acknowledged holds, no attempt is started twice, no home is open twice or loses a line, and of what was deleted nothing is left.
func TestCrashEnvironments(t *testing.T) {
	kinds.Ship()
	rnd := seeded(t)
	c, cl := launch(t, "up", "--demo")
	all := make([]*machine, 5)
	for i := range all {
		all[i] = &machine{name: fmt.Sprintf("m%d", i), wants: "gone"}
	}
	verbs, made := 0, len(all)
	for range envInt("FERMI_CRASH_ROUNDS", 3) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			for ctx.Err() == nil {
				m := all[rnd.IntN(len(all))]
				verb := map[string][]string{"gone": {"create"}, "running": {"stop", "stop", "delete"}, "stopped": {"start", "start", "delete"}}[m.wants]
				if len(verb) == 0 { // what the last one came to is seen when all is settled
					return
				}
				m.say(ctx, cl, verb[rnd.IntN(len(verb))])
				verbs++
			}
		}()
		pause(rnd, 1500*time.Millisecond)
		c.Kill()
		cancel()
		<-done
		start(t, c)
		for _, m := range all {
			m.settle(t, cl, c.Dir)
			if m.wants == "gone" && m.id != "" { // a name may be used again; the journal is another's then
				made++
				*m = machine{name: fmt.Sprintf("m%d", made), wants: "gone"}
			}
		}
	}
	attempts := 0
	for _, m := range all {
		attempts += strings.Count(m.journal, "S ")
		if m.wants != "gone" {
			m.say(t.Context(), cl, "delete")
			m.settle(t, cl, c.Dir)
		}
	}
	harness.Eventually(t, "nothing is left of deleted ones", func() bool {
		homes, err := filepath.Glob(filepath.Join(c.Dir, "engine", "homes", "*"))
		return err == nil && len(homes) == 0
	})
	t.Logf("%d verbs, %d environments, %d attempts of the last ones", verbs, made, attempts)
	if verbs == 0 {
		t.Error("nothing was asked for: the test proves nothing")
	}
}

// say asks for something, and notes what is wanted then.
func (m *machine) say(ctx context.Context, cl *client.Client, verb string) {
	var err error
	after := map[string]string{"create": "running", "start": "running", "stop": "stopped", "delete": "gone"}[verb]
	m.wants = ""
	switch verb {
	case "create":
		e := &devenv.DevEnvironment{Meta: api.Meta{Name: m.name}}
		e.Spec.Command = []string{"sh", "-c", opens}
		e.Spec.Resources.CPU, e.Spec.Resources.Memory, e.Spec.Storage = 100, 64<<20, 1<<30
		_, err = client.Create(ctx, cl, e)
	case "delete":
		err = cl.Delete(ctx, devenv.Kind, "", m.name)
	default:
		err = client.Verb(ctx, cl, devenv.Kind, "", m.name, verb, nil)
	}
	if err == nil {
		m.wants = after
	}
}

// settle waits until it is what is wanted, and holds its home against what was seen before.
func (m *machine) settle(t *testing.T, cl *client.Client, data string) {
	t.Helper()
	var e *devenv.DevEnvironment
	harness.Eventually(t, fmt.Sprintf("%s is %q", m.name, m.wants), func() bool {
		now, err := client.Get[*devenv.DevEnvironment](t.Context(), cl, "", m.name)
		if fault.Is(err, fault.NotFound) {
			if m.wants == "" {
				m.wants = "gone"
			}
			e = nil
			return m.wants == "gone"
		}
		if err != nil || now.Meta.DeletedAt != nil {
			if err == nil && m.wants == "" {
				m.wants = "gone"
			}
			return false
		}
		e = now
		if m.wants == "" {
			m.wants = map[bool]string{true: "stopped", false: "running"}[e.Spec.Stop]
		}
		switch m.wants {
		case "running":
			return e.Status.Phase == api.PhaseRunning && strings.Contains(journalOf(data, e.Meta.ID), "S "+string(engine.NameOf(e.Meta.ID, devenv.Role, 0, e.Status.Attempt))+"\n")
		case "stopped":
			return e.Status.Phase == api.PhaseStopped
		}
		return false
	})
	if e == nil {
		return
	}
	if m.id != e.Meta.ID { // it was deleted, and made again under its name
		m.id, m.journal = e.Meta.ID, ""
	}
	now := journalOf(data, m.id)
	if !strings.HasPrefix(now, m.journal) {
		t.Errorf("the home of %s lost something: %q, and before %q", m.name, now, m.journal)
	}
	m.journal = now
	seen := map[string]bool{}
	for _, line := range strings.Split(strings.TrimSpace(now), "\n") {
		if line == "D" || seen[line] && line != "" {
			t.Errorf("%s: %q twice: %q", m.name, line, now)
		}
		seen[line] = true
	}
}

// journalOf is what the attempts of an environment wrote in its home; "": nothing yet.
func journalOf(data, id string) string {
	text, err := os.ReadFile(filepath.Join(data, "engine", "homes", id, "journal"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err.Error()
	}
	return string(text)
}
