package hostengine

import (
	"context"
	"errors"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
)

const (
	// maxSpawns is how many launchers may fail in a row, before one took hold or while handing over.
	maxSpawns = 5
	// lastWords is how long a launcher may live on after its last record.
	lastWords = 10 * time.Second
)

// keeper looks after one replica until it is done and its launcher has ended. All of it is one
// goroutine.
type keeper struct {
	e *Engine
	r *replica
	// proc is the launcher we watch, nil when we know of none.
	proc *process
	// told is the order to stop that this launcher heard of.
	toldPID int
	toldAt  time.Time
	// killAt is when a launcher that was told to stop at once is killed; zero: it was not.
	killAt time.Time
	// doneAt is when we first saw the last record.
	doneAt time.Time
	// spawns counts launchers started in this phase of life; handing says which phase.
	spawns  int
	handing bool
	busy    time.Duration // the wait while somebody unknown holds the lock
}

func (e *Engine) runKeeper(ctx context.Context, r *replica) {
	k := &keeper{e: e, r: r}
	defer close(r.ended)
	defer k.drop()
	for ctx.Err() == nil {
		wait, end, err := k.turn(ctx)
		if end {
			return
		}
		if err != nil && ctx.Err() == nil {
			e.cfg.Log.Warn("replica could not be looked after", "replica", r.name, "error", err)
			wait = time.Second
		}
		k.wait(ctx, wait)
	}
}

// turn looks once and does what is to be done. It says how long to wait for news; end says that
// nothing is left to do.
func (k *keeper) turn(ctx context.Context) (wait time.Duration, end bool, err error) {
	if k.proc != nil && k.proc.over() {
		k.drop()
	}
	s, err := look(k.r.dir, k.e.cfg.Epoch)
	if err != nil {
		return 0, false, err
	}
	if s.gone {
		k.e.index.drop(k.r)
		return 0, true, nil
	}
	k.e.observe(k.r, s)
	if k.proc == nil && s.launcher != nil {
		if k.proc, err = watchRecorded(*s.launcher); err != nil && !errors.Is(err, errEnded) {
			return 0, false, err
		}
	}
	if k.proc != nil {
		return k.attend(s), false, nil
	}
	return k.alone(ctx)
}

// attend is a turn while a launcher lives.
func (k *keeper) attend(s seen) time.Duration {
	k.busy = 0
	now := k.e.cfg.Clock.Now()
	switch {
	case s.done && k.doneAt.IsZero():
		k.doneAt = now
	case s.done && now.Sub(k.doneAt) >= lastWords:
		k.e.cfg.Log.Warn("launcher did not end after its last record; killed", "replica", k.r.name, "pid", k.proc.pid)
		k.proc.signal(syscall.SIGKILL)
	case s.stop != nil && s.exit == nil && s.stop.Grace == 0 && !k.killAt.IsZero() && !now.Before(k.killAt):
		k.e.cfg.Log.Warn("launcher did not stop though it was told to do so at once; killed", "replica", k.r.name, "pid", k.proc.pid)
		k.proc.signal(syscall.SIGKILL)
	case s.stop != nil && s.exit == nil && s.launcher != nil && s.launcher.PID == k.proc.pid:
		// Its record is there, so it listens. One that has none yet finds the order itself.
		if remote := k.e.cfg.Remote; remote != nil {
			_ = remote.Stop(k.r.name, s.stop.Grace) // one that is not attached hears it when it is: then we are poked
		} else if k.toldPID != k.proc.pid || !k.toldAt.Equal(s.stop.At) {
			k.toldPID, k.toldAt = k.proc.pid, s.stop.At
			k.proc.signal(syscall.SIGTERM)
		}
		if far := k.e.cfg.Remote != nil && k.e.cfg.Remote.Far; s.stop.Grace == 0 && k.killAt.IsZero() && !far {
			k.killAt = now.Add(k.e.deaf)
		}
		if !k.killAt.IsZero() {
			return min(safetyTick, k.killAt.Sub(now))
		}
	}
	return safetyTick
}

