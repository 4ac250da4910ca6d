package work

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/image"
	"github.com/fermi-cluster/fermi/api/v1/mount"
	"github.com/fermi-cluster/fermi/internal/control/fence"
	"github.com/fermi-cluster/fermi/internal/control/way"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/sched/cost"
)

// Bounds of one turn: how long a write may take, and how many replicas are started side by side.
const (
	writeFor   = 10 * time.Second
	startsOnce = 8
)

// apply carries a plan out: history first (idempotent), one fenced commit, then the effects that the commit
// allows. A crash anywhere in between is mended by the next turn.
func (c *Controller) apply(ctx context.Context, s *Seen, p Plan) error {
	if p.Erase || p.Archive {
		return c.leave(ctx, s, p)
	}
	if p.Usage {
		if err := c.charge(ctx, s); err != nil {
			return fmt.Errorf("write usage: %w", err)
		}
	}
	if p.Next != nil || p.Leave || p.Move || len(p.Fence) > 0 {
		if err := c.commit(ctx, s, p); err != nil {
			return fmt.Errorf("write status: %w", err)
		}
	}
	if err := c.effects(ctx, s, p); err != nil {
		return err
	}
	c.say(ctx, s, p.Say)
	return c.tell(ctx, s, p.Events)
}

// sayFor is how long a launcher may take to hear a word.
const sayFor = 5 * time.Second

// say tells the launchers of all members something.
func (c *Controller) say(ctx context.Context, s *Seen, word string) {
	if word == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sayFor)
	defer cancel()
	for i := range s.Members {
		m := &s.Members[i]
		if _, err := c.cfg.Hub.AskRank(ctx, m.Name, link.Probe{Generation: int64(m.Attempt), Kind: word}); err != nil {
			c.cfg.Log.Info("a launcher did not hear", "replica", m.Name, "word", word, "error", err)
		}
	}
}

// commit writes the status, and deletes or changes the placement where the plan says so.
func (c *Controller) commit(ctx context.Context, s *Seen, p Plan) error {
	now := c.cfg.Clock.Now().UTC()
	var ops []store.Op
	if p.Next != nil {
		p.Next.GetMeta().UpdatedAt = now
		ops = append(ops, store.Update(p.Next))
	} else {
		ops = append(ops, store.Unchanged(api.KeyOf(s.Work), s.View.Meta.Revision))
	}
	switch {
	case p.Leave:
		ops = append(ops, store.Delete(api.KeyOf(s.Placement), s.Placement.Meta.Revision))
	case p.Move:
		next := store.Clone(s.Placement)
		next.Spec.Roles, next.Spec.Evict, next.Spec.Shrink, next.Spec.Lost = s.Placement.Spec.Evict.To, nil, nil, nil
		next.Spec.PlacedAt, next.Meta.UpdatedAt = now, now
		ops = append(ops, store.Update(next))
	}
	ctx, cancel := context.WithTimeout(ctx, writeFor)
	defer cancel()
	holds, nodes, err := fence.Hold(ctx, c.cfg.Store, p.Fence, now)
	if err != nil {
		return err
	}
	if _, err := c.cfg.Store.Commit(ctx, store.Txn{Ops: append(ops, holds...), Fence: c.epoch, Urgent: true}); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range nodes {
		if c.loop != nil {
			c.know(n) // the next turn must see it
		}
	}
	return nil
}

func (c *Controller) effects(ctx context.Context, s *Seen, p Plan) error {
	var errs []error
	if len(p.Stop)+len(p.End)+len(p.Remove) > 0 {
		// A write that changes nothing: a leader that slept must not end what its successor started.
		if _, err := store.StillLeading(ctx, c.cfg.Store, c.epoch); err != nil {
			return err
		}
	}
	for _, name := range p.Stop {
		errs = append(errs, c.cfg.Engine.Stop(ctx, name, c.grace(s)))
	}
	for _, name := range p.End {
		errs = append(errs, c.cfg.Engine.Stop(ctx, name, 0))
	}
	errs = append(errs, c.startAll(ctx, s, p.Start))
	for _, i := range p.Go {
		errs = append(errs, c.order(s, &s.Members[i]))
	}
	for _, name := range p.Remove {
		errs = append(errs, c.cfg.Engine.Remove(ctx, name))
	}
	return errors.Join(errs...)
}

