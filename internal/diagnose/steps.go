package diagnose

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/fermi-cluster/fermi/internal/pattern"
)

// StepRule is one way in which programs print how far they are.
type StepRule struct {
	ID      string `json:"id"`
	Pattern string `json:"pattern"` // its first group is the number, its second, if any, how many there are; one called epoch says of which epoch
	Lines   bool   `json:"lines"`   // the number is of something else than steps: lines are counted instead
	Coarse  bool   `json:"coarse"`  // what rises are no steps: it tells of life, and of no pace
	Bar     bool   `json:"bar"`     // it is drawn before the first step too
	Above   bool   `json:"above"`   // a line above tells the epoch
	// FromOne is how such programs number their first epoch.
	FromOne FromOne `json:"fromOne"`
	From    string  `json:"from"`

	re *regexp.Regexp

	number, total, epoch int // groups; 0: none
}

// FromOne says whether a program's epochs are counted from 1: false, true, or "maybe".
type FromOne struct{ yes, maybe bool }

func (f FromOne) first() int64 {
	if f.yes {
		return 1
	}
	return 0
}

// UnmarshalJSON reads the word.
func (f *FromOne) UnmarshalJSON(raw []byte) error {
	switch string(raw) {
	case "true":
		f.yes = true
	case `"maybe"`:
		f.maybe = true
	case "false":
	default:
		return fmt.Errorf("%s is none of true, false, maybe", raw)
	}
	return nil
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
		r.epoch = max(r.re.SubexpIndex("epoch"), 0)
		var groups []int
		for i := 1; i <= r.re.NumSubexp(); i++ {
			if i != r.epoch {
				groups = append(groups, i)
			}
		}
		if r.ID == "" || len(groups) < 1 || len(groups) > 2 {
			return nil, fmt.Errorf("rule %q is not whole", r.ID)
		}
		if r.number = groups[0]; len(groups) > 1 {
			r.total = groups[1]
		}
	}
	return rules, nil
}

// MaxStepLine bounds what is looked at of a line: its end, which is the newest of a bar that is drawn over.
const MaxStepLine = 1 << 10

// escapes are colours and moves of the cursor.
var escapes = pattern.New("\x1b\\[[0-9;?]*[A-Za-z]")

// Reading is what a line says. The rule is nil where it says nothing.
type Reading struct {
	Rule     *StepRule
	Step     int64
	Total    int64 // 0: it does not say of how many
	Epoch    int64 // that the number is of
	HasEpoch bool
}

// Read is what a line says.
func (t StepRules) Read(line string) Reading {
	line = strings.TrimRight(line[max(0, len(line)-MaxStepLine):], "\r\n ")
	if i := strings.LastIndexByte(line, '\r'); i >= 0 {
		line = line[i+1:]
	}
	if !strings.ContainsAny(line, "0123456789") {
		return Reading{}
	}
	if strings.IndexByte(line, '\x1b') >= 0 {
		line = escapes.ReplaceAllString(line, "")
	}
	for _, r := range t {
		if m := r.re.FindStringSubmatch(line); m != nil {
			if out, ok := r.reading(m); ok {
				return out
			}
		}
	}
	return Reading{}
}

// reading is what the groups of a match say.
func (r *StepRule) reading(m []string) (out Reading, ok bool) {
	number := func(group int) (n int64, there bool) {
		if group == 0 || m[group] == "" {
			return 0, false
		}
		n, err := strconv.ParseInt(m[group], 10, 48)
		return n, err == nil
	}
	out.Rule = r
	if out.Step, ok = number(r.number); !ok {
		return out, false
	}
	if r.total > 0 && m[r.total] != "" {
		if out.Total, ok = number(r.total); !ok || out.Step > out.Total {
			return out, false
		}
	}
	out.Epoch, out.HasEpoch = number(r.epoch)
	return out, true
}
