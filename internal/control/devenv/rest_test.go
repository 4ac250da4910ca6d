package devenv

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/activity"
	kind "github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/internal/control/work"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/quota"
)

// launcher answers as one does.
type launcher struct {
	table activity.Table
	text  string // in its place
	err   error
	asked int
}

func (l *launcher) AskRank(_ context.Context, _ engine.Name, p link.Probe) (link.Probed, error) {
	if p.Kind != activity.Ask || p.Generation < 1 {
		return link.Probed{}, errors.New("asked for something else")
	}
	l.asked++
	text, err := json.Marshal(l.table)
	if l.text != "" {
		text = []byte(l.text)
	}
	return link.Probed{Text: string(text)}, errors.Join(l.err, err)
}

func running(now time.Time) *work.Seen {
	e := &kind.DevEnvironment{Meta: api.Meta{ID: "env-1", Name: "lab", Project: "lab", Owner: "ann"}}
	e.Default()
	e.Spec.Idle = &kind.Idle{After: api.Duration(time.Hour)}
	started := now.Add(-time.Minute)
	e.Status.Status = work.Status{Phase: api.PhaseRunning, Reason: "Started", Attempt: 1, Zones: []string{"z"}, StartedAt: &started, Replicas: api.ReplicaCount{Total: 1, Running: 1}}
	s := seen(e)
	s.Placement = &api.Placement{Spec: api.PlacementSpec{Attempt: 1}}
	name := engine.NameOf("env-1", kind.Role, 0, 1)
	s.Members = []work.Member{{
		Name: name, Role: kind.Role, Attempt: 1, Attached: true, Node: &api.Node{Spec: api.NodeSpec{Zone: "z"}},
		Known: engine.Observation{Name: name, State: engine.StateRunning, Started: started},
	}}
	return s
}

// turn is one of the controller's, on what the last one wrote.
func turn(s *work.Seen, r *rules, now time.Time) work.Plan {
	s.Signals, s.NoRoom = nil, nil
	r.Look(context.Background(), s, now)
	p := r.Decide(s, now)
	if p.Next != nil {
		s.Work = p.Next
		s.View = p.Next.Workload()
	}
	return p
}

// TestIdle: asked only when that is due, warned, kept, warned again, stopped, and said why.
func TestIdle(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := running(now)
	l := &launcher{table: activity.Table{At: now, Since: now}}
	r := &rules{watch: newWatch(l, kind.Policy{}, quota.Environments{}, nil, nil)}
	at := func(minutes int) (time.Time, work.Plan) {
		then := now.Add(time.Duration(minutes) * time.Minute)
		l.table.At = then
		return then, turn(s, r, then)
	}
	if _, p := at(0); p.Next != nil || p.Wake != 55*time.Minute || l.asked != 1 {
		t.Fatalf("at first: %+v, asked %d", p, l.asked)
	}
	if _, p := at(30); p.Next != nil || p.Wake != 25*time.Minute || l.asked != 1 {
		t.Fatalf("in between: %+v, asked %d", p, l.asked)
	}
	then, p := at(55)
	if p.Next == nil || p.Say != "idle:300" || len(p.Events) != 1 || p.Events[0].Reason != "IdleSoon" || l.asked != 2 {
		t.Fatalf("the warning: %+v", p)
	}
	if i := s.Work.(*kind.DevEnvironment).Status.Idle; i == nil || !i.WarnedAt.Equal(then) || i.Stopped {
		t.Fatalf("the warning: %+v", i)
	}
	kept := then.Add(time.Minute)
	s.Work.(*kind.DevEnvironment).Spec.Kept = &kept
	if _, p := at(57); p.Next == nil || s.Work.(*kind.DevEnvironment).Status.Idle != nil || p.Say != "" {
		t.Fatalf("kept: %+v", p)
	}
	if _, p := at(111); p.Say != "idle:300" {
		t.Fatalf("warned again: %+v", p)
	}
	if _, p := at(116); p.Next == nil || !s.View.Stop || p.Events[0].Reason != idleReason {
		t.Fatalf("stopped: %+v", p)
	}
	s.Members[0].Known.State, s.Members[0].Known.Exit = engine.StateDone, &engine.Exit{Reason: engine.ReasonStopped}
	if _, p := at(117); p.Next == nil {
		t.Fatal("it does not end")
	}
	e := s.Work.(*kind.DevEnvironment)
	if e.Status.Phase != api.PhaseStopped || e.Status.Reason != idleReason || !strings.Contains(e.Status.Message.EN, "kept by request") || !strings.Contains(e.Status.Message.ZH, "已请求保留") {
		t.Errorf("%+v", e.Status)
	}
}

