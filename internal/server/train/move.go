package train

import (
	"context"
	"net/http"
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/cluster"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/store"
)

// MoveWish is where a running task is to go.
type MoveWish struct {
	Zone    string   `json:"zone,omitempty" doc:"Required unless nodes are named, in nodes or away."`
	Nodes   []string `json:"nodes,omitempty" doc:"Only these; at most 1024."`
	Away    []string `json:"away,omitempty" doc:"Not onto these nodes; at most 1024."`
	Preview bool     `json:"preview,omitempty" doc:"Only say what it would mean."`
}

const MaxMoveNodes = 1024

func (s *Verbs) moveRoute(reg *rest.Schemas, row api.KindInfo, one string) *rest.Route {
	return &rest.Route{
		Method: http.MethodPost, Path: one + "/move", ID: "moveTask", Tag: row.Plural,
		Summary: "Move a running task: another place is reserved first, then it saves, stops and goes on there. Where there is none it never stops, and the answer says why.",
		Kind:    row.Kind, Verb: "move", Query: []rest.Param{rest.ParamProject}, Data: rest.SchemaOf[api.Move](reg), Handle: s.moveTask,
		Body: &rest.BodySpec{Schema: rest.SchemaOf[MoveWish](reg), Media: rest.JsonMedia, Required: true},
	}
}

func (s *Verbs) moveTask(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	f, task, err := s.desk.task(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := s.desk.judge.MayAbout(ctx, c.Who, "moveTask", task); err != nil {
		return nil, err
	}
	var wish MoveWish
	if err := c.ReadJSON(&wish, "zone, nodes, away, preview"); err != nil {
		return nil, err
	}
	if wish.Zone, err = cluster.ZoneNamed(ctx, s.desk.truth, wish.Zone); err != nil {
		return nil, err
	}
	if err := s.checkMove(ctx, wish); err != nil {
		return nil, err
	}
	if s.live == nil {
		return nil, refuse.NoPlanner
	}
	if f.Archived || task.Status.Phase.Finished() || task.Spec.Stop {
		return nil, fault.New(fault.Conflict, "NotRunning", fault.T("The task has ended or is being stopped.", "任务已结束或正在停止。"))
	}
	c.Note.Skip = wish.Preview
	m, err := s.live.Move(ctx, task, wish)
	if err != nil {
		return nil, err
	}
	if m.Moving {
		c.Note.Before(task)
		c.Note.After(standingIn(task, m.To.Zones))
		c.Tell(task, "MoveRequested", fault.T("A move was asked for.", "已请求迁移。"))
	}
	return &rest.Reply{Data: m}, nil
}

// standingIn is a task as it will be, for the audit.
func standingIn(task *api.TrainingTask, zones []api.ZonePart) *api.TrainingTask {
	next := store.Clone(task)
	next.Status.Zones = nil
	for _, z := range zones {
		next.Status.Zones = append(next.Status.Zones, z.Zone)
	}
	return next
}

// checkMove refuses a wish that names nothing, or what does not exist.
func (s *Verbs) checkMove(ctx context.Context, wish MoveWish) error {
	if wish.Zone == "" && len(wish.Nodes)+len(wish.Away) == 0 {
		return refuse.Invalid("zone", fault.T("Name a zone or nodes to move to, or nodes to leave.", "请指定目标可用区或节点，或要离开的节点。"))
	}
	if len(wish.Nodes) > MaxMoveNodes || len(wish.Away) > MaxMoveNodes {
		return refuse.Invalid("nodes", fault.T("At most %d nodes.", "最多 %d 个节点。", MaxMoveNodes))
	}
	known := func(kind api.Kind, path, name string) error {
		if !api.IsName(name) {
			return refuse.Invalid(path, fault.T("%q is no name.", "%q 不是合法名称。", refuse.Clip(name, 64)))
		}
		_, err := s.desk.truth.Find(ctx, api.Key{Kind: kind, Name: name}, 0)
		if fault.Is(err, fault.NotFound) {
			return refuse.Invalid(path, fault.T("%q does not exist.", "%q 不存在。", name))
		}
		return err
	}
	if wish.Zone != "" {
		if err := known(api.KindZone, "zone", wish.Zone); err != nil {
			return err
		}
	}
	for _, name := range wish.Nodes {
		if err := known(api.KindNode, "nodes", name); err != nil {
			return err
		}
	}
	for _, name := range wish.Away {
		if err := known(api.KindNode, "away", name); err != nil {
			return err
		}
	}
	return nil
}

// withoutOthers takes the names out of moves that concern tasks the caller may not see.
func (s *Verbs) withoutOthers(ctx context.Context, c *rest.Call, e Explanation) (Explanation, error) {
	if e.Moves = slices.Clone(e.Moves); len(e.Moves) == 0 {
		return e, nil
	}
	for i := range e.Moves {
		m := &e.Moves[i]
		ok, err := s.desk.judge.MayRead(ctx, c.Who, &api.TrainingTask{Meta: api.Meta{Project: m.Project, Name: m.Name}})
		if err != nil {
			return e, err
		}
		if !ok {
			m.Project, m.Name = "", ""
		}
	}
	return e, nil
}