// grace is how long processes have to end; who has to leave has time to save.
func (c *Controller) grace(s *Seen) time.Duration {
	grace := api.DefaultStopGrace
	if p := s.Placement; p != nil && p.Spec.Evict != nil && !s.View.Stop && p.Spec.Evict.Grace > 0 {
		grace = p.Spec.Evict.Grace
	}
	return grace.Std()
}

// order lets a member start its processes. One that is not attached any more comes back.
func (c *Controller) order(s *Seen, m *Member) error {
	err := c.cfg.Hub.Go(m.Name, m.Attempt, generationOf(s.Members, s.View.Roles, m))
	if fault.Is(err, fault.Unavailable) {
		return nil
	}
	return err
}

// startAll starts replicas side by side: each is a process to spawn.
func (c *Controller) startAll(ctx context.Context, s *Seen, start []int) error {
	if len(start) == 0 {
		return nil
	}
	uid, folders, project := 0, []string(nil), s.View.Meta.Project
	var err error
	if c.cfg.UID != nil {
		if uid, err = c.cfg.UID(ctx, project, c.epoch); err != nil {
			return err
		}
	}
	if c.cfg.Folders != nil {
		if folders, err = c.cfg.Folders(ctx, project); err != nil {
			return err
		}
	}
	wide := isWide(s.Members)
	var ways map[string]engine.Way
	if wide {
		nodes := make([]*api.Node, len(s.Members))
		for i := range s.Members {
			nodes[i] = s.Members[i].Node
		}
		if ways, err = way.Between(ctx, c.cfg.Store, nodes); err != nil {
			return errors.Join(err, c.tell(ctx, s, delays([]error{err}, s.View.Attempt)))
		}
	}
	var wg sync.WaitGroup
	errs := make([]error, len(start))
	gate := make(chan struct{}, startsOnce)
	for n, i := range start {
		gate <- struct{}{}
		wg.Go(func() {
			defer func() { <-gate }()
			r := c.replica(s, &s.Members[i])
			r.UID, r.Folders, r.HostNetwork = uid, folders, wide
			r.Take(ways, r.Node)
			errs[n] = c.cfg.Engine.Start(ctx, r)
		})
	}
	wg.Wait()
	var events []Event
	if ctx.Err() == nil {
		events = delays(errs, s.View.Attempt)
	}
	return errors.Join(append(errs, c.tell(ctx, s, events))...)
}

// delays are what keeps replicas from being started for now, such as a quota: each reason is told once an attempt.
func delays(errs []error, attempt int) (out []Event) {
	for _, err := range errs {
		if f := fault.From(err); f != nil && f.Code == fault.Unavailable {
			out = append(out, Event{Warning: true, Reason: f.Reason, Message: f.Message, Once: fmt.Sprintf("start-%d-%s", attempt, f.Reason)})
		}
	}
	return out
}

// replica is what the engine is told about a member.
func (c *Controller) replica(s *Seen, m *Member) engine.Replica {
	w := &s.View
	r := engine.Replica{
		Name: m.Name, TaskID: w.Meta.ID, Task: w.Meta.Name, DisplayName: w.Meta.DisplayName, Project: w.Meta.Project, Owner: w.Meta.Owner,
		Role: m.Role, Index: m.Index, Attempt: m.Attempt, Ranks: 1, Code: w.Program.Code, Credentials: w.Program.Credentials,
		HyperParameters: w.Program.Parameters, StopGrace: api.DefaultStopGrace,
	}
	r.Clones, r.Volumes = w.Program.Clones, w.Program.Volumes
	r.Mounts = mount.Lists{Datasets: w.Program.Datasets, Models: w.Program.Models}
	role := w.Role(m.Role)
	if role != nil {
		r.Ranks = role.RankCount()
		r.Env, r.SecretFiles, r.WorkingDir, r.Resources, r.Standby = role.Env, role.SecretFiles, role.WorkingDir, role.Resources, role.Standby
		if role.Image != api.ImageHost {
			r.Image = role.Image
		}
		r.Command = image.Argv(role, r.Image)
	}
	if n := m.Node; n != nil {
		r.Node, r.Zone, r.Virtual = n.Meta.Name, n.Spec.Zone, n.Spec.Virtual
		for bit, d := range n.Spec.Devices {
			if m.Devices&(1<<bit) != 0 {
				r.Devices = append(r.Devices, d)
			}
		}
	}
	c.cfg.Rules.Fill(s.Work, role, &r)
	return r
}

