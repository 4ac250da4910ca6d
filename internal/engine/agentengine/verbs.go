package agentengine

import (
	"context"
	"time"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// call sends an order and waits for its answer.
func (e *Engine) call(ctx context.Context, h *host, v *visit, kind string, body any) error {
	late := e.cfg.Clock.After(answerIn)
	select { // what it knows already comes first
	case <-v.whole:
	case <-v.gone:
		return errAway(h.name)
	case <-late:
		return errAway(h.name)
	case <-ctx.Done():
		return fault.From(ctx.Err())
	}
	c := make(chan error, 1)
	seq := v.order(kind, body, c)
	select {
	case err := <-c:
		return err
	case <-late:
	case <-e.stopped:
	case <-ctx.Done():
	}
	v.mu.Lock()
	delete(v.calls, seq)
	v.mu.Unlock()
	if ctx.Err() != nil {
		return fault.From(ctx.Err())
	}
	return errAway(h.name)
}

// at is the host of a node, and its stream; nil where it is not attached, or does not obey.
func (e *Engine) at(node string) (*host, *visit) {
	e.mu.Lock()
	defer e.mu.Unlock()
	h := e.hosts[node]
	if h == nil {
		return nil, nil
	}
	return h, h.now
}

func (e *Engine) waitReady(ctx context.Context) error {
	select {
	case <-e.ready:
	case <-ctx.Done():
		return fault.From(ctx.Err())
	case <-e.stopped:
	}
	select {
	case <-e.stopped:
		return errStopped
	default:
		return nil
	}
}

// Has says whether a node is of a machine that joined.
func (e *Engine) Has(node string) bool {
	h, _ := e.at(node)
	return h != nil
}

// Start tells the agent of the replica's node. Where it is not attached the order waits for it: the replica counts as created.
func (e *Engine) Start(ctx context.Context, r engine.Replica) error {
	if r.Name == "" || r.TaskID == "" {
		return fault.New(fault.Invalid, "BadReplicaName", fault.T("%q cannot name a replica.", "%q 不能用作副本名称。", string(r.Name)))
	}
	if err := e.waitReady(ctx); err != nil {
		return err
	}
	if _, known := e.Replica(r.Name); known {
		return nil
	}
	h, v := e.at(r.Node)
	if h == nil {
		return fault.New(fault.NotFound, "NoAgent", fault.T("No machine joined as node %s.", "没有机器以节点 %s 的身份加入。", r.Node))
	}
	if v == nil {
		e.mu.Lock()
		h.starts[r.Name] = r
		e.mu.Unlock()
		e.Put(engine.Observation{Name: r.Name, TaskID: r.TaskID, State: engine.StateCreated, Node: r.Node})
		e.again(h)
		return nil
	}
	err := e.call(ctx, h, v, kindStart, start{r, e.cfg.Mint(r.Name)})
	if !isNever(err) {
		return err
	}
	e.starts.fail(r, err)
	return nil
}

// again sees to orders that were put down while the agent attached.
func (e *Engine) again(h *host) {
	e.mu.Lock()
	v := h.now
	if v == nil || !v.isWhole() {
		e.mu.Unlock()
		return
	}
	starts, stops := h.starts, h.stops
	h.starts, h.stops = map[engine.Name]engine.Replica{}, map[engine.Name]time.Duration{}
	e.mu.Unlock()
	for _, r := range starts {
		e.starts.late(v, r)
	}
	for name, grace := range stops {
		v.order(kindStop, stop{name, grace}, nil)
	}
}

// Stop tells the agent. Where it is not attached it is told when it is; a replica that was not begun there is not begun.
func (e *Engine) Stop(ctx context.Context, name engine.Name, grace time.Duration) error {
	if err := e.waitReady(ctx); err != nil {
		return err
	}
	o, known := e.Replica(name)
	if !known || o.State == engine.StateExited || o.State == engine.StateDone {
		return nil
	}
	h, v := e.at(o.Node)
	if h == nil {
		return nil
	}
	if v != nil {
		return e.call(ctx, h, v, kindStop, stop{name, grace})
	}
	e.mu.Lock()
	if had, ok := h.stops[name]; !ok || grace < had {
		h.stops[name] = grace
	}
	e.mu.Unlock()
	e.again(h)
	return nil
}

// Remove tells the agent. A replica that is done on a machine that is away is forgotten here; its machine names it again when it is back.
func (e *Engine) Remove(ctx context.Context, name engine.Name) error {
	if err := e.waitReady(ctx); err != nil {
		return err
	}
	o, known := e.Replica(name)
	if !known {
		return nil
	}
	if o.State != engine.StateDone {
		return fault.New(fault.Conflict, "ReplicaNotDone", fault.T(
			"Replica %s has not handed over everything yet.", "副本 %s 尚未完成交接。", name))
	}
	h, v := e.at(o.Node)
	if h == nil || v == nil {
		e.Drop(name)
		return nil
	}
	return e.call(ctx, h, v, kindRemove, name)
}

// Poke has the agent look at a replica again.
func (e *Engine) Poke(name engine.Name) {
	if o, ok := e.Replica(name); ok {
		if _, v := e.at(o.Node); v != nil {
			v.out.put(frame(0, kindPoke, name))
		}
	}
}

// Erase has all machines delete what their disks have of a task's checkpoints; those that are away when they are back, while this leader leads.
func (e *Engine) Erase(taskID string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, h := range e.hosts {
		if h.now != nil && h.now.isWhole() {
			h.now.order(kindErase, taskID, nil)
		} else {
			h.erased[taskID] = true
		}
	}
}