// TestUnheard: a launcher that does not answer, or answers nonsense, is no reason to stop anything.
func TestUnheard(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := running(now)
	l := &launcher{table: activity.Table{At: now, Since: now}}
	r := &rules{watch: newWatch(l, kind.Policy{}, quota.Environments{}, nil, nil)}
	turn(s, r, now)
	for name, spoil := range map[string]func(){
		"silent":         func() { l.err = fault.New(fault.Unavailable, "NotAttached", fault.T("no", "否")) },
		"nonsense":       func() { l.err, l.text = nil, "{" },
		"unknown fields": func() { l.text = `{"at":"2026-01-02T03:04:05Z","since":"2026-01-02T03:04:05Z","signals":[],"more":1}` },
		"unknown signal": func() {
			l.text = `{"at":"2026-01-02T03:04:05Z","since":"2026-01-02T03:04:05Z","signals":[{"name":"x","active":false}]}`
		},
	} {
		spoil()
		p := turn(s, r, now.Add(3*time.Hour))
		if p.Next != nil || p.Say != "" || p.Wake <= 0 || p.Wake > askAgain {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// TestSchedule: what the clock says is done once, what was due before it was set is not, and a start that is over the quota is told.
func TestSchedule(t *testing.T) {
	now := time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC) // a Monday
	s := running(now)
	e := s.Work.(*kind.DevEnvironment)
	e.Spec.Idle = nil
	e.Spec.Schedule = &kind.Schedule{Start: "0 9 * * 1-5", Stop: "0 19 * * *"}
	project := &api.Project{Meta: api.Meta{Name: e.Meta.Project}}
	queue := &api.Queue{Meta: api.Meta{Name: e.Workload().Queue}, Spec: api.QueueSpec{Projects: []string{e.Meta.Project}}}
	r := &rules{watch: newWatch(&launcher{}, kind.Policy{}, quota.Environments{
		Find: func(_ context.Context, k api.Key) (api.Object, error) {
			switch k.Kind {
			case api.KindProject:
				return project, nil
			case api.KindQueue:
				return queue, nil
			}
			return nil, fault.New(fault.NotFound, "NotFound", fault.T("", ""))
		},
		List: func(context.Context) ([]api.Object, error) { return nil, nil },
	}, nil, nil)}
	if p := turn(s, r, now); p.Next == nil || s.View.Stop || p.Wake != 9*time.Hour {
		t.Fatalf("when it is set: %+v", p)
	}
	if p := turn(s, r, now.Add(time.Hour)); p.Next != nil || p.Wake != 8*time.Hour {
		t.Fatalf("in between: %+v", p)
	}
	evening := now.Add(9 * time.Hour)
	if p := turn(s, r, evening); p.Next == nil || !s.View.Stop || len(p.Events) != 1 || p.Events[0].Reason != "ScheduledStop" {
		t.Fatalf("in the evening: %+v", p)
	}
	s.Members[0].Known.State, s.Members[0].Known.Exit = engine.StateDone, &engine.Exit{Reason: engine.ReasonStopped}
	turn(s, r, evening.Add(time.Second))
	e = s.Work.(*kind.DevEnvironment)
	if e.Status.Phase != api.PhaseStopped || e.Status.Reason != scheduledReason {
		t.Fatalf("%+v", e.Status)
	}
	s.Placement, s.Members = nil, nil
	if p := turn(s, r, evening.Add(time.Minute)); p.Wake != 14*time.Hour-time.Minute {
		t.Fatalf("over night: %+v", p)
	}
	morning := now.Add(23 * time.Hour)
	r.room.User.Running = 1
	other := &kind.DevEnvironment{Meta: api.Meta{ID: "env-2", Name: "other", Project: "lab", Owner: "ann"}}
	r.room.List = func(context.Context) ([]api.Object, error) { return []api.Object{other}, nil }
	full := *s
	if p := turn(&full, r, morning); len(p.Events) != 1 || p.Events[0].Reason != "ScheduleRefused" || !strings.Contains(p.Events[0].Message.EN, "lab/other") || !full.View.Stop {
		t.Errorf("without room: %+v", p)
	}
	other.Spec.Stop = true
	queue.Spec.Projects = []string{"vips"}
	refused := *s
	if p := turn(&refused, r, morning); len(p.Events) != 1 || p.Events[0].Reason != "ScheduleRefused" || !strings.Contains(p.Events[0].Message.EN, "may not use the queue") || !refused.View.Stop {
		t.Errorf("with a queue that is not its project's any more: %+v", p)
	}
	queue.Spec.Projects = []string{e.Meta.Project}
	p := turn(s, r, morning)
	if e = s.Work.(*kind.DevEnvironment); p.Next == nil || s.View.Stop || !e.IsDue() || p.Events[0].Reason != "ScheduledStart" {
		t.Fatalf("in the morning: %+v", p)
	}
	if p := turn(s, r, morning.Add(time.Second)); p.Next == nil || s.View.Phase != api.PhasePending {
		t.Fatalf("it begins: %+v", p)
	}
	e = s.Work.(*kind.DevEnvironment)
	if e.Status.Schedule == nil || e.Status.Schedule.Stopped != nil || !e.Status.Schedule.Since.Equal(morning) {
		t.Errorf("what was heeded: %+v", e.Status.Schedule)
	}
}
