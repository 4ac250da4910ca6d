package idle

import (
	"slices"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/activity"
)

// Rule is when an environment is stopped.
type Rule struct {
	After  time.Duration   // without activity; 0: never
	Counts []activity.Name // signals that are activity; none: all
}

// Seen is what is known.
type Seen struct {
	Table activity.Table
	Heard time.Time // by our clock, when the table was looked at
	Kept  time.Time // when somebody said that it shall stay; zero: nobody did
	// Warned is when it was said that it will be stopped; zero: it was not, or that is over.
	Warned time.Time
}

// Verdict is what follows. Times are by our clock.
type Verdict struct {
	By      activity.Name // what was active last
	Active  bool          // now
	Since   time.Time     // when the last activity was
	StopsAt time.Time     // zero: it will not be stopped by itself
	Warn    bool          // say now that it will be stopped
	Clear   bool          // the warning is over: somebody works there
	Stop    bool
	Look    time.Time // when it has to be looked at again; zero: never
}

// Fresh is how old a table may be that an environment is stopped by.
const Fresh = 10 * time.Second

// maxWarning is how long before the stop it is said that it will come; a quarter of a short time.
const maxWarning = 5 * time.Minute

// Warning is how long before its stop an environment is warned.
func (r Rule) Warning() time.Duration { return min(r.After/4, maxWarning) }

func (r Rule) counts(n activity.Name) bool { return len(r.Counts) == 0 || slices.Contains(r.Counts, n) }

// Judge is the whole judgement.
func Judge(r Rule, s Seen, now time.Time) (v Verdict) {
	shift := s.Heard.Sub(s.Table.At) // from the launcher's clock to ours
	v.Since, v.By = s.Table.Since.Add(shift), activity.Start
	for _, x := range s.Table.Signals {
		if !r.counts(x.Name) {
			continue
		}
		switch {
		case x.Active && !v.Active:
			v.Active, v.Since, v.By = true, s.Heard, x.Name
		case !v.Active && x.Last != nil && x.Last.Add(shift).After(v.Since):
			v.Since, v.By = x.Last.Add(shift), x.Name
		}
	}
	if s.Kept.After(v.Since) && !v.Active {
		v.Since, v.By = s.Kept, activity.Kept
	}
	v.Clear = !s.Warned.IsZero() && v.Since.After(s.Warned)
	if r.After <= 0 {
		v.Clear = !s.Warned.IsZero()
		return v
	}
	warned := s.Warned
	if v.Clear {
		warned = time.Time{}
	}
	v.StopsAt = v.Since.Add(r.After)
	if warned.IsZero() {
		if at := v.StopsAt.Add(-r.Warning()); now.Before(at) {
			v.Look = at
			return v
		}
		warned, v.Warn = now, true
	}
	if soonest := warned.Add(r.Warning()); v.StopsAt.Before(soonest) { // it was not known before that nobody worked there
		v.StopsAt = soonest
	}
	v.Look = v.StopsAt
	if now.Sub(s.Heard) > Fresh { // what happened since is not known
		v.Warn, v.Look = false, now
		return v
	}
	v.Stop = !v.Warn && !now.Before(v.StopsAt)
	return v
}
