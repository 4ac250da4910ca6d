package sim

import "github.com/fermi-cluster/fermi/sched"

// tells is how often in the interval of saves the planner hears of them; until then it takes a loss for larger than it is.
const tells = 4

// tellSaves says when each job that stands saved last.
func (w *world) tellSaves() {
	every := w.cfg.Checkpoint
	if !w.cfg.Moves || w.now < w.heard+every/tells {
		return
	}
	w.heard = w.now
	for _, l := range w.jobs {
		if ran := w.now - l.since - l.begins; l.at != nil && ran >= every {
			w.planner.Saved(l.job.Task, w.time().Add(-(ran % every)))
		}
	}
}

// move lets a job go on at its second place; it saves before it leaves.
func (l *life) move(w *world, e sched.Eviction) {
	w.settle(l, !e.AskCheckpoint)
	w.leave(l)
	if err := w.planner.Moved(l.job.Task, e.To); err != nil {
		panic("sim: a place that was reserved is refused: " + err.Error())
	}
	l.at, l.since, l.begins = e.To, w.now, w.cfg.Restart
	l.turn++
	l.stops++
	w.stat.Moves++
	w.goOn(l)
}
