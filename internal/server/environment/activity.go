package environment

import (
	"context"
	"net/http"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/activity"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/idle"
	"github.com/fermi-cluster/fermi/internal/quota"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/objects"
	"github.com/fermi-cluster/fermi/internal/server/rest"
)

// Live is what the leader knows of environments.
type Live interface {
	// Activity asks the launcher of an environment for its signals. Fault Unavailable: it can't be asked now.
	Activity(ctx context.Context, e *devenv.DevEnvironment) (activity.Table, error)
	// Policy is the operator's word about environments.
	Policy() devenv.Policy
}

// Environments serves it. Safe for concurrent use.
type Environments struct {
	finder *objects.Finder
	live   Live // nil: nobody knows
	policy devenv.Policy
	room   quota.Environments
	clock  clock.Clock
}

// New takes what the leader knows, if that is there.
func New(f *objects.Finder, live any, c clock.Clock) *Environments {
	s := &Environments{finder: f, clock: c}
	if l, ok := live.(Live); ok {
		s.live, s.policy = l, l.Policy()
	}
	s.room = quota.Environments{
		Find: func(ctx context.Context, key api.Key) (api.Object, error) { return f.Truth.Find(ctx, key, 0) },
		List: func(ctx context.Context) (list []api.Object, err error) {
			all, err := f.Truth.List(ctx, devenv.Kind, "", 0)
			all.Ascend("", func(o api.Object) bool { list = append(list, o); return true })
			return list, err
		}, User: s.policy.User,
	}
	return s
}

// Activity is what shows whether somebody works in an environment, and what follows.
type Activity struct {
	Running  bool            `json:"running"`
	After    api.Duration    `json:"after,omitempty" doc:"It is stopped after so long without activity; absent: never."`
	Counts   []activity.Name `json:"counts" doc:"Signals that count as activity."`
	Signals  []Signal        `json:"signals" doc:"All signals, as they are at this moment; none where it does not run."`
	Active   bool            `json:"active" doc:"A signal that counts is active now."`
	KeptBy   activity.Name   `json:"keptBy,omitempty" doc:"The signal that keeps it, or that was active last."`
	Message  fault.Text      `json:"message,omitzero" doc:"The same for people."`
	Since    *time.Time      `json:"since,omitempty" doc:"When the last activity was."`
	WarnedAt *time.Time      `json:"warnedAt,omitempty"`
	StopsAt  *time.Time      `json:"stopsAt,omitempty" doc:"When it is stopped if nothing happens."`
	Idle     api.Duration    `json:"idle" doc:"How long nothing has happened."`
	CostHour float64         `json:"costHour" doc:"What it costs an hour."`
	IdleCost float64         `json:"idleCost" doc:"What it has cost since the last activity."`
}

// Signal is what one signal says.
type Signal struct {
	Name   activity.Name `json:"name" enum:"terminal,notebook,ports,process,cpu,device,deviceMemory,training"`
	Active bool          `json:"active" doc:"It is active now."`
	Last   *time.Time    `json:"last,omitempty" doc:"When it was active last; absent: not since it was started."`
	Value  fault.Text    `json:"value,omitzero" doc:"What was seen there."`
}

func shown(list []activity.Signal) []Signal {
	out := make([]Signal, len(list))
	for i, s := range list {
		out[i] = Signal{s.Name, s.Active, s.Last, fault.Unpack(s.Value)}
	}
	return out
}

// Routes are those of environments.
func (s *Environments) Routes(reg *rest.Schemas, rules *access.Rules) []*rest.Route {
	row := devenv.Row
	if _, known := api.InfoOf(row.Kind); !known {
		return nil
	}
	rules.AsGet("getActivity", row.Kind)
	return []*rest.Route{{
		Method: http.MethodGet, Path: rest.Prefix + "/" + row.Plural + "/{name}/activity", ID: "getActivity", Tag: row.Plural, Kind: row.Kind,
		Summary: "Whether somebody works in an environment: its signals at this moment, what keeps it, and when it is stopped.",
		Query:   []rest.Param{rest.ParamProject, rest.ParamRevision}, Data: rest.SchemaOf[Activity](reg), Handle: s.activity,
	}}
}

func (s *Environments) activity(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	name := c.R.PathValue("name")
	c.Note.Names(devenv.Kind, name)
	f, err := s.finder.Resolve(ctx, c, devenv.Row, name)
	if err != nil {
		return nil, err
	}
	e := f.Object.(*devenv.DevEnvironment)
	out := Activity{After: api.Duration(e.IdleAfter(s.policy)), Counts: e.IdleCounts(), Signals: []Signal{}}
	if len(out.Counts) == 0 {
		out.Counts = activity.All
	}
	reply := &rest.Reply{Data: &out, Revision: e.Meta.Revision}
	if e.Status.Phase != api.PhaseRunning || e.Saves() || f.Archived {
		out.Message = fault.T("It does not run.", "未在运行。")
		return reply, nil
	}
	out.Running = true
	if s.live == nil {
		return nil, errUnknown
	}
	t, err := s.live.Activity(ctx, e)
	if err != nil {
		return nil, err
	}
	now := s.clock.Now().UTC()
	t = e.WithTraining(t, now)
	v := s.judge(e, t, now)
	out.Signals, out.Active, out.KeptBy, out.Idle = shown(t.Signals), v.Active, v.By, api.Duration(now.Sub(v.Since).Round(time.Second))
	since := v.Since.UTC()
	out.Since, out.Message = &since, keptText(v, now)
	if !v.StopsAt.IsZero() {
		stops := v.StopsAt.UTC()
		out.StopsAt = &stops
	}
	if i := e.Status.Idle; i != nil && !v.Clear {
		out.WarnedAt = i.WarnedAt
	}
	if v.Active {
		out.Idle = 0
	}
	rows, err := s.finder.History.UsageOf(ctx, e.Meta.ID)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if row.Stop.IsZero() {
			out.CostHour += row.PriceHour
		}
	}
	out.IdleCost = out.CostHour * out.Idle.Std().Hours()
	return reply, nil
}

var errUnknown = fault.New(fault.Unavailable, "NotKnown", fault.T("This server can't ask it; try again in a moment.", "本服务暂时无法询问，请稍后重试。"))

// judge applies its rule to a table that was asked for just now.
func (s *Environments) judge(e *devenv.DevEnvironment, t activity.Table, now time.Time) idle.Verdict {
	seen := idle.Seen{Table: t, Heard: now}
	if k := e.Spec.Kept; k != nil {
		seen.Kept = *k
	}
	if i := e.Status.Idle; i != nil && i.WarnedAt != nil {
		seen.Warned = *i.WarnedAt
	}
	return idle.Judge(idle.Rule{After: e.IdleAfter(s.policy), Counts: e.IdleCounts()}, seen, now)
}

// keptText says what keeps it.
func keptText(v idle.Verdict, now time.Time) fault.Text {
	by := v.By.Text()
	if v.Active {
		return fault.T("Kept alive by: %[1]s, now", "保持运行的原因：%[2]s，当前", by.EN, by.ZH)
	}
	ago := now.Sub(v.Since)
	if ago < time.Minute {
		return fault.T("Kept alive by: %[1]s, %[3]d s ago", "保持运行的原因：%[2]s，%[3]d 秒前", by.EN, by.ZH, int(ago.Seconds()))
	}
	return fault.T("Kept alive by: %[1]s, %[3]d min ago", "保持运行的原因：%[2]s，%[3]d 分钟前", by.EN, by.ZH, int(ago.Minutes()))
}
