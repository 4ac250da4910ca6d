package figure

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// In a gang all ranks take the same time for a step, since they wait for each other in it. What tells the slow one is
// its own part: the step less what it waited for the others. Launchers tell the mean of each rank's over its last
// steps without the slowest quarter, so that a pause, announced or not, is no slowness.
const (
	strayFrom  = 1.5 // times the median of the others' own part
	strayUntil = 1.25
	strayLeast = 0.01             // seconds more than theirs: less is noise
	strayLook  = 15 * time.Second // nobody's turn comes with a slow step, and 50,000 tasks have theirs
	strayEach  = 5 * time.Millisecond
)

// runner is one rank's own part of a step.
type runner struct {
	member *gang.Member
	rank   int
	steps  int
	own    float64 // seconds
}

// Stragglers names the ranks that the others wait for.
func (t *Turn) Stragglers() {
	if t.After.Phase.Finished() || t.Over {
		return
	}
	var list []api.Straggler
	if t.After.Phase == api.PhaseRunning {
		field := t.runners()
		for _, part := range field {
			list = append(list, t.outliers(part)...)
		}
		if len(field) > 0 {
			t.wakeIn(strayLook + time.Duration(len(t.Members))*strayEach)
		}
	}
	slices.SortStableFunc(list, func(a, b api.Straggler) int { return cmp.Compare(b.Own, a.Own) })
	list = list[:min(len(list), api.MaxStragglers)]
	for i := range list {
		if list[i].Since.Equal(t.Now) {
			t.tell(true, "Straggler", "straggler-"+list[i].Role+"-"+strconv.Itoa(list[i].Generation)+"-"+strconv.Itoa(list[i].Rank), strayText(&list[i]))
		}
	}
	if !slices.EqualFunc(list, t.After.Stragglers, sameRunner) {
		t.After.Stragglers, t.Changed = list, true
	}
}

func sameRunner(a, b api.Straggler) bool {
	return a.Rank == b.Rank && a.Role == b.Role && a.Generation == b.Generation
}

// runners are the ranks of each part that tell their own time in its open generation; parts of which fewer than half do
// are left out: nobody knows what is usual there.
func (t *Turn) runners() [][]runner {
	parts, ranks := map[string][]runner{}, map[string]int{}
	var order []string
	for i := range t.Members {
		m := &t.Members[i]
		part := t.Alone(m.Role)
		generation, _ := openIn(t.After, part)
		if _, ok := ranks[part]; !ok {
			order = append(order, part)
		}
		ranks[part] += m.Ranks
		if m.Ended() || m.Said.Generation != int64(generation) {
			continue
		}
		for _, r := range m.Said.Own {
			if r.Rank >= m.First && r.Rank < m.First+m.Ranks {
				parts[part] = append(parts[part], runner{m, r.Rank, r.Steps, r.Seconds})
			}
		}
	}
	var out [][]runner
	for _, part := range order {
		if n := len(parts[part]); n >= 2 && 2*n >= ranks[part] {
			out = append(out, parts[part])
		}
	}
	return out
}

// outliers are those of a part whose own time is far above the median of the others'. One that was named stays so until
// it is clearly no longer.
func (t *Turn) outliers(part []runner) (out []api.Straggler) {
	slices.SortStableFunc(part, func(a, b runner) int { return cmp.Compare(a.own, b.own) })
	generation, _ := openIn(t.After, t.Alone(part[0].member.Role))
	for k, r := range part {
		middle := (len(part) - 1) / 2 // of the others: the larger one of two
		if k <= middle {
			middle++
		}
		others := part[min(middle, len(part)-1)].own
		found := api.Straggler{
			Rank: r.rank, Replica: string(r.member.Name), Role: r.member.Role, Node: r.member.Node, Generation: generation,
			Own: seconds(r.own), Others: seconds(others), Steps: r.steps, Since: t.Now,
		}
		factor := strayFrom
		i := slices.IndexFunc(t.After.Stragglers, func(old api.Straggler) bool { return sameRunner(old, found) })
		if i >= 0 {
			factor, found = strayUntil, t.After.Stragglers[i]
		}
		if r.own > factor*others && r.own-others > strayLeast {
			out = append(out, found)
		}
	}
	return out
}

func seconds(s float64) api.Duration { return api.Duration(s * float64(time.Second)) }

func strayText(f *api.Straggler) fault.Text {
	own, others := f.Own.Std().Round(time.Millisecond), f.Others.Std().Round(time.Millisecond)
	return fault.T("Rank %d on node %s is slow: its own part of a step takes %s, that of the others %s (over %d [step|steps]); they wait for it.",
		"节点 %[2]s 上的 rank %[1]d 过慢：其自身每步耗时 %[3]s，其他 rank 为 %[4]s（统计 %[5]d 步）；其他 rank 在等待它。", f.Rank, f.Node, own, others, f.Steps)
}
