// Package spot has what a task says of nodes that may be taken away at short notice: spot machines, preemptible ones.
//
// Place: vocabulary, below api/v1. Promise: plain data. Enemies: judgement.
package spot

// Rule is whether a gang may stand on such nodes; "": they are as good as others.
type Rule string

// The rules.
const (
	Never  Rule = "never"
	Prefer Rule = "prefer" // as long as they have room for it
	Only   Rule = "only"
)

// Rules are all of them.
var Rules = []Rule{Never, Prefer, Only}

// Bars says that a node can't be used, whatever is free there.
func (r Rule) Bars(isSpot bool) bool { return r == Never && isSpot || r == Only && !isSpot }

// Tries are the rules by which room is looked for, the best first.
func (r Rule) Tries() []Rule {
	if r == Prefer {
		return []Rule{Only, ""}
	}
	return []Rule{r}
}
