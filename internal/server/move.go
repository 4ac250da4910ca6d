package server

import (
	"context"
	"net/http"
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store"
)

// MoveWish is where a running task is to go.
type MoveWish struct {
	Zone    string   `json:"zone,omitempty" doc:"Required unless nodes are named, in nodes or away."`
	Nodes   []string `json:"nodes,omitempty" doc:"Only these; at most 1024."`
	Away    []string `json:"away,omitempty" doc:"Not onto these nodes; at most 1024."`
	Preview bool     `json:"preview,omitempty" doc:"Only say what it would mean."`
}

const maxMoveNodes = 1024

func (s *verbs) moveRoute(reg *schemas, row api.KindInfo, one string) *route {
	return &route{
		method: http.MethodPost, path: one + "/move", id: "moveTask", tag: row.Plural,
		summary: "Move a running task: another place is reserved first, then it saves, stops and goes on there. Where there is none it never stops, and the answer says why.",
		kind:    row.Kind, verb: "move", query: []param{paramProject}, data: schemaOf[api.Move](reg), handle: s.moveTask,
		body: &bodySpec{schema: schemaOf[MoveWish](reg), media: jsonMedia, required: true},
	}
}

func (s *verbs) moveTask(ctx context.Context, c *call) (*reply, error) {
	f, task, err := s.task(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := s.judge.mayAbout(ctx, c.who, "moveTask", task); err != nil {
		return nil, err
	}
	var wish MoveWish
	if err := c.readJSON(&wish, "zone, nodes, away, preview"); err != nil {
		return nil, err
	}
	if wish.Zone, err = zoneNamed(ctx, s.truth, wish.Zone); err != nil {
		return nil, err
	}
	if err := s.checkMove(ctx, wish); err != nil {
		return nil, err
	}
	if s.live == nil {
		return nil, noPlanner
	}
	if f.archived || task.Status.Phase.Finished() || task.Spec.Stop {
		return nil, fault.New(fault.Conflict, "NotRunning", fault.T("The task has ended or is being stopped.", "任务已结束或正在停止。"))
	}
	c.note.skip = wish.Preview
	m, err := s.live.Move(ctx, task, wish)
	if err != nil {
		return nil, err
	}
	if m.Moving {
		c.note.before(task)
		c.note.after(standingIn(task, m.To.Zones))
		c.tell(task, "MoveRequested", fault.T("A move was asked for.", "已请求迁移。"))
	}
	return &reply{data: m}, nil
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
func (s *verbs) checkMove(ctx context.Context, wish MoveWish) error {
	if wish.Zone == "" && len(wish.Nodes)+len(wish.Away) == 0 {
		return invalid("zone", fault.T("Name a zone or nodes to move to, or nodes to leave.", "请指定目标可用区或节点，或要离开的节点。"))
	}
	if len(wish.Nodes) > maxMoveNodes || len(wish.Away) > maxMoveNodes {
		return invalid("nodes", fault.T("At most %d nodes.", "最多 %d 个节点。", maxMoveNodes))
	}
	known := func(kind api.Kind, path, name string) error {
		if !api.IsName(name) {
			return invalid(path, fault.T("%q is no name.", "%q 不是合法名称。", clip(name, 64)))
		}
		_, err := s.truth.find(ctx, api.Key{Kind: kind, Name: name}, 0)
		if fault.Is(err, fault.NotFound) {
			return invalid(path, fault.T("%q does not exist.", "%q 不存在。", name))
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
func (s *verbs) withoutOthers(ctx context.Context, c *call, e Explanation) (Explanation, error) {
	if e.Moves = slices.Clone(e.Moves); len(e.Moves) == 0 {
		return e, nil
	}
	for i := range e.Moves {
		m := &e.Moves[i]
		ok, err := s.judge.mayRead(ctx, c.who, &api.TrainingTask{Meta: api.Meta{Project: m.Project, Name: m.Name}})
		if err != nil {
			return e, err
		}
		if !ok {
			m.Project, m.Name = "", ""
		}
	}
	return e, nil
}
