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
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/store"
)

func itoa(n int) string { return strconv.Itoa(n) }

// apply carries a plan out: history first (idempotent), one fenced commit, then the effects that
// the commit allows. A crash anywhere in between is mended by the next turn.
func (c *Controller) apply(ctx context.Context, s seen, p plan) error {
	if p.erase || p.archive {
		return c.leave(ctx, s, p)
	}
	if p.usage {
		if err := c.writeUsage(ctx, s); err != nil {
			return fmt.Errorf("write usage: %w", err)
		}
	}
	if p.commit && p.status.Phase.Finished() && !s.task.Status.Phase.Finished() {
		if err := c.writeRun(ctx, s, p); err != nil {
			return fmt.Errorf("write run: %w", err)
		}
	}
	task := s.task
	if p.commit {
		var err error
		if task, err = c.commit(ctx, s, p); err != nil {
			return fmt.Errorf("write status: %w", err)
		}
		c.measure(s.task.Meta.Project, &s.task.Status, &task.Status)
	}
	if err := c.effects(ctx, s, p, task); err != nil {
		return err
	}
	return c.tell(ctx, task, p.events)
}

// commit writes the status, and deletes or changes the placement where the plan says so.
func (c *Controller) commit(ctx context.Context, s seen, p plan) (*api.TrainingTask, error) {
	task := store.Clone(s.task)
	task.Status = p.status
	task.Meta.UpdatedAt = c.cfg.Clock.Now().UTC()
	ops := []store.Op{store.Update(task)}
	if p.dropPlace {
		ops = append(ops, store.Delete(api.KeyOf(s.placement), s.placement.Meta.Revision))
	}
	if p.resize != nil {
		next := store.Clone(s.placement)
		next.Spec, next.Meta.UpdatedAt = *p.resize, task.Meta.UpdatedAt
		ops = append(ops, store.Update(next))
	}
	if p.moveOn {
		ops = append(ops, store.Update(movedOn(s.placement, task)))
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if _, err := c.cfg.Store.Commit(ctx, store.Txn{Ops: ops, Fence: c.epoch}); err != nil {
		return nil, err
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

func (c *Controller) effects(ctx context.Context, s seen, p plan, task *api.TrainingTask) error {
	var errs []error
	grace := stopGrace(task, s.placement)
	if len(p.stop)+len(p.remove) > 0 {
		if _, err := c.stillLeading(ctx); err != nil {
			return err // a leader that slept must not end what its successor started
		}
	}
	for _, name := range p.stop {
		errs = append(errs, c.cfg.Engine.Stop(ctx, name, grace))
	}
	if p.swap.node != "" {
		c.swap(ctx, task, p.swap)
	}
	errs = append(errs, c.startAll(ctx, s, p, task))
	hold := len(p.goAhead) > 0 && c.holds(s, task)
	errs = append(errs, c.ask(s, p.check, task.Status), c.askLate(s, p.late, task.Status))
	roles, table := s.addresses()
	for _, i := range p.goAhead {
		g := s.orderFor(i, task.Status, hold)
		g.Roles, g.RoleTable = roles, table
		errs = append(errs, c.order(&s.members[i], g))
	}
	for _, i := range p.freeze {
		g := s.orderFor(i, task.Status, true)
		g.FirstRank, g.Frozen, g.Save = 0, true, s.calm() // it runs: its ranks are those it was told before
		errs = append(errs, c.order(&s.members[i], g))
	}
	for _, name := range p.remove {
		errs = append(errs, c.cfg.Engine.Remove(ctx, name))
	}
	return errors.Join(errs...)
}

// order tells a member about a generation; one that is not attached any more comes back.
func (c *Controller) order(m *member, g link.Generation) error {
	err := c.cfg.Hub.Go(m.name, m.attempt, g)
	if fault.Is(err, fault.Unavailable) {
		return nil
	}
	return err
}

// stillLeading is a fenced write that changes nothing: it fails when somebody else leads, and gives
// a revision that is at least as new as everything that was written before.
func (c *Controller) stillLeading(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	nothing := api.Key{Kind: api.KindPlacement, Project: api.DefaultProject, Name: "LEADER"} // no name: names are lower case
	return c.cfg.Store.Commit(ctx, store.Txn{Ops: []store.Op{store.Delete(nothing, 0)}, Fence: c.epoch})
}

// startAll starts replicas side by side: each is a process to spawn.
func (c *Controller) startAll(ctx context.Context, s seen, p plan, task *api.TrainingTask) error {
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
	all := slices.Concat(s.members, s.joining, s.spares) // a copy: the table is made anew in it
	s.members = all[:len(s.members)+len(s.joining)]
	s.table() // a spare's part is that of the first place: what differs by rank its launcher is told later
	made, err := c.recipe(s, task)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	errs := make([]error, len(p.start))
	gate := make(chan struct{}, 8)
	for n, i := range p.start {
		gate <- struct{}{}
		wg.Go(func() {
			defer func() { <-gate }()
			r := c.replica(&all[i], task)
			r.UID, r.Folders = uid, folders
			withRecipe(&r, made, all[i].place)
			errs[n] = c.cfg.Engine.Start(ctx, r)
		})
	}
	wg.Wait()
	return errors.Join(append(errs, c.tell(ctx, task, cautions(made, task.Status.Attempt)))...)
}

// replica is what the engine is told about a member.
func (c *Controller) replica(m *member, task *api.TrainingTask) engine.Replica {
	r := engine.Replica{
		Name: m.name, TaskID: task.Meta.ID, Task: task.Meta.Name, DisplayName: task.Meta.DisplayName,
		Project: task.Meta.Project, Owner: task.Meta.Owner, Role: m.role, Index: m.index,
		Attempt: m.attempt, Preflight: task.Spec.PreflightMode() != api.PreflightOff, Ranks: m.ranks, Spare: m.spare, Node: m.node,
		Code: task.Spec.Code, HyperParameters: task.Spec.HyperParameters, Credentials: task.Spec.Credentials, StopGrace: api.DefaultStopGrace,
	}
	r.Peer = task.Spec.PeerMemory()
	if task.Spec.Elastic() || task.Spec.Spares() > 0 { // a newcomer is handed the state by a peer
		r.Elastic = askedFor(&task.Spec)
	}
	for _, role := range task.Spec.Roles {
		if role.Name == m.role {
			r.Command = append(append([]string{}, role.Command...), role.Args...)
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
	r.KeepLocal, r.CheckpointFolder = *task.Spec.LocalTier().Keep, task.Spec.CheckpointFolder()
	if n := c.node(m.number); n != nil {
		r.Zone, r.Virtual = n.Spec.Zone, n.Spec.Virtual
		r.Devices = devicesOf(n, m.devices)
	}
	c.settleIn(&r, m.lender, task)
	return r
}

// devicesOf are the assigned ones.
func devicesOf(n *api.Node, mask uint64) []api.Device {
	var out []api.Device
	for bit, d := range n.Spec.Devices {
		if mask&(1<<bit) != 0 {
			out = append(out, d)
		}
	}
	return out
}

// leave takes a finished task out of the store: to history, or for good.
func (c *Controller) leave(ctx context.Context, s seen, p plan) error {
	if p.archive {
		row := history.Archived{Object: s.task, Phase: string(s.task.Status.Phase), Queue: s.task.Spec.Queue}
		if o := s.task.Spec.Outputs; o != nil && o.Keep > 0 {
			row.Expires = s.task.Status.FinishedAt.Add(o.Keep.Std())
		}
		if err := c.cfg.History.PutArchived(ctx, row); err != nil {
			return fmt.Errorf("archive: %w", err)
		}
	} else if err := c.cfg.EraseBytes(ctx, s.task.Meta.ID); err != nil {
		return fmt.Errorf("erase logs and outputs: %w", err)
	}
	_, err := c.cfg.Store.Commit(ctx, store.Txn{
		Ops:   []store.Op{store.Delete(api.KeyOf(s.task), s.task.Meta.Revision)},
		Fence: c.epoch,
	})
	return err
}

func (c *Controller) tell(ctx context.Context, task *api.TrainingTask, events []event) error {
	rows := make([]history.Event, 0, len(events))
	for _, e := range events {
		typ := "Normal"
		if e.warning {
			typ = "Warning"
		}
		rows = append(rows, history.Event{
			Time: c.cfg.Clock.Now().UTC(), Kind: api.KindTrainingTask, Project: task.Meta.Project, Name: task.Meta.Name,
			ID: task.Meta.ID, Type: typ, Reason: e.reason, Message: e.message, Actor: "train", Dedup: task.Meta.ID + "/" + e.once,
		})
	}
	if len(rows) == 0 {
		return nil
	}
	return c.cfg.History.AddEvents(ctx, rows...)
}
