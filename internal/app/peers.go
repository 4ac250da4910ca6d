package app

import (
	"cmp"
	"context"
	"encoding/json"
	"net"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/control/probe"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/run"
	"github.com/fermi-cluster/fermi/internal/server"
	"github.com/fermi-cluster/fermi/internal/store"
)

// outsideLease is the leader's with an etcd outside: another server waits to take over. The store's
// own is for one server alone, which gains nothing from losing it early.
const outsideLease = 3

// outside says that there is an etcd outside, and so perhaps other servers.
func (p *part) outside() bool { return len(p.cfg.Etcd.Endpoints) > 0 }

func (p *part) leaseSeconds() int {
	if p.outside() {
		return outsideLease
	}
	return 0
}

// openPeers opens the door for the other servers.
func (p *part) openPeers() (err error) {
	if !p.outside() {
		return nil
	}
	if p.peerL, err = net.Listen("tcp", p.cfg.Doors.Peers); err != nil {
		return fault.New(fault.Conflict, "AddressInUse", fault.T("Can't listen on %s for the other servers.", "无法在 %s 上监听其他服务。", p.cfg.Doors.Peers)).
			WithHint(fault.T("Choose another address with --peer-listen.", "可用 --peer-listen 换一个地址。")).Because(err)
	}
	p.peers, err = link.NewPeers(link.PeersConfig{
		Hub: p.hub, Keys: p.tokens.Keys, Name: p.cfg.Name, Self: p.peerL.Addr().String(), Zone: p.cfg.Zone, Contact: p.store.Contact,
		Log: p.cfg.Log.With("part", "peers"), Clock: clock.Real,
	})
	return err
}

// memberName is what a server is called in the election: its name and where its peers dial it.
func (p *part) memberName() string {
	if p.peers == nil {
		return p.cfg.Name
	}
	return p.cfg.Name + "@" + p.peerL.Addr().String()
}

// runPeers answers the other servers, and knows who they are.
func (p *part) runPeers(ctx context.Context) error {
	var g run.Group
	g.Add("serve", func(ctx context.Context) error { return p.peers.Serve(ctx, p.peerL) })
	g.Add("forward", p.peers.Run)
	g.Add("members", func(ctx context.Context) error {
		p.store.WatchMembers(ctx, func(list []store.Member) {
			servers := make([]link.Server, 0, len(list))
			for _, m := range list {
				name, addr, _ := strings.Cut(m.Name, "@")
				servers = append(servers, link.Server{Name: name, Address: addr, Epoch: m.Epoch.Revision})
			}
			p.peers.Set(servers)
		})
		return nil
	})
	if p.cfg.Zone != "" {
		g.Add("probe", func(ctx context.Context) error {
			select {
			case <-ctx.Done():
				return nil
			case <-p.store.Ready():
			}
			return probe.New(probe.Config{
				Zone: p.cfg.Zone, Peers: p.peers, Store: p.store, Clock: clock.Real, Log: p.cfg.Log.With("part", "probe"),
			}).Run(ctx)
		})
	}
	return g.Run(ctx)
}

// workByID finds work for its launcher, also when another server knew of it first.
func (p *part) workByID(ctx context.Context, id string) (api.Work, error) {
	o, err := store.WorkByID(ctx, p.store, id, 0)
	if fault.Is(err, fault.NotFound) && p.peers != nil {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		var now int64
		if now, err = p.store.Now(ctx); err == nil {
			o, err = store.WorkByID(ctx, p.store, id, now)
		}
	}
	return o, err
}

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

// answerProbe is the leader's side.
func (p *part) answerProbe(ctx context.Context, taskID string, body []byte) (any, error) {
	var wish server.FaultWish
	if err := json.Unmarshal(body, &wish); err != nil {
		return nil, err
	}
	task, err := asTask(p.workByID(ctx, taskID))
	if err != nil {
		return nil, err
	}
	view, err := (*live)(p).Probe(ctx, task, wish)
	return probeAnswer{view, refusedBy(err)}, nil
}

// answerMove is the leader's side.
func (p *part) answerMove(ctx context.Context, taskID string, body []byte) (any, error) {
	var wish server.MoveWish
	if err := json.Unmarshal(body, &wish); err != nil {
		return nil, err
	}
	task, err := p.workByID(ctx, taskID)
	if err != nil {
		return nil, err
	}
	m, err := (*live)(p).Move(ctx, task, wish)
	return moveAnswer{m, refusedBy(err)}, nil
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

// answer is what the leader tells another server.
func (p *part) answer(ctx context.Context, kind, about string, body []byte) ([]byte, error) {
	var out any
	var err error
	switch kind {
	case askWhy:
		var work api.Work
		if work, err = p.workByID(ctx, about); err == nil {
			out, err = (*live)(p).Why(ctx, work)
		}
	case askCapacity:
		out, err = (*live)(p).Capacity(ctx)
	case askOutage:
		out, err = (*live)(p).Outage(ctx, about)
	case askDrained:
		out, err = (*live)(p).Drained(ctx, about)
	case askReplicas:
		out, err = (*live)(p).Replicas(ctx, about)
	case askSpec:
		out, err = (*live)(p).spec(ctx, about)
	case askShares:
		out, err = (*live)(p).Shares(ctx)
	case askShare:
		out, err = (*live)(p).Share(ctx, about)
	case askPreview:
		var work api.Work
		if work, err = workIn(api.Kind(about), body); err == nil {
			out, err = (*live)(p).Preview(ctx, work)
		}
	case askProbe:
		out, err = p.answerProbe(ctx, about, body)
	case askLine:
		out, err = (*live)(p).answerLine(ctx, about, body)
	case askMove:
		out, err = p.answerMove(ctx, about, body)
	default:
		err = fault.New(fault.NotFound, "NoSuchQuestion", fault.T("There is no question %q.", "不存在问题 %q。", kind))
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(out)
}

// ask puts a question to the leader; false: we lead ourselves, or there is nobody else.
func (p *part) ask(ctx context.Context, kind, about string, into any) (asked bool, err error) {
	return p.askWith(ctx, kind, about, nil, into)
}

// askWith is ask with something that the name alone does not say.
func (p *part) askWith(ctx context.Context, kind, about string, body, into any) (asked bool, err error) {
	if p.peers == nil || p.engine.Leads() {
		return false, nil
	}
	var data []byte
	if body != nil {
		if data, err = json.Marshal(body); err != nil {
			return true, err
		}
	}
	data, err = p.peers.Ask(ctx, kind, about, data)
	if err != nil {
		return true, err
	}
	return true, json.Unmarshal(data, into)
}
