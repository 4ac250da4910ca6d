package silence

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link"
)

// four replicas of one rank each, in generation 2; the last has been silent for so long.
func four(silent time.Duration) *gang.Gang {
	task := &api.TrainingTask{Meta: api.Meta{ID: "t"}, Spec: api.TrainingTaskSpec{Roles: []api.Role{{Name: "w", Replicas: 4}}}}
	task.Status.Phase, task.Status.Generation = api.PhaseRunning, 2
	task.Status.Rendezvous = &api.Rendezvous{World: 4}
	g := &gang.Gang{Terms: gang.Terms{Task: task, Placement: &api.Placement{}}, World: 4}
	for i := range 4 {
		m := gang.Member{
			Name: engine.NameOf("t", "w", i, 1), Role: "w", Index: i, Stand: gang.Stand{Node: fmt.Sprint("n", i), Number: uint32(i)},
			Ranking: gang.Ranking{Ranks: 1, First: i}, State: engine.StateRunning, Attached: true,
		}
		m.Said.Generation, m.Said.Watched, m.Said.PeerPort = 2, true, 1
		g.Members = append(g.Members, m)
	}
	g.Silence = map[engine.Name]time.Duration{g.Members[3].Name: silent}
	return g
}

func hang(g *gang.Gang, list ...int) {
	for _, i := range list {
		g.Members[i].Said.Hung = []link.RankState{{Rank: i}}
	}
}

func TestJudge(t *testing.T) {
	last := []engine.Name{engine.NameOf("t", "w", 3, 1)}
	spares := func(g *gang.Gang) {
		g.Task.Spec.Roles[0].Spares = 1
		g.Task.Status.Rendezvous.Below = map[string]int{"w": 4}
		m := gang.Member{Name: "spare", Spare: true, Stand: gang.Stand{Number: 9}, State: engine.StateRunning, Attached: true}
		m.Said.Port, m.Said.Prepared = 1, true
		g.Spares = gang.Members{m}
	}
	peers := func(g *gang.Gang) {
		g.Task.Spec.Checkpoint = &api.Checkpoints{Peer: true}
		g.Task.Status.Rendezvous.Below = map[string]int{"w": 4}
		g.Members[0].Said.Copies = []link.Copy{{First: 0, Ranks: 4, Steps: []int64{5}}}
	}
	for _, c := range []struct {
		name   string
		silent time.Duration
		make   func(*gang.Gang)
		want   Verdict
	}{
		{"nobody is silent yet", 6 * time.Second, func(g *gang.Gang) { hang(g, 0, 1, 2) }, Verdict{Wait: 4 * time.Second}},
		{"the others go on", time.Hour, nil, Verdict{Told: last}},
		{"one of the others goes on", time.Hour, func(g *gang.Gang) { hang(g, 0, 1) }, Verdict{Told: last}},
		{"the gang stands still", 10 * time.Second, func(g *gang.Gang) { hang(g, 0, 1, 2) }, Verdict{Told: last, Wait: 20 * time.Second}},
		{"for 30 s", 30 * time.Second, func(g *gang.Gang) { hang(g, 0, 1, 2) }, Verdict{Told: last, Gone: last}},
		{"a rank failed of it", 30 * time.Second, func(g *gang.Gang) { g.Members[0].Said.Failed = &link.RankExit{} }, Verdict{Told: last, Gone: last}},
		{"nobody tells of progress", 30 * time.Second, func(g *gang.Gang) {
			for i := range g.Members {
				g.Members[i].Said.Watched = false
			}
		}, Verdict{Told: last, Gone: last}},
		{"the others wait for the next start", 30 * time.Second, func(g *gang.Gang) { g.Task.Status.Phase = api.PhaseRecovering }, Verdict{Told: last, Gone: last}},
		{"a spare waits", 10 * time.Second, func(g *gang.Gang) { spares(g); hang(g, 0, 1, 2) }, Verdict{Told: last, Gone: last, Spare: true}},
		{"a spare waits, and the others go on", time.Hour, spares, Verdict{Told: last}},
		{"the spare is on the silent node", 10 * time.Second, func(g *gang.Gang) {
			spares(g)
			g.Spares[0].Number = 3
			hang(g, 0, 1, 2)
		}, Verdict{Told: last, Wait: 20 * time.Second}},
		{"the spare is silent too", 10 * time.Second, func(g *gang.Gang) {
			spares(g)
			g.Silence["spare"] = 6 * time.Second
			hang(g, 0, 1, 2)
		}, Verdict{Told: last, Wait: 20 * time.Second}},
		{"a peer's copy waits", 10 * time.Second, func(g *gang.Gang) { peers(g); hang(g, 0, 1, 2) }, Verdict{Told: last, Gone: last, Spare: true}},
		{"the copy is with the silent one", 10 * time.Second, func(g *gang.Gang) {
			peers(g)
			g.Members[3].Said.Copies, g.Members[0].Said.Copies = g.Members[0].Said.Copies, nil
			hang(g, 0, 1, 2)
		}, Verdict{Told: last, Wait: 20 * time.Second}},
		{"it has ended", time.Hour, func(g *gang.Gang) { g.Members[3].State = engine.StateDone }, Verdict{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := four(c.silent)
			if c.make != nil {
				c.make(g)
			}
			u := g.Units(&g.Task.Status)[0]
			if diff := cmp.Diff(c.want, Judge(g, &u, g.Task.Status.Phase)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestLeaving: who shall end and does not hear it is lost after 30 s, whatever the others do.
func TestLeaving(t *testing.T) {
	g := four(12 * time.Second)
	if v := Leaving(g); len(v.Gone) != 0 || v.Wait != 18*time.Second || len(v.Told) != 1 {
		t.Errorf("%+v", v)
	}
	g = four(time.Minute)
	g.Others = []engine.Observation{{Name: "old"}, {Name: "well"}}
	g.Silence["old"] = time.Minute
	if v := Leaving(g); len(v.Gone) != 2 {
		t.Errorf("%+v", v)
	}
	if v := Aside(g); len(v.Gone) != 1 || v.Gone[0] != "old" {
		t.Errorf("%+v", v)
	}
}
