package diagnose

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// Guilt is whose fault an end was.
type Guilt string

const (
	Own  Guilt = "own"  // its own: the cause is there
	Peer Guilt = "peer" // it died of what happened to another
)

// Action is what a cause calls for.
type Action string

const (
	Restart Action = "restart" // in place
	Swap    Action = "swap"    // on another node
	Stop    Action = "stop"    // tried once more; the same again at the same step ends the task
)

// Rule is one row of the table. It matches where everything it gives matches; of words and final one
// is enough.
type Rule struct {
	ID      string     `json:"id"`
	Guilt   Guilt      `json:"guilt"`
	Action  Action     `json:"action"`
	Reasons []string   `json:"reasons,omitempty"` // of the end
	Signals []string   `json:"signals,omitempty"`
	Place   bool       `json:"place,omitempty"` // it says something of the machine, and of what that is part of
	Named   bool       `json:"named,omitempty"` // the engine names it; no end and no words lead to it
	Words   []string   `json:"words,omitempty"` // expressions over the last words
	Final   []string   `json:"final,omitempty"` // expressions over the last traceback alone
	Text    fault.Text `json:"text"`            // follows "rank 3: "
	Advice  fault.Text `json:"advice"`

	words, final []*regexp.Regexp
}

//go:embed rules.json
var table []byte

// Table is the rules in the order in which they are tried. Safe for concurrent use.
type Table []*Rule

// Load reads the table; it takes about a millisecond, so it is done when it is needed.
func Load() Table {
	rules, err := parse(table)
	if err != nil {
		panic(err) // part of the program; a test reads it
	}
	return rules
}

func parse(data []byte) ([]*Rule, error) {
	var rules []*Rule
	if err := json.Unmarshal(data, &rules); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, r := range rules {
		var err error
		if r.words, err = compile(r.Words); err == nil {
			r.final, err = compile(r.Final)
		}
		if err != nil {
			return nil, fmt.Errorf("rule %s: %w", r.ID, err)
		}
		known := slices.Contains([]Guilt{Own, Peer}, r.Guilt) && slices.Contains([]Action{Restart, Swap, Stop}, r.Action)
		if r.ID == "" || seen[r.ID] || !known || r.Named != (len(r.Reasons)+len(r.Signals)+len(r.Words)+len(r.Final) == 0) {
			return nil, fmt.Errorf("rule %q is not whole", r.ID)
		}
		seen[r.ID] = true
	}
	return rules, nil
}

func compile(list []string) (out []*regexp.Regexp, err error) {
	for _, s := range list {
		re, err := regexp.Compile(s)
		if err != nil {
			return nil, err
		}
		out = append(out, re)
	}
	return out, nil
}

// matches says whether the rule is about this end.
func (r *Rule) matches(e Evidence, words, final string) bool {
	if r.Named || len(r.Reasons) > 0 && !slices.Contains(r.Reasons, e.Reason) || len(r.Signals) > 0 && !slices.Contains(r.Signals, e.Signal) {
		return false
	}
	if len(r.words)+len(r.final) == 0 {
		return true
	}
	in := func(text string) func(*regexp.Regexp) bool {
		return func(re *regexp.Regexp) bool { return re.MatchString(text) }
	}
	return slices.ContainsFunc(r.words, in(words)) || final != "" && slices.ContainsFunc(r.final, in(final))
}
