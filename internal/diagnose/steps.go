package diagnose

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// StepRule is one way in which programs print how far they are.
type StepRule struct {
	ID      string `json:"id"`
	Pattern string `json:"pattern"` // its first group is the number, its second, if any, how many there are
	Lines   bool   `json:"lines"`   // the number is of something else than steps: lines are counted instead
	Coarse  bool   `json:"coarse"`  // what rises are no steps: it tells of life, and of no pace
	Bar     bool   `json:"bar"`     // it is drawn before the first step too
	From    string `json:"from"`

	re *regexp.Regexp
}

//go:embed steps.json
var stepTable []byte

// StepRules are tried in their order. Safe for concurrent use.
type StepRules []*StepRule

// LoadSteps reads the table of ways in which programs print how far they are.
func LoadSteps() StepRules {
	rules, err := parseSteps(stepTable)
	if err != nil {
		panic(err) // part of the program; a test reads it
	}
	return rules
}

func parseSteps(data []byte) (rules StepRules, err error) {
	if err := json.Unmarshal(data, &rules); err != nil {
		return nil, err
	}
	for _, r := range rules {
		if r.re, err = regexp.Compile(r.Pattern); err != nil {
			return nil, fmt.Errorf("rule %s: %w", r.ID, err)
		}
		if n := r.re.NumSubexp(); r.ID == "" || n < 1 || n > 2 {
			return nil, fmt.Errorf("rule %q is not whole", r.ID)
		}
	}
	return rules, nil
}

// MaxStepLine bounds what is looked at of a line: its end, which is the newest of a bar that is drawn over.
const MaxStepLine = 1 << 10

// escapes are colours and moves of the cursor.
var escapes = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]")

// Read is the number that a line says, and of how many; 0: it does not say. The rule is nil where it says nothing.
func (t StepRules) Read(line string) (rule *StepRule, step, total int64) {
	line = strings.TrimRight(line[max(0, len(line)-MaxStepLine):], "\r\n ")
	if i := strings.LastIndexByte(line, '\r'); i >= 0 {
		line = line[i+1:]
	}
	if !strings.ContainsAny(line, "0123456789") {
		return nil, 0, 0
	}
	if strings.IndexByte(line, '\x1b') >= 0 {
		line = escapes.ReplaceAllString(line, "")
	}
	for _, r := range t {
		m := r.re.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		step, err := strconv.ParseInt(m[1], 10, 48)
		if err != nil {
			continue
		}
		if len(m) > 2 && m[2] != "" {
			if total, err = strconv.ParseInt(m[2], 10, 48); err != nil || step > total {
				continue
			}
		}
		return r, step, total
	}
	return nil, 0, 0
}

// A Meter follows one rank's lines. A script may print several numbers: bars of epochs around bars of steps, of
// downloads, of an evaluation. The first that rises is followed; another takes its place when that one is heard no
// more. The zero value has no rules. Not safe for concurrent use.
type Meter struct {
	Rules StepRules

	at    source
	last  int64 // that at said
	base  int64 // what it had reached when it began anew
	alien int   // matches of others since
	from  int64 // how many steps there were before the first that it said
	heard map[source]int64
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
)

// Line takes a line. said: it tells of life. step is how far the rank is, 0: not known by this line; it starts anew with
// each epoch where the script's does not, so it goes on from what it had reached. last: no more of these are expected.
func (m *Meter) Line(line string) (step int64, said, last bool) {
	rule, n, total := m.Rules.Read(line)
	if rule == nil {
		return 0, false, false
	}
	s := source{rule, total}
	if rule.Lines {
		s.total = 0
		n = m.heard[s] + 1
	}
	if s == m.at {
		if m.alien = 0; n < m.last {
			m.base = min(m.base+m.last, 1<<60)
		}
		m.last, m.heard[s] = n, n
		return m.base + n, true, total > 0 && n == total && !rule.Lines
	}
	before, known := m.heard[s]
	if m.alien++; m.heard == nil || !known && len(m.heard) >= maxSources {
		m.heard = map[source]int64{}
		if m.at.rule != nil {
			m.heard[m.at] = m.last
		}
	}
	m.heard[s] = n
	finer := m.Coarse() && !rule.Coarse // steps are followed as soon as there are any
	if !known || n <= before || m.at.rule != nil && m.alien < maxAlien && !finer {
		return 0, true, false
	}
	if m.from = before; !rule.Bar {
		m.from = max(before-(n-before), 0)
	}
	m.at, m.last, m.base, m.alien = s, n, 0, 0
	return n, true, total > 0 && n == total && !rule.Lines
}
