package diagnose

// A Meter follows one rank's lines. A script may print several numbers: bars of epochs around bars of steps, of
// downloads, of an evaluation. The first that rises is followed; another takes its place when that one is heard no
// more. The zero value has no rules. Not safe for concurrent use.
type Meter struct {
	Rules   StepRules
	Origins Origins // nil: its own

	at     source
	last   int64 // that at said
	stride int64 // the most that it rose by
	base   int64 // what it had reached when it began anew
	alien  int   // matches of others since
	from   int64 // how many steps there were before the first that it said
	heard  map[source]int64
	epoch  int64 // of the newest line that says nothing but an epoch; 0: none
}

// Origins are the numbers of the first epoch of scripts that count their epochs from 0 or from 1: a process that goes on in the eighth does not
// show which. They outlive the processes of a rank. Not safe for concurrent use.
type Origins map[*StepRule]int64

// first is the number of a script's first epoch, with what it says now.
func (o Origins) first(rule *StepRule, epoch int64) int64 {
	if !rule.FromOne.maybe {
		return rule.FromOne.first()
	}
	first, known := o[rule]
	if !known || epoch < first {
		if first = 0; epoch == 1 { // the first that was ever heard
			first = 1
		}
		o[rule] = first
	}
	return first
}

// From is how many steps there were before the first that was told of what is followed, as well as lines can say it: a bar is drawn before
// its first step, a line comes with each step or each so many. It changes when another number is followed.
func (m *Meter) From() int64 { return m.from }

// Coarse says that what is followed are no steps: epochs, or lines.
func (m *Meter) Coarse() bool { return m.at.rule != nil && m.at.rule.Coarse }

// source is a kind of line: of the same rule and the same total.
type source struct {
	rule  *StepRule
	total int64
}

const (
	maxSources = 16
	maxAlien   = 8
	maxSteps   = 1 << 60
)

// Line takes a line. said: it tells of life. step is how far the rank is, 0: not known by this line; where the script's number starts anew with
// each epoch, the epoch that the line tells counts, else it goes on from what it had reached. last: no more of these are expected.
func (m *Meter) Line(line string) (step int64, said, last bool) {
	read := m.Rules.Read(line)
	rule, n := read.Rule, read.Step
	if rule == nil {
		return 0, false, false
	}
	s := source{rule, read.Total}
	if rule.Lines {
		s.total = 0
		n = m.heard[s] + 1
	}
	if rule.Coarse && !rule.Lines {
		m.epoch = n
	}
	last = read.Total > 0 && n == read.Total && !rule.Lines
	before, past := m.before(read)
	if s == m.at {
		switch m.alien = 0; {
		case past:
			m.base = before
		case n < m.last:
			m.base = min(m.base+m.made(s.total), maxSteps)
		default:
			m.stride = max(m.stride, n-m.last)
		}
		m.last, m.heard[s] = n, n
		return m.base + n, true, last
	}
	heard, known := m.heard[s]
	if m.alien++; m.heard == nil || !known && len(m.heard) >= maxSources {
		m.heard = map[source]int64{}
		if m.at.rule != nil {
			m.heard[m.at] = m.last
		}
	}
	m.heard[s] = n
	finer := m.Coarse() && !rule.Coarse // steps are followed as soon as there are any
	if !known || n <= heard || m.at.rule != nil && m.alien < maxAlien && !finer {
		return 0, true, false
	}
	if m.from = heard; !rule.Bar {
		m.from = max(heard-(n-heard), 0)
	}
	m.from += before
	m.at, m.last, m.stride, m.base, m.alien = s, n, n-heard, before, 0
	return m.base + n, true, last
}

// made is how many steps an epoch had whose number begins anew: all, where it came as near to them as it is printed.
func (m *Meter) made(total int64) int64 {
	if total > m.last && total-m.last <= m.stride {
		return total
	}
	return m.last
}

// before is how many steps there were before the epoch that a line tells; not ok: it tells none.
func (m *Meter) before(r Reading) (steps int64, ok bool) {
	epoch := r.Epoch
	if r.Rule.Above && m.epoch > 0 {
		epoch, ok = m.epoch, true
	}
	if ok = ok || r.HasEpoch; !ok || r.Total == 0 {
		return 0, false
	}
	if m.Origins == nil {
		m.Origins = Origins{}
	}
	epochs := max(epoch-m.Origins.first(r.Rule, epoch), 0)
	if epochs > maxSteps/r.Total {
		return 0, false
	}
	return epochs * r.Total, true
}