// charge writes what each member used so far: a row from its start, closed at its end. Rows are keyed by
// replica, so writing twice is writing once.
func (c *Controller) charge(ctx context.Context, s *Seen) error {
	var rows []history.UsageRow
	for i := range s.Members {
		m := &s.Members[i]
		if m.Known.Started.IsZero() && m.Known.Exit == nil {
			continue
		}
		r := c.replica(s, m)
		row := history.UsageRow{
			Replica: string(m.Name), TaskID: r.TaskID, Project: r.Project, Owner: r.Owner, Zone: r.Zone, Node: r.Node,
			Devices: len(r.Devices), Type: r.Resources.Accelerators.Type, CPU: r.Resources.CPU, Memory: r.Resources.Memory,
			Thousandths: int64(len(r.Devices)) * r.Resources.Accelerators.Share.Of(), Spot: s.View.Wish.Preemptible, Start: m.Known.Started,
		}
		if len(r.Devices) > 0 {
			row.Type = r.Devices[0].Type
		}
		row.PriceHour = c.price(ctx, row)
		end(&row, m.Known.Exit)
		rows = append(rows, row)
	}
	ended := map[string]*engine.Exit{}
	for _, o := range s.Others {
		ended[string(o.Name)] = o.Exit
	}
	if len(ended) > 0 { // of earlier attempts, or of a placement that went away
		known, err := c.cfg.History.UsageOf(ctx, s.View.Meta.ID)
		if err != nil {
			return err
		}
		for _, row := range known {
			if exit := ended[row.Replica]; exit != nil && row.Stop.IsZero() {
				end(&row, exit)
				rows = append(rows, row)
			}
		}
	}
	return c.cfg.History.PutUsage(ctx, rows...)
}

// end closes a row; nil: it still runs.
func end(row *history.UsageRow, exit *engine.Exit) {
	if exit == nil {
		return
	}
	row.Stop, row.ExitCode, row.Reason = exit.Ended(row.Start), exit.Code, exit.Reason
	row.CPUTime, row.PeakBytes = exit.CPUTime, api.Bytes(exit.PeakBytes)
	if row.Start.IsZero() || row.Start.After(row.Stop) {
		row.Start = row.Stop // it never ran
	}
}

// price is what the replica costs an hour at its start; 0 where its zone is gone.
func (c *Controller) price(ctx context.Context, r history.UsageRow) float64 {
	o, err := c.cfg.Store.Get(ctx, api.Key{Kind: api.KindZone, Name: r.Zone}, 0)
	if err != nil {
		return 0
	}
	part := cost.Part{CPU: r.CPU, Memory: r.Memory, DeviceType: r.Type, Devices: r.Devices, Thousandths: r.Thousandths}
	return cost.ZoneOf(o.(*api.Zone)).Rate(part, r.Start, r.Spot).Total().Float()
}

// leave takes what is finished out of the store: to history, or for good.
func (c *Controller) leave(ctx context.Context, s *Seen, p Plan) error {
	if p.Archive {
		row := history.Archived{Object: s.Work, Phase: string(s.View.Phase), Queue: s.View.Queue}
		if err := c.cfg.History.PutArchived(ctx, row); err != nil {
			return fmt.Errorf("archive: %w", err)
		}
	} else if err := c.cfg.EraseBytes(ctx, s.View.Meta.ID); err != nil {
		return fmt.Errorf("erase logs and outputs: %w", err)
	}
	_, err := c.cfg.Store.Commit(ctx, store.Txn{Ops: []store.Op{store.Delete(api.KeyOf(s.Work), s.View.Meta.Revision)}, Fence: c.epoch, Urgent: true})
	return err
}

func (c *Controller) tell(ctx context.Context, s *Seen, events []Event) error {
	rows := make([]history.Event, 0, len(events))
	for _, e := range events {
		row := history.Event{
			Time: c.cfg.Clock.Now().UTC(), Kind: s.View.Kind, Project: s.View.Meta.Project, Name: s.View.Meta.Name, ID: s.View.Meta.ID,
			Type: "Normal", Reason: e.Reason, Message: e.Message, Actor: strings.ToLower(string(s.View.Kind)), Dedup: s.View.Meta.ID + "/" + e.Once,
		}
		if e.Warning {
			row.Type = "Warning"
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return nil
	}
	return c.cfg.History.AddEvents(ctx, rows...)
}
