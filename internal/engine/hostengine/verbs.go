package hostengine

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/cgroup"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Start makes the replica's folder if there is none and sees to it that it has a keeper, which
// starts the launcher. It returns when the folder is durable.
func (e *Engine) Start(ctx context.Context, r engine.Replica) error {
	if !validName(r.Name) || r.TaskID == "" || r.Inside != "" && !validName(r.Inside) {
		return fault.New(fault.Invalid, "BadReplicaName",
			fault.T("%q cannot name a replica.", "%q 不能用作副本名称。", string(r.Name)))
	}
	if err := e.waitReady(ctx); err != nil {
		return err
	}
	if e.index.find(r.Name) != nil {
		return nil
	}
	if err := e.create(r); err != nil && !errors.Is(err, errNameTaken) {
		if fault.Is(err, fault.Full) {
			return err
		}
		code := fault.Unavailable
		if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
			code = fault.Full
		}
		return fault.New(code, "ReplicaFolder", fault.T(
			"The folder of replica %s could not be made.", "无法创建副本 %s 的目录。", r.Name)).Because(err)
	}
	_, err := e.adoptKept(r.Name)
	return err
}

// create makes the folder of a replica, with what the machine adds to it.
func (e *Engine) create(r engine.Replica) error {
	lease, err := e.addresses.lease(r)
	if err != nil {
		return err
	}
	if err := e.dirs.make(r, e.cfg.terms(r, lease)); err != nil {
		e.addresses.release(r.Name, lease)
		return err
	}
	return e.dirs.sync()
}

// adoptKept is the replica, from the index or from disk, with a keeper; nil when there is none.
func (e *Engine) adoptKept(name engine.Name) (*replica, error) {
	r, added, err := e.adopt(name)
	if err != nil || !added {
		return r, err
	}
	select {
	case e.keep <- r:
		return r, nil
	case <-e.stopped:
		return nil, errStopped
	}
}

// Stop writes the wish down under our epoch; the keeper tells the launcher, now or when there is
// one. A launcher obeys only the newest epoch, so what a leader orders after its time ends nothing.
func (e *Engine) Stop(ctx context.Context, name engine.Name, grace time.Duration) error {
	if !validName(name) {
		return nil
	}
	if err := e.waitReady(ctx); err != nil {
		return err
	}
	r, err := e.adoptKept(name)
	if r == nil || err != nil {
		return err
	}
	s, err := look(r.dir, e.cfg.Epoch)
	if err == nil && (s.gone || s.exit != nil || s.stop != nil && s.stop.Grace <= grace) {
		r.wake()
		return nil
	}
	if err == nil {
		err = record.Write(r.dir, record.StopFile(e.cfg.Epoch), record.Stop{Grace: max(grace, 0), At: e.cfg.Clock.Now().UTC()})
	}
	if err != nil {
		return fault.New(fault.Unavailable, "StopNotWritten", fault.T(
			"The order to stop replica %s could not be written.", "无法写入副本 %s 的停止指令。", name)).Because(err)
	}
	r.wake()
	return nil
}

// Spec is the records of a folder, for a launcher that asks over the link.
func (e *Engine) Spec(ctx context.Context, name engine.Name) ([]byte, error) {
	if err := e.waitReady(ctx); err != nil {
		return nil, err
	}
	r := e.index.find(name)
	if r == nil {
		return nil, fault.New(fault.NotFound, "NoSpec", fault.T("There is no replica %s.", "副本 %s 不存在。", name))
	}
	var s record.Spec
	for file, into := range map[string]any{record.FileReplica: &s.Replica, record.FileEndpoint: &s.Link} {
		if ok, err := record.Read(r.dir, file, into); err != nil || !ok {
			return nil, fault.New(fault.Unavailable, "ReplicaGarbled", fault.T("The folder of replica %s cannot be read.", "无法读取副本 %s 的目录。", name)).Because(err)
		}
	}
	return json.Marshal(s)
}

// Remove deletes a replica that is done: its cgroup, then its folder.
func (e *Engine) Remove(ctx context.Context, name engine.Name) error {
	if !validName(name) {
		return nil
	}
	if err := e.waitReady(ctx); err != nil {
		return err
	}
	r, err := e.adoptKept(name)
	if r == nil || err != nil {
		return err
	}
	if o, known := e.Replica(name); known && o.State != engine.StateDone {
		return errNotDone(name)
	}
	// The launcher writes its last record shortly before it ends.
	select {
	case <-r.ended:
	case <-ctx.Done():
		return fault.From(ctx.Err())
	}
	select {
	case <-e.stopped:
		return errStopped
	default:
	}
	if err := removeGroup(r); err != nil {
		return fault.New(fault.Unavailable, "CgroupBusy", fault.T(
			"The cgroup of replica %s could not be removed yet.", "暂时无法移除副本 %s 的 cgroup。", name)).Because(err)
	}
	memory := record.SharedMemory(name) // a launcher that was killed leaves it
	if err := errors.Join(os.RemoveAll(memory), os.RemoveAll(record.PeerMemory(memory))); err != nil {
		e.cfg.Log.Warn("shared memory could not be freed", "replica", name, "error", err)
	}
	e.addresses.release(r.name, r.network)
	if err := e.dirs.discard(r); err != nil {
		return fault.New(fault.Unavailable, "ReplicaFolder", fault.T(
			"The folder of replica %s could not be removed.", "无法移除副本 %s 的目录。", name)).Because(err)
	}
	e.index.drop(r)
	return nil
}

func removeGroup(r *replica) error {
	g, err := cgroup.Load(r.dir)
	if err != nil || g == nil {
		return nil // a record that cannot be read names nothing that we could remove
	}
	if pids, err := g.Pids(); err == nil && len(pids) > 0 {
		_ = g.Kill(syscall.SIGKILL)
	}
	return g.Remove()
}
