package server

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store"
)

// FaultWish is what shall happen to a rank of a running task.
type FaultWish struct {
	Rank int    `json:"rank"`
	Kind string `json:"kind" doc:"kill, stop, slow, oom, net or node."`
}

// ProfileWish is whose stacks to look at.
type ProfileWish struct {
	Rank int `json:"rank"`
}

// ProbeView is what was done to a rank, or seen of it.
type ProbeView struct {
	Rank       int       `json:"rank"`
	Kind       string    `json:"kind"`
	Replica    string    `json:"replica"`
	Node       string    `json:"node"`
	Generation int       `json:"generation" doc:"In which it was done."`
	At         time.Time `json:"at"`
	Text       string    `json:"text,omitempty" doc:"What was seen, at most 64 KiB."`
}

// FaultKinds are those that may be asked for.
var FaultKinds = []string{"kill", "stop", "slow", "oom", "net", "node"}

const profileKind = "profile"

func (s *verbs) probeRoutes(reg *schemas, row api.KindInfo, one string) []*route {
	probe := func(verb, id, summary string, body *bodySpec, h handler) *route {
		return &route{
			method: http.MethodPost, path: one + "/" + verb, id: id, tag: row.Plural, summary: summary, kind: row.Kind, verb: verb,
			query: []param{paramProject}, data: schemaOf[ProbeView](reg), handle: h, body: body,
		}
	}
	return []*route{
		probe("fault", "faultTask", "Hurt a rank of a running task, to see that it recovers.",
			&bodySpec{schema: schemaOf[FaultWish](reg), media: jsonMedia, required: true}, s.faultTask),
		probe("profile", "profileTask", "What a rank does at this moment: its state, what it waits in, its stacks.",
			&bodySpec{schema: schemaOf[ProfileWish](reg), media: jsonMedia, required: true}, s.profileTask),
	}
}

func (s *verbs) faultTask(ctx context.Context, c *call) (*reply, error) {
	var wish FaultWish
	return s.probeTask(ctx, c, "faultTask", func() error {
		if err := c.readJSON(&wish, "rank, kind"); err != nil {
			return err
		}
		if !slices.Contains(FaultKinds, wish.Kind) {
			return invalid("kind", fault.T("One of %s.", "必须是 %s 之一。", strings.Join(FaultKinds, ", ")))
		}
		return nil
	}, &wish)
}

func (s *verbs) profileTask(ctx context.Context, c *call) (*reply, error) {
	wish := FaultWish{Kind: profileKind}
	return s.probeTask(ctx, c, "profileTask", func() error {
		var who ProfileWish
		err := c.readJSON(&who, "rank")
		wish.Rank = who.Rank
		return err
	}, &wish)
}

func (s *verbs) probeTask(ctx context.Context, c *call, id string, read func() error, wish *FaultWish) (*reply, error) {
	if err := read(); err != nil {
		return nil, err
	}
	f, task, err := s.task(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := s.judge.mayAbout(ctx, c.who, id, task); err != nil {
		return nil, err
	}
	if wish.Rank < 0 {
		return nil, invalid("rank", fault.T("At least 0.", "至少为 0。"))
	}
	if s.live == nil {
		return nil, noPlanner
	}
	if f.archived || task.Status.Phase.Finished() || task.Spec.Stop {
		return nil, fault.New(fault.Conflict, "NotRunning", fault.T("The task has ended or is being stopped.", "任务已结束或正在停止。"))
	}
	v, err := s.live.Probe(ctx, task, *wish)
	if err != nil {
		return nil, err
	}
	asked := fault.T("Asked for: %s of rank %d.", "已请求：%s，rank %d。", wish.Kind, wish.Rank)
	next := store.Clone(task) // for the audit: what was asked
	next.Status.Message = asked
	c.note.before(task)
	c.note.after(next)
	if wish.Kind != profileKind {
		c.tell(task, "FaultInjected", asked)
	}
	return &reply{data: v}, nil
}
