package train

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
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

const ProfileKind = "profile"

func (s *Verbs) probeRoutes(reg *rest.Schemas, row api.KindInfo, one string) []*rest.Route {
	probe := func(verb, id, summary string, body *rest.BodySpec, h rest.Handler) *rest.Route {
		return &rest.Route{
			Method: http.MethodPost, Path: one + "/" + verb, ID: id, Tag: row.Plural, Summary: summary, Kind: row.Kind, Verb: verb,
			Query: []rest.Param{rest.ParamProject}, Data: rest.SchemaOf[ProbeView](reg), Handle: h, Body: body,
		}
	}
	return []*rest.Route{
		probe("fault", "faultTask", "Hurt a rank of a running task, to see that it recovers.",
			&rest.BodySpec{Schema: rest.SchemaOf[FaultWish](reg), Media: rest.JsonMedia, Required: true}, s.faultTask),
		probe("profile", "profileTask", "What a rank does at this moment: its state, what it waits in, its stacks.",
			&rest.BodySpec{Schema: rest.SchemaOf[ProfileWish](reg), Media: rest.JsonMedia, Required: true}, s.profileTask),
	}
}

func (s *Verbs) faultTask(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	var wish FaultWish
	return s.probeTask(ctx, c, "faultTask", func() error {
		if err := c.ReadJSON(&wish, "rank, kind"); err != nil {
			return err
		}
		if !slices.Contains(FaultKinds, wish.Kind) {
			return refuse.Invalid("kind", fault.T("One of %s.", "必须是 %s 之一。", strings.Join(FaultKinds, ", ")))
		}
		return nil
	}, &wish)
}

func (s *Verbs) profileTask(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	wish := FaultWish{Kind: ProfileKind}
	return s.probeTask(ctx, c, "profileTask", func() error {
		var who ProfileWish
		err := c.ReadJSON(&who, "rank")
		wish.Rank = who.Rank
		return err
	}, &wish)
}

func (s *Verbs) probeTask(ctx context.Context, c *rest.Call, id string, read func() error, wish *FaultWish) (*rest.Reply, error) {
	if err := read(); err != nil {
		return nil, err
	}
	f, task, err := s.desk.task(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := s.desk.judge.MayAbout(ctx, c.Who, id, task); err != nil {
		return nil, err
	}
	if wish.Rank < 0 {
		return nil, refuse.Invalid("rank", fault.T("At least 0.", "至少为 0。"))
	}
	if s.live == nil {
		return nil, refuse.NoPlanner
	}
	if f.Archived || task.Status.Phase.Finished() || task.Spec.Stop {
		return nil, fault.New(fault.Conflict, "NotRunning", fault.T("The task has ended or is being stopped.", "任务已结束或正在停止。"))
	}
	v, err := s.live.Probe(ctx, task, *wish)
	if err != nil {
		return nil, err
	}
	asked := fault.T("Asked for: %s of rank %d.", "已请求：%s，rank %d。", wish.Kind, wish.Rank)
	next := store.Clone(task) // for the audit: what was asked
	next.Status.Message = asked
	c.Note.Before(task)
	c.Note.After(next)
	if wish.Kind != ProfileKind {
		c.Tell(task, "FaultInjected", asked)
	}
	return &rest.Reply{Data: v}, nil
}