// alone is a turn while we know of no launcher. Nothing is believed before we hold the lock: only
// then is no launcher alive, and the records are the last word.
func (k *keeper) alone(ctx context.Context) (wait time.Duration, end bool, err error) {
	lock, err := record.TryLock(k.r.dir)
	if errors.Is(err, record.ErrLocked) {
		// A launcher that has not written its record yet, or another server at this same place.
		k.busy = min(max(2*k.busy, 5*time.Millisecond), time.Second)
		return k.busy, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	unlock := func() {
		// Explicitly: a child being forked at this moment holds a copy of the file until it execs.
		_ = unix.Flock(int(lock.Fd()), unix.LOCK_UN)
		_ = lock.Close()
	}
	s, err := look(k.r.dir, k.e.cfg.Epoch)
	if err == nil && !s.gone && s.exit == nil && (s.launched || s.begun) {
		if err = k.bury(ctx, s); err == nil {
			s, err = look(k.r.dir, k.e.cfg.Epoch)
		}
	}
	if err == nil && !s.gone && !s.done && k.exhausted(s) {
		if err = k.giveUp(s); err == nil {
			s, err = look(k.r.dir, k.e.cfg.Epoch)
		}
	}
	unlock()
	if err != nil {
		return 0, false, err
	}
	if s.gone {
		k.e.index.drop(k.r)
		return 0, true, nil
	}
	k.e.observe(k.r, s)
	if s.done {
		return 0, true, nil
	}
	return k.launch(ctx)
}

// exhausted says that another launcher would be one too many. The count begins anew when a life
// passes from starting to handing over.
func (k *keeper) exhausted(s seen) bool {
	if handing := s.exit != nil; handing != k.handing {
		k.handing, k.spawns = handing, 0
	}
	return k.spawns >= maxSpawns
}

// launch starts a launcher, after a pause when earlier ones failed.
func (k *keeper) launch(ctx context.Context) (wait time.Duration, end bool, err error) {
	if k.spawns > 0 {
		pause := k.e.pause << (2 * (k.spawns - 1))
		select {
		case <-k.e.cfg.Clock.After(pause):
		case <-ctx.Done():
			return 0, false, nil
		}
	}
	k.spawns++
	p, err := k.e.starter.spawn(k.r)
	if err != nil {
		k.e.cfg.Log.Warn("launcher could not be started", "replica", k.r.name, "try", k.spawns, "error", err)
		return time.Millisecond, false, nil // the pause of the next try is the wait
	}
	k.e.cfg.Log.Debug("launcher started", "replica", k.r.name, "pid", p.pid, "try", k.spawns)
	k.proc = p
	return safetyTick, false, nil
}

// giveUp writes the end of a life that no launcher would take to its end.
func (k *keeper) giveUp(s seen) error {
	now := k.e.cfg.Clock.Now().UTC()
	k.e.cfg.Log.Error("launcher failed again and again; the replica is given up", "replica", k.r.name, "tries", k.spawns)
	if s.exit == nil {
		exit := engine.Exit{
			Code: -1, Reason: engine.ReasonLauncherLost, At: now,
			Message:   "The launcher could not be started on this machine; its log is in the replica's folder.",
			Diagnosis: engine.Diagnosis{Cause: engine.CauseLauncherNotStarted},
		}
		if err := record.Write(k.r.dir, record.FileExit, exit); err != nil {
			return err
		}
	}
	return record.Write(k.r.dir, record.FileDone, record.Done{
		At:         now,
		Incomplete: "The launcher failed while handing over; logs and outputs may be incomplete.",
	})
}

// wait returns at the launcher's end, at a poke, or after d.
func (k *keeper) wait(ctx context.Context, d time.Duration) {
	var ended <-chan struct{}
	if k.proc != nil {
		ended = k.proc.ended
	}
	select {
	case <-ctx.Done():
	case <-ended:
	case <-k.r.poke:
	case <-k.e.cfg.Clock.After(d):
	}
}

// drop lets go of the launcher we watch, reaping it if it has ended; it never ends one.
func (k *keeper) drop() {
	if k.proc != nil {
		k.proc.close()
		k.proc = nil
	}
}
