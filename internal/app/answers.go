package app

import (
	"cmp"
	"context"
	"encoding/json"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/app/hosts"
	"github.com/fermi-cluster/fermi/internal/app/kinds"
	"github.com/fermi-cluster/fermi/internal/app/standing"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link/agency"
	"github.com/fermi-cluster/fermi/internal/server"
)

// asTask is work where only a training task will do.
func asTask(work api.Work, err error) (*api.TrainingTask, error) {
	if err != nil {
		return nil, err
	}
	task, ok := work.(*api.TrainingTask)
	if !ok {
		return nil, fault.New(fault.NotFound, "NotFound", fault.T("%s is no training task.", "%s 不是训练任务。", work.GetMeta().ID))
	}
	return task, nil
}

// The questions that servers ask the leader.
const (
	askCapacity = "capacity"
	askSpec     = "spec"
	askPreview  = "preview"
	askShare    = "share"
	askShares   = "shares"
	askOutage   = "outage"
	askDrained  = "drained"
	askWhy      = "why"
	askReplicas = "replicas"
	askMove     = "move"
	askProbe    = "probe"
	askLine     = "line"
	askJoin     = "join"
	askActivity = "activity"
	askUpgrade  = "upgrade"
)

// moveAnswer carries a refusal with its reason: a fault of the call itself would lose it.
type moveAnswer struct {
	Move api.Move `json:"move"`
	refused
}

type refused struct {
	Code    fault.Code `json:"code,omitempty"`
	Reason  string     `json:"reason,omitempty"`
	Message fault.Text `json:"message,omitzero"`
	Hint    fault.Text `json:"hint,omitzero"`
}

func refusedBy(err error) refused {
	if err == nil {
		return refused{}
	}
	e := fault.From(err)
	return refused{e.Code, e.Reason, e.Message, e.Hint}
}

// refusal is the leader's, unless the call itself failed.
func (r refused) refusal(err error) error {
	if err == nil && r.Code != "" {
		err = fault.New(r.Code, r.Reason, r.Message).WithHint(r.Hint)
	}
	return err
}

func (a *moveAnswer) result(err error) (api.Move, error) { return a.Move, a.refusal(err) }

// probeAnswer is likewise.
type probeAnswer struct {
	View server.ProbeView `json:"view"`
	refused
}

// workIn reads work of a kind; servers that knew one kind did not say which.
func workIn(kind api.Kind, body []byte) (api.Work, error) {
	info, ok := api.InfoOf(cmp.Or(kind, api.KindTrainingTask))
	if !ok || info.Class == "" {
		return nil, fault.New(fault.Invalid, "UnknownKind", fault.T("There is no kind of work %q.", "不存在名为 %q 的工作负载类型。", kind))
	}
	o := info.New().(api.Work)
	return o, json.Unmarshal(body, o)
}

// answers are the leader's side of the questions of other servers.
type answers struct {
	live   *live
	others *company
	hosts  *hosts.Hosts
	crew   *kinds.Crew
}

// to is what the leader tells another server.
func (a *answers) to(ctx context.Context, kind, about string, body []byte) ([]byte, error) {
	var out any
	var err error
	switch kind {
	case askWhy:
		var work api.Work
		if work, err = a.others.workByID(ctx, about); err == nil {
			out, err = a.live.Why(ctx, work)
		}
	case askCapacity:
		out, err = a.live.Capacity(ctx)
	case askOutage:
		out, err = a.live.Outage(ctx, about)
	case askDrained:
		out, err = a.live.Drained(ctx, about)
	case askReplicas:
		out, err = a.live.Replicas(ctx, about)
	case askSpec:
		out, err = a.live.spec(ctx, about)
	case askShares:
		out, err = a.live.Shares(ctx)
	case askShare:
		out, err = a.live.Share(ctx, about)
	case askPreview:
		var work api.Work
		if work, err = workIn(api.Kind(about), body); err == nil {
			out, err = a.live.Preview(ctx, work)
		}
	case askProbe:
		out, err = a.probe(ctx, about, body)
	case askLine:
		out, err = a.line(ctx, about, body)
	case askActivity:
		out, err = a.activity(ctx, about)
	case askJoin:
		out, err = a.join(ctx, body)
	case askUpgrade:
		up, bad := a.hosts.Upgrade(ctx, about)
		out = upgradeAnswer{up, refusedBy(bad)}
	case askLoad:
		out, err = a.crew.HeardAs(ctx, body)
	case askMove:
		out, err = a.move(ctx, about, body)
	default:
		err = fault.New(fault.NotFound, "NoSuchQuestion", fault.T("There is no question %q.", "不存在问题 %q。", kind))
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(out)
}

// probe is the leader's side.
func (a *answers) probe(ctx context.Context, taskID string, body []byte) (any, error) {
	var wish server.FaultWish
	if err := json.Unmarshal(body, &wish); err != nil {
		return nil, err
	}
	task, err := asTask(a.others.workByID(ctx, taskID))
	if err != nil {
		return nil, err
	}
	view, err := a.live.Probe(ctx, task, wish)
	return probeAnswer{view, refusedBy(err)}, nil
}

// move is the leader's side.
func (a *answers) move(ctx context.Context, taskID string, body []byte) (any, error) {
	var wish server.MoveWish
	if err := json.Unmarshal(body, &wish); err != nil {
		return nil, err
	}
	task, err := a.others.workByID(ctx, taskID)
	if err != nil {
		return nil, err
	}
	m, err := a.live.Move(ctx, task, wish)
	return moveAnswer{m, refusedBy(err)}, nil
}

// line is the leader's side of Line.
func (a *answers) line(ctx context.Context, id string, body []byte) (any, error) {
	var rank int
	if err := json.Unmarshal(body, &rank); err != nil {
		return nil, err
	}
	work, err := a.others.workByID(ctx, id)
	if err != nil {
		return nil, err
	}
	name, err := a.live.Line(ctx, work, rank)
	return lineAnswer{name, refusedBy(err)}, nil
}

// activity is the leader's side.
func (a *answers) activity(ctx context.Context, id string) (any, error) {
	e, err := standing.Environment(a.others.workByID(ctx, id))
	if err != nil {
		return nil, err
	}
	t, err := a.live.Activity(ctx, e)
	return activityAnswer{t, refusedBy(err)}, nil
}

// join is the leader's side.
func (a *answers) join(ctx context.Context, body []byte) (any, error) {
	var w agency.Wish
	if err := json.Unmarshal(body, &w); err != nil {
		return nil, err
	}
	joined, err := a.hosts.Join(ctx, w)
	return joinAnswer{joined, refusedBy(err)}, nil
}

// askLoad brings the leader what another server's gateway counted.
const askLoad = "load"

// heardLoad takes a gateway's report, here or at the leader.
func heardLoad(ctx context.Context, others *company, crew *kinds.Crew, r *serving.LoadReport) (*serving.LoadReply, error) {
	var reply *serving.LoadReply
	if asked, err := others.askWith(ctx, askLoad, "", r, &reply); asked || err != nil {
		return reply, err
	}
	return crew.Heard(ctx, r)
}
