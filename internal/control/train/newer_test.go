package train

import (
	"encoding/hex"
	"log/slog"
	"strings"
	"testing"

	"github.com/zeebo/blake3"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/blob/folder"
	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link"
)

// TestWhatCantBeReadIsKnown: a leader that reads the checkpoints of a task knows of those whose record is torn or of a newer
// Fermi, and which of them are better than what it could begin from.
func TestWhatCantBeReadIsKnown(t *testing.T) {
	st, err := folder.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	sum := blake3.Sum256([]byte(`{"version":9}`))
	newer := `{"version":9}` + "\n" + hex.EncodeToString(sum[:]) + "\n"
	for name, raw := range map[string]string{past()[0].Name: newer, past()[2].Name: "torn"} {
		if _, err := st.Put(t.Context(), "task-1/manifests/"+name, strings.NewReader(raw)); err != nil {
			t.Fatal(err)
		}
	}
	c := New(Config{Clock: clock.Real, Log: slog.New(slog.DiscardHandler), Repo: func(tier, task string) (*ckpt.Repo, error) {
		if tier == link.TierLocal {
			return nil, nil
		}
		return ckpt.New(ckpt.Config{Store: st, Prefix: task})
	}})
	c.durable, c.away = map[string]*checkpoints{}, nil
	s := &seen{task: task(api.PhaseInitializing, 2, 1), members: []member{at(0, 2, engine.StateCreated, true, nil)}}
	c.origins(t.Context(), s)
	if len(s.origins) != 0 || len(s.passed) != 2 || s.passed[0].step != 3 || !s.passed[0].newer || s.passed[1].step != 1 || s.passed[1].newer || s.unread {
		t.Fatalf("%+v %+v", s.origins, s.passed)
	}
	c.durable["task-1"].add("task-1", past()[1].Name, 2)
	if c.origins(t.Context(), s); len(s.passed) != 1 || s.passed[0].step != 3 {
		t.Errorf("an older one that can't be read is nobody's concern: %+v", s.passed)
	}
	s.task = rewound(s.task, now) // to step 2: what is beyond counts no more
	if c.origins(t.Context(), s); len(s.passed) != 0 {
		t.Errorf("%+v", s.passed)
	}
}

// TestANewerFermisCheckpointIsWaitedFor: the task begins neither from an older one nor at nothing, and says why; states in
// memory are newer still.
func TestANewerFermisCheckpointIsWaitedFor(t *testing.T) {
	for _, origins := range [][]api.CheckpointOrigin{nil, past()[2:]} {
		s := gathered(origins)
		s.durable, s.passed = true, []unreadable{{name: past()[0].Name, step: 3, why: api.T("Its format 9 is newer.", "格式过新。"), newer: true}}
		p := decide(s, now)
		if p.status.Rendezvous != nil || p.status.Reason != "CheckpointNewer" || !strings.Contains(p.status.Message.EN, "format 9") || len(p.events) != 1 || !p.events[0].warning {
			t.Errorf("%+v %+v", p.status, p.events)
		}
		s.task.Status.From = &api.CheckpointOrigin{TaskID: "task-0", Name: "a"}
		if p = decide(s, now); p.status.Reason != "CheckpointNewer" || len(p.stop) > 0 {
			t.Errorf("one that was told where to begin: %+v", p.status)
		}
		for i := range s.members {
			s.members[i].said.Held = []int64{7}
		}
		if r := decide(s, now).status.Rendezvous; r == nil || r.Restore != 7 {
			t.Errorf("%+v", r)
		}
	}
}

// TestATornCheckpointIsPassedOver, and people are told.
func TestATornCheckpointIsPassedOver(t *testing.T) {
	s := gathered(past()[1:])
	s.passed = []unreadable{{name: past()[0].Name, step: 3, why: api.T("It is torn.", "不完整。")}}
	p := decide(s, now)
	if r := p.status.Rendezvous; r == nil || r.Restore != 2 {
		t.Fatalf("%+v", r)
	}
	for _, e := range p.events {
		if e.reason == "CheckpointUnreadable" && e.warning && strings.Contains(e.message.EN, "step 3") && strings.Contains(e.message.EN, "torn") {
			return
		}
	}
	t.Errorf("nobody was told: %+v", p.events)
}
