package serve

import (
	"fmt"
	"net"
	"reflect"
	"strconv"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/control/work"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link/hearing"
)

// restarts are what a replica has before it counts as failed; the service makes another one later.
var restarts = &api.RestartPolicy{MaxRestarts: 4, Window: api.Duration(10 * time.Minute)}

// NewReplicas keeps the replicas of services running.
func NewReplicas(cfg work.Config) work.Keeper {
	cfg.Rules = rules{}
	return work.New(cfg)
}

// rules are a replica's: those of all steady work, and whether it answers.
type rules struct{}

func (rules) Kind() api.Kind { return serving.ReplicaKind }

// Decide judges a replica as any steady work, and takes over what its launcher says of its answers.
func (rules) Decide(s *work.Seen, now time.Time) work.Plan {
	r := s.Work.(*serving.ServiceReplica)
	was := steadyOf(&r.Status)
	status, plan, changed := work.Steady(s, &was, restarts, now)
	plan.Archive = false // it goes with its service's word, not with time
	next := *r
	put(&next.Status, &status)
	answers(&next.Status, s, now)
	if lead := leadOf(r, s); lead != nil && isFar(lead) && plan.Wake == 0 && !status.Phase.Finished() {
		plan.Wake = lookAtAgent
	}
	if changed || !reflect.DeepEqual(next.Status.Answers, r.Status.Answers) || next.Status.Node != r.Status.Node {
		plan.Next = &next
	}
	return plan
}

// lookAtAgent is how often a replica of a machine that joined looks where its agent is: nobody tells it of that.
const lookAtAgent = 5 * time.Second

func isFar(m *work.Member) bool { return m.Node != nil && m.Node.Spec.Agent != nil }

// loopback is where processes on the machine's own network are reached.
const loopback = "127.0.0.1"

// leadOf is the member that answers; nil: it has no place.
func leadOf(r *serving.ServiceReplica, s *work.Seen) *work.Member {
	for i := range s.Members {
		if m := &s.Members[i]; m.Index == 0 && m.Role == r.Spec.Template.Lead() {
			return m
		}
	}
	return nil
}

// missing is a member of a gang without which its lead can't answer; nil: all are there.
func missing(s *work.Seen) *work.Member {
	for i := range s.Members {
		if m := &s.Members[i]; m.Silent >= hearing.SilentAfter || m.Known.State != engine.StateRunning {
			return m
		}
	}
	return nil
}

// answers is whether the lead answers, and where.
func answers(status *serving.ServiceReplicaStatus, s *work.Seen, now time.Time) {
	was := *status
	status.Answers = serving.Answers{}
	m := leadOf(s.Work.(*serving.ServiceReplica), s)
	if m == nil || s.View.Stop {
		return
	}
	if m.Node != nil {
		status.Node = m.Node.Meta.Name
	}
	if m.Silent >= hearing.SilentAfter { // where it answered last stays, for a service of which nobody else answers
		status.Address, status.Via, status.Why = was.Address, was.Via, m.SilentText(now).EN
		if !was.Ready && was.Address != "" {
			status.Why = was.Why // said once: since when it is known to the second only
		}
		return
	}
	said := m.Said.Serving
	if m.Attempt != status.Attempt || m.Known.State != engine.StateRunning || said == nil {
		return
	}
	if !said.Ready {
		status.Why = said.Why
		return
	}
	if other := missing(s); other != nil && len(s.Members) > 1 {
		status.Why = fmt.Sprintf("its member %s-%d does not run", other.Role, other.Index)
		return
	}
	host := m.Said.Address
	if host == "" {
		host = loopback
	}
	if isFar(m) {
		at := m.Node.Status.Agent
		if at == nil || at.Forward == "" {
			status.Why = "the agent of its machine passes no requests on"
			return
		}
		status.Via = &serving.Via{Node: m.Node.Meta.Name, Agent: at.Forward, Replica: string(m.Name)}
	}
	status.ReadyAt = &now
	if was.Ready && was.ReadyAt != nil {
		status.ReadyAt = was.ReadyAt
	}
	status.Ready, status.Address = true, net.JoinHostPort(host, strconv.Itoa(said.Port))
}

// Fill says how it is asked whether it answers.
func (rules) Fill(w api.Work, _ *api.Role, r *engine.Replica) {
	spec := &w.(*serving.ServiceReplica).Spec
	t := &spec.Template
	r.StopGrace = t.StopGrace
	if r.Role != t.Lead() || r.Index != 0 {
		return // nobody asks it from outside
	}
	r.Serve = &engine.Serve{Service: spec.Service, Port: t.Port}
	if h := t.Health; h != nil {
		r.Serve.Path, r.Serve.Every, r.Serve.Timeout, r.Serve.Failures = h.Path, h.Every, h.Timeout, h.Failures
	}
}

func steadyOf(s *serving.ServiceReplicaStatus) work.Status {
	return work.Status{
		Phase: s.Phase, Reason: s.Reason, Message: s.Message, Attempt: s.Attempt, Restarts: s.Restarts, PlacedAt: s.PlacedAt,
		StartedAt: s.StartedAt, FinishedAt: s.FinishedAt, Replicas: s.Replicas, ExitCode: s.ExitCode, Zones: s.Zones,
	}
}

func put(s *serving.ServiceReplicaStatus, w *work.Status) {
	s.Phase, s.Reason, s.Message, s.Attempt, s.Restarts, s.PlacedAt = w.Phase, w.Reason, w.Message, w.Attempt, w.Restarts, w.PlacedAt
	s.StartedAt, s.FinishedAt, s.Replicas, s.ExitCode, s.Zones = w.StartedAt, w.FinishedAt, w.Replicas, w.ExitCode, w.Zones
}
