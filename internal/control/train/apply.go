package train

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/image"
	"github.com/fermi-cluster/fermi/api/v1/mount"
	"github.com/fermi-cluster/fermi/internal/control/fence"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/control/way"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/preflight"
	"github.com/fermi-cluster/fermi/internal/store"
)

func itoa(n int) string { return strconv.Itoa(n) }

// apply carries a plan out: history first (idempotent), one fenced commit, then the effects that
// the commit allows. A crash anywhere in between is mended by the next turn.
func (c *Controller) apply(ctx context.Context, s snapshot, p plan) error {
	if p.erase || p.archive {
		return c.leave(ctx, s, p)
	}
	if p.usage {
		if err := c.book.Usage(ctx, &s.Gang); err != nil {
			return fmt.Errorf("write usage: %w", err)
		}
	}
	if p.commit && p.status.Phase.Finished() && !s.Task.Status.Phase.Finished() {
		if err := c.book.Run(ctx, &s.Gang, p.status); err != nil {
			return fmt.Errorf("write run: %w", err)
		}
	}
	task := s.Task
	if p.commit {
		var err error
		if task, err = c.commit(ctx, s, p); err != nil {
			return fmt.Errorf("write status: %w", err)
		}
		measure(c.cfg.Recoveries, s.Task.Meta.Project, &s.Task.Status, &task.Status)
	}
	if err := c.effects(ctx, s, p, task); err != nil {
		return err
	}
	return c.tell(ctx, task, p.events)
}

