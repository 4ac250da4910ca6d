package hostengine

import (
	"errors"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
)

// seen is a folder's records at one moment.
type seen struct {
	gone bool // no replica.json: the folder was removed
	// launched says that a launcher once held the lock; launcher is which, nil when its record is garbled.
	launched bool
	launcher *record.Process
	// begun says that go was given or the user's process started.
	begun bool
	start *record.Start
	stop  *record.Stop // ours; those of other epochs are none of our business
	exit  *engine.Exit
	done  bool
}

// look reads the records of a folder, the last one of a life first: with an exit seen, everything
// before it is there too. A garbled record counts as written where that is the careful reading
// (something may have started), and as absent where it would end a life (exit, done). Of orders to stop those of this epoch count.
func look(dir string, epoch int64) (seen, error) {
	var s seen
	if !record.Exists(dir, record.FileReplica) {
		s.gone = true
		return s, nil
	}
	var (
		exit    engine.Exit
		done    record.Done
		stop    record.Stop
		start   record.Start
		process record.Process
		order   record.Go
		errs    [6]error
		there   [6]bool
	)
	for i, f := range []struct {
		file string
		into any
	}{
		{record.FileDone, &done},
		{record.FileExit, &exit},
		{record.FileStart, &start},
		{record.FileGo, &order},
		{record.FileLauncher, &process},
		{record.StopFile(epoch), &stop},
	} {
		there[i], errs[i] = record.Read(dir, f.file, f.into)
		if errs[i] != nil && !errors.Is(errs[i], record.ErrTorn) {
			return s, errs[i]
		}
	}
	if there[1] {
		s.exit = &exit
	}
	s.done = there[0] && there[1]
	if there[2] {
		s.start = &start
	}
	s.begun = there[2] || there[3] || errs[2] != nil || errs[3] != nil
	if there[4] {
		s.launcher = &process
	}
	s.launched = there[4] || errs[4] != nil
	if there[5] || errs[5] != nil {
		s.stop = &stop
	}
	return s, nil
}

// observation is what the records mean to the rest of the house; launcher is where others reach its launcher.
func (s seen) observation(r *replica, launcher string) engine.Observation {
	o := engine.Observation{Name: r.name, TaskID: r.task, State: engine.StateCreated, Node: r.node, Launched: s.launched, Address: r.address, LauncherAddress: launcher}
	if s.launcher != nil {
		o.Version = s.launcher.Version
	}
	if s.start != nil {
		o.State, o.Started = engine.StateRunning, s.start.At
		o.Boot, o.Up = s.start.Process.BootID, s.start.Up
	}
	if s.exit != nil {
		o.State, o.Exit = engine.StateExited, s.exit
		if s.done {
			o.State = engine.StateDone
		}
	}
	o.Ready = o.State == engine.StateRunning
	return o
}