// commit writes the status, and deletes or changes the placement where the plan says so.
func (c *Controller) commit(ctx context.Context, s snapshot, p plan) (*api.TrainingTask, error) {
	task := store.Clone(s.Task)
	task.Status = p.status
	task.Meta.UpdatedAt = c.cfg.Clock.Now().UTC()
	ops := []store.Op{store.Update(task)}
	if p.dropPlace {
		ops = append(ops, store.Delete(api.KeyOf(s.Placement), s.Placement.Meta.Revision))
	}
	if p.resize != nil {
		next := store.Clone(s.Placement)
		next.Spec, next.Meta.UpdatedAt = *p.resize, task.Meta.UpdatedAt
		ops = append(ops, store.Update(next))
	}
	if p.moveOn {
		ops = append(ops, store.Update(movedOn(s.Placement, task)))
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	holds, nodes, err := fence.Hold(ctx, c.cfg.Store, p.fence, task.Meta.UpdatedAt)
	if err != nil {
		return nil, err
	}
	if _, err := c.cfg.Store.Commit(ctx, store.Txn{Ops: append(ops, holds...), Fence: c.epoch, Urgent: true}); err != nil {
		return nil, err
	}
	for _, n := range nodes {
		c.cfg.Gangs.Note(n) // the next turn must see it
	}
	return task, nil
}

// movedOn is the placement of a task that has left its place for the one reserved for it.
func movedOn(p *api.Placement, task *api.TrainingTask) *api.Placement {
	next := store.Clone(p)
	next.Spec.Roles, next.Spec.Evict, next.Spec.Shrink, next.Spec.Lost = p.Spec.Evict.To, nil, nil, nil
	next.Spec.PlacedAt = task.Meta.UpdatedAt
	if task.Status.Phase != api.PhasePending { // its next attempt is in the same transaction
		next.Spec.Attempt = task.Status.Attempt
	}
	next.Meta.UpdatedAt = task.Meta.UpdatedAt
	return next
}

// stopGrace is how long a task's processes have to end. Who has to leave has time for a checkpoint,
// unless the task says itself how long it needs.
func stopGrace(task *api.TrainingTask, p *api.Placement) time.Duration {
	grace := api.DefaultStopGrace
	if t := task.Spec.Timeouts; t != nil && t.StopGrace > 0 {
		grace = t.StopGrace
	}
	leaves := p != nil && p.Spec.Evict != nil && !task.Spec.Stop && task.Meta.DeletedAt == nil
	if leaves && grace == api.DefaultStopGrace && p.Spec.Evict.Grace > 0 {
		grace = p.Spec.Evict.Grace
	}
	return grace.Std()
}

// hurryGrace is for ranks that wait for somebody who is gone.
const hurryGrace = time.Second

func (c *Controller) effects(ctx context.Context, s snapshot, p plan, task *api.TrainingTask) error {
	var errs []error
	grace := stopGrace(task, s.Placement)
	if p.hurry {
		grace = min(grace, hurryGrace)
	}
	if len(p.stop)+len(p.remove) > 0 {
		if _, err := store.StillLeading(ctx, c.cfg.Store, c.epoch); err != nil {
			return err // a leader that slept must not end what its successor started
		}
	}
	for _, name := range p.stop {
		grace := grace
		if _, fenced := s.Fenced[name]; fenced {
			grace = 0 // nothing that it saves counts any more
		}
		errs = append(errs, c.cfg.Engine.Stop(ctx, name, grace))
	}
	if p.swap.node != "" {
		c.swap(ctx, task, p.swap)
	}
	errs = append(errs, c.startAll(ctx, s, p, task))
	hold := len(p.goAhead) > 0 && s.holds(task.Status.Restarts, c.cfg.Clock.Now().UTC())
	errs = append(errs, c.ask(&s.Gang, p.check, &task.Status), c.askLate(&s.Gang, p.late, &task.Status))
	roles, table := s.Addresses()
	for _, i := range p.goAhead {
		g := s.orderFor(i, &task.Status, hold)
		g.Roles, g.RoleTable = roles, table
		errs = append(errs, c.order(&s.Members[i], g))
	}
	for _, i := range p.freeze {
		g := s.orderFor(i, &task.Status, true)
		g.FirstRank, g.Frozen, g.Save = 0, true, s.resizing().calm() // it runs: its ranks are those it was told before
		errs = append(errs, c.order(&s.Members[i], g))
	}
	for _, name := range p.remove {
		if _, fenced := s.Fenced[name]; fenced {
			continue // it ended for the task only
		}
		errs = append(errs, c.cfg.Engine.Remove(ctx, name))
	}
	return errors.Join(errs...)
}

// order tells a member about a generation; one that is not attached any more comes back.
func (c *Controller) order(m *gang.Member, g link.Generation) error {
	err := c.cfg.Hub.Go(m.Name, m.Attempt, g)
	if fault.Is(err, fault.Unavailable) {
		return nil
	}
	return err
}

// startAll starts replicas side by side: each is a process to spawn.
func (c *Controller) startAll(ctx context.Context, s snapshot, p plan, task *api.TrainingTask) error {
	if len(p.start) == 0 {
		return nil
	}
	uid := 0
	if c.cfg.UID != nil {
		var err error
		if uid, err = c.cfg.UID(ctx, task.Meta.Project, c.epoch); err != nil {
			return err
		}
	}
	var folders []string
	if c.cfg.Folders != nil { // also without code of its own: inside an environment it has the other's
		var err error
		if folders, err = c.cfg.Folders(ctx, task.Meta.Project); err != nil {
			return err
		}
	}
	all := slices.Concat(s.Members, s.Joining, s.Spares) // a copy: the table is made anew in it
	g := s.Gang
	g.Members = all[:len(s.Members)+len(s.Joining)]
	g.Rank() // a spare's place is the first: what differs by rank its launcher is told later
	made, err := c.recipe(&g, task)
	if err != nil {
		return err
	}
	wide := isWide(c.cfg.Gangs.Node, all, task)
	var ways map[string]engine.Way
	if wide {
		nodes := make([]*api.Node, len(all))
		for i := range all {
			nodes[i] = c.cfg.Gangs.Node(all[i].Number)
		}
		if ways, err = way.Between(ctx, c.cfg.Store, nodes); err != nil {
			return errors.Join(err, c.tell(ctx, task, delays([]error{err}, task.Status.Attempt)))
		}
	}
	var wg sync.WaitGroup
	errs := make([]error, len(p.start))
	gate := make(chan struct{}, 8)
	for n, i := range p.start {
		gate <- struct{}{}
		wg.Go(func() {
			defer func() { <-gate }()
			r := c.replica(ctx, &all[i], task)
			r.UID, r.Folders, r.HostNetwork = uid, folders, wide && r.Inside == ""
			r.Take(ways, r.Node)
			withRecipe(&r, made, all[i].Seat)
			errs[n] = c.cfg.Engine.Start(ctx, r)
		})
	}
	wg.Wait()
	told := cautions(made, task.Status.Attempt)
	if ctx.Err() == nil { // else our time is over, and no start says anything
		told = append(told, delays(errs, task.Status.Attempt)...)
	}
	return errors.Join(append(errs, c.tell(ctx, task, told))...)
}

// delays are what keeps replicas from being started for now, such as a quota: each reason is told once an attempt.
func delays(errs []error, attempt int) (out []event) {
	for _, err := range errs {
		if f := fault.From(err); f != nil && f.Code == fault.Unavailable {
			out = append(out, event{Warning: true, Reason: f.Reason, Message: f.Message, Once: "start-" + itoa(attempt) + "-" + f.Reason})
		}
	}
	return out
}

// isWide says that a gang is on several machines, or may be later: its replicas reach each other by the machines' own network.
func isWide(node func(uint32) *api.Node, all gang.Members, task *api.TrainingTask) bool {
	machines := map[string]bool{}
	far := false
	for i := range all {
		name := "" // a server's
		if n := node(all[i].Number); n != nil && n.Spec.Agent != nil {
			name, far = n.Meta.Name, true
		}
		machines[name] = true
	}
	return len(machines) > 1 || far && (task.Spec.Elastic() || task.Spec.Spares() > 0)
}

// replica is what the engine is told about a member.
func (c *Controller) replica(ctx context.Context, m *gang.Member, task *api.TrainingTask) engine.Replica {
	r := engine.Replica{
		Name: m.Name, TaskID: task.Meta.ID, Task: task.Meta.Name, DisplayName: task.Meta.DisplayName,
		Project: task.Meta.Project, Owner: task.Meta.Owner, Role: m.Role, Index: m.Index,
		Attempt: m.Attempt, Preflight: task.Spec.PreflightMode() != api.PreflightOff, Ranks: m.Ranks, Duties: engine.Duties{Spare: m.Spare}, Node: m.Node,
		Code: task.Spec.Code, HyperParameters: task.Spec.HyperParameters, Credentials: task.Spec.Credentials, StopGrace: api.DefaultStopGrace,
	}
	r.Peer = task.Spec.PeerMemory()
	r.Mounts = mount.Lists{Datasets: task.Spec.Datasets, Models: task.Spec.Models}
	if task.Spec.Elastic() || task.Spec.Spares() > 0 { // a newcomer is handed the state by a peer
		r.Elastic = askedFor(&task.Spec)
	}
	for _, role := range task.Spec.Roles {
		if role.Name == m.Role {
			r.Command = image.Argv(&role, task.Spec.ImageOf(&role))
			r.Env, r.SecretFiles, r.WorkingDir, r.Resources = role.Env, role.SecretFiles, role.WorkingDir, role.Resources
			r.Standby, r.Image = standbyOf(&task.Spec, &role), task.Spec.ImageOf(&role)
		}
	}
	if t := task.Spec.Timeouts; t != nil {
		r.RunTimeout = t.Run
		if t.StopGrace > 0 {
			r.StopGrace = t.StopGrace
		}
	}
	if o := task.Spec.Outputs; o != nil {
		r.OutputLogs = o.Logs
	}
	r.KeepLocal, r.CheckpointFolder, r.FolderAnew = *task.Spec.LocalTier().Keep, task.Spec.CheckpointFolder(), task.Spec.CheckpointFolder() != "" && task.Spec.Restore != nil
	r.Instant = task.Spec.Checkpoint != nil && task.Spec.Checkpoint.Instant != ""
	if n := c.cfg.Gangs.Node(m.Number); n != nil {
		r.Zone, r.Virtual = n.Spec.Zone, n.Spec.Virtual
		r.Devices = gang.DevicesOf(n, m.Devices)
	}
	c.settleIn(ctx, &r, m.Lender, task)
	return r
}

// leave takes a finished task out of the store: to history, or for good.
func (c *Controller) leave(ctx context.Context, s snapshot, p plan) error {
	if p.archive {
		row := history.Archived{Object: s.Task, Phase: string(s.Task.Status.Phase), Queue: s.Task.Spec.Queue}
		if o := s.Task.Spec.Outputs; o != nil && o.Keep > 0 {
			row.Expires = s.Task.Status.FinishedAt.Add(o.Keep.Std())
		}
		if err := c.cfg.History.PutArchived(ctx, row); err != nil {
			return fmt.Errorf("archive: %w", err)
		}
	} else if err := c.cfg.EraseBytes(ctx, s.Task.Meta.ID); err != nil {
		return fmt.Errorf("erase logs and outputs: %w", err)
	}
	_, err := c.cfg.Store.Commit(ctx, store.Txn{
		Ops:   []store.Op{store.Delete(api.KeyOf(s.Task), s.Task.Meta.Revision)},
		Fence: c.epoch, Urgent: true,
	})
	return err
}

func (c *Controller) tell(ctx context.Context, task *api.TrainingTask, events []event) error {
	rows := make([]history.Event, 0, len(events))
	for _, e := range events {
		typ := "Normal"
		if e.Warning {
			typ = "Warning"
		}
		rows = append(rows, history.Event{
			Time: c.cfg.Clock.Now().UTC(), Kind: api.KindTrainingTask, Project: task.Meta.Project, Name: task.Meta.Name,
			ID: task.Meta.ID, Type: typ, Reason: e.Reason, Message: e.Message, Actor: "train", Dedup: task.Meta.ID + "/" + e.Once,
		})
	}
	if len(rows) == 0 {
		return nil
	}
	return c.cfg.History.AddEvents(ctx, rows...)
}

// settleIn gives a guest's replica what is its environment's: nothing is limited or counted twice, it runs in the same
// image, and without code of its own it works where the environment does.
func (c *Controller) settleIn(ctx context.Context, r *engine.Replica, l api.Lender, task *api.TrainingTask) {
	if l.TaskID == "" {
		return
	}
	r.Inside, r.Resources = engine.NameOf(l.TaskID, l.Role, 0, l.Attempt), api.Resources{}
	o, err := c.cfg.Store.Get(ctx, l.Key(task.Meta.Project), 0)
	env, ok := api.WorkloadOf(o)
	if err != nil || !ok || len(env.Roles) != 1 {
		return // it is gone: the next turn ends the guest
	}
	r.Image, r.Home = env.Roles[0].Image, env.Host.Home
	if t, ok := o.(*api.TrainingTask); ok {
		r.Image = t.Spec.ImageOf(&env.Roles[0])
	}
	if r.Code != nil {
		return
	}
	if env.Program.Code != nil && env.Program.Code.Folder != "" {
		r.Code = env.Program.Code
	}
	if r.WorkingDir == "" {
		r.WorkingDir = env.Roles[0].WorkingDir
	}
}

// ask orders the round that the status says, from those who have not answered.
func (c *Controller) ask(g *gang.Gang, list []int, status *api.TrainingTaskStatus) error {
	if len(list) == 0 {
		return nil
	}
	roll := g.RollCall()
	round, targets := roundOf(g.Task.Meta.ID, status.Preflight.StartedAt), targetsOf(&roll)
	for _, i := range list {
		m := &roll.Members[i]
		err := c.order(m, link.Generation{
			Number:     int64(status.Generation) + 1,
			Preflight:  &preflight.Round{ID: round, Targets: targets[i]},
			Membership: link.Membership{FirstRank: m.First, World: roll.World, Lead: m.Address(m.Said.Port)},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// askLate orders the checks of those that came late.
func (c *Controller) askLate(g *gang.Gang, list []int, status *api.TrainingTaskStatus) error {
	all := g.Everybody()
	for _, i := range list {
		m := &all[i]
		err := c.order(m, link.Generation{
			Number:     int64(status.Generation) + 1,
			Preflight:  &preflight.Round{ID: g.LateRound(m)},
			Membership: link.Membership{World: max(m.Ranks, 1), Lead: m.Address(m.Said.Port)},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// swap has the task leave; where it can't, that is remembered, and it starts again where it is.
func (c *Controller) swap(ctx context.Context, task *api.TrainingTask, from shun) {
	err := fault.New(fault.Unavailable, "NoPlanner", fault.T("Tasks don't move here.", "此处任务不迁移。"))
	for _, kind := range from.kinds {
		if c.cfg.Away == nil {
			break
		}
		moved := c.cfg.Away(ctx, task, from.node, kind)
		if moved == nil || fault.ReasonOf(moved) == "AlreadyLeaving" { // asked before, and on its way
			return
		}
		err = fault.From(moved)
	}
	c.cfg.Log.Info("no other place for a task whose node is at fault", "task", task.Meta.ID, "node", from.node, "reason", err.Reason)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loop != nil {
		c.kept.stay(task)
		c.loop.Add(api.KeyOf(task))
	}
}
