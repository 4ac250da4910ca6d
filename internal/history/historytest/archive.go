package historytest

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
)

// Task makes an archived training task; id, name and displayName follow from i.
func Task(i int, display string) history.Archived {
	t := &api.TrainingTask{Meta: api.Meta{
		ID: fmt.Sprintf("task-%08d", i), Name: fmt.Sprintf("task-%d", i), DisplayName: display, Project: "default", Owner: "admin",
		CreatedAt: epoch, UpdatedAt: epoch.Add(time.Duration(i) * time.Second), Revision: int64(i),
	}}
	t.Spec.Roles = []api.Role{{Name: "worker", Replicas: 1, Command: []string{"python", "train.py"}}}
	t.Spec.Queue = "default"
	t.Status.Phase = api.PhaseCompleted
	return history.Archived{Object: t, Phase: string(api.PhaseCompleted), Queue: "default"}
}

func ids(rows []history.Archived) []string {
	out := []string{}
	for _, r := range rows {
		out = append(out, r.Object.GetMeta().ID)
	}
	return out
}

func archive(t *testing.T, h history.History) {
	ctx := context.Background()
	a := Task(1, "GPT大模型分布式训练")
	a.Expires = epoch
	b := Task(2, "BERT中文预训练")
	ok(t, h.PutArchived(ctx, a, b))
	ok(t, h.PutArchived(ctx, a)) // again
	got, err := h.GetArchived(ctx, api.KindTrainingTask, "default", "task-00000001")
	ok(t, err)
	same(t, a, got)
	// The same name again, later: the newest is found.
	c := Task(3, "new")
	c.Object.GetMeta().Name = "task-1"
	ok(t, h.PutArchived(ctx, c))
	got, err = h.GetArchived(ctx, api.KindTrainingTask, "", "task-1")
	ok(t, err)
	same(t, c, got)
	for _, miss := range [][2]string{{"default", "nobody"}, {"other", "task-1"}, {"other", "task-00000001"}} {
		if _, err := h.GetArchived(ctx, api.KindTrainingTask, miss[0], miss[1]); !fault.Is(err, fault.NotFound) {
			t.Fatalf("%q: %v", miss, err)
		}
	}
	if _, err := h.GetArchived(ctx, api.KindNode, "default", "task-1"); !fault.Is(err, fault.NotFound) {
		t.Fatalf("of another kind: %v", err)
	}
	// Replaced with other words: found by the new, not by the old.
	d := Task(2, "renamed 翻译")
	d.Phase = string(api.PhaseFailed)
	ok(t, h.PutArchived(ctx, d))
	for q, want := range map[string][]string{"中文": {}, "翻译": {"task-00000002"}, "RENAMED": {"task-00000002"}} {
		rows, err := h.ListArchived(ctx, history.ListQuery{Kind: api.KindTrainingTask, Search: q, Limit: 10})
		ok(t, err)
		same(t, want, ids(rows))
	}
	ok(t, h.Forget(ctx, api.KindTrainingTask, "task-00000002", "never there"))
	ok(t, h.Forget(ctx, api.KindTrainingTask, "task-00000002"))
	rows, err := h.ListArchived(ctx, history.ListQuery{Kind: api.KindTrainingTask, Limit: 10})
	ok(t, err)
	same(t, []string{"task-00000001", "task-00000003"}, ids(rows))
	rows, err = h.ListArchived(ctx, history.ListQuery{Kind: api.KindTrainingTask, Search: "翻译", Limit: 10})
	ok(t, err)
	same(t, []string{}, ids(rows))
	if _, err := h.ListArchived(ctx, history.ListQuery{Kind: api.KindTrainingTask, Sort: "colour"}); !fault.Is(err, fault.Invalid) {
		t.Fatalf("unknown sort: %v", err)
	}
	if err := h.PutArchived(ctx, history.Archived{Object: &api.TrainingTask{}}); !fault.Is(err, fault.Invalid) {
		t.Fatalf("without id: %v", err)
	}
}

func expiry(t *testing.T, h history.History) {
	ctx := context.Background()
	for i := range 6 {
		a := Task(i, "x")
		if i%2 == 0 {
			a.Expires = epoch.Add(time.Duration(-i) * time.Hour)
		}
		ok(t, h.PutArchived(ctx, a))
	}
	rows, err := h.Expired(ctx, epoch, 10)
	ok(t, err)
	same(t, []string{"task-00000004", "task-00000002"}, ids(rows))
	rows, err = h.Expired(ctx, epoch, 1)
	ok(t, err)
	same(t, []string{"task-00000004"}, ids(rows))
}

func search(t *testing.T, h history.History) {
	ctx := context.Background()
	displays := []string{"GPT大模型分布式训练", "BERT中文预训练", "全球翻译推理服务", "ＧＰＴ full width", "Straße 100%", `it's "quoted" _*`, "模"}
	for i, d := range displays {
		ok(t, h.PutArchived(ctx, Task(i, d)))
	}
	for q, want := range map[string][]int{
		"gpt": {0, 3}, "ＧＰＴ大": {0}, "训练": {0, 1}, "训": {0, 1}, "练": {0, 1}, "模": {0, 6}, "大模型分布式": {0}, "模大": {},
		"task-4": {4}, "TASK-": {0, 1, 2, 3, 4, 5, 6}, "100%": {4}, "%": {4}, "straße": {4}, "_*": {5}, `"q`: {5}, "it's": {5}, "5g": {},
		"*": {5}, "k-": {0, 1, 2, 3, 4, 5, 6}, "服务": {2}, "务": {2}, "\x00": {},
	} {
		rows, err := h.ListArchived(ctx, history.ListQuery{Kind: api.KindTrainingTask, Search: q, Limit: 10})
		ok(t, err)
		wantIDs := []string{}
		for _, i := range want {
			wantIDs = append(wantIDs, fmt.Sprintf("task-%08d", i))
		}
		if got := ids(rows); !slices.Equal(wantIDs, got) {
			t.Errorf("search %q: want %q, got %q", q, wantIDs, got)
		}
	}
}

// lists compares every kind of list with the slow and obvious way.
func lists(t *testing.T, h history.History) {
	ctx := context.Background()
	rnd := rand.New(rand.NewPCG(1, 2))
	one := func(of ...string) string { return of[rnd.IntN(len(of))] }
	all := map[string]history.Archived{}
	random := func(i int) history.Archived {
		a := Task(i, one("GPT大模型", "BERT中文", "全球翻译", "run ")+fmt.Sprint(rnd.IntN(300)))
		m := a.Object.GetMeta()
		m.Name = one("a", "b", "task-") + fmt.Sprint(rnd.IntN(300))
		m.Project, m.Owner = one("p1", "p1", "p1", "p2", "p3"), one("ann", "bob", "陈")
		m.UpdatedAt = epoch.Add(time.Duration(rnd.IntN(50)) * time.Minute)
		if rnd.IntN(3) == 0 {
			m.Labels = map[string]string{"team": one("x", "y"), "k": "v=1"}
		}
		a.Phase, a.Queue = one("Completed", "Completed", "Completed", "Failed"), one("q1", "q2")
		if i == 77 {
			a.Phase = "Stopped"
		}
		all[m.ID] = a
		return a
	}
	for some := range slices.Chunk(rnd.Perm(250), 17) {
		var batch []history.Archived
		for _, i := range some {
			batch = append(batch, random(i))
		}
		ok(t, h.PutArchived(ctx, batch...))
	}
	for range 20 { // some change, some go
		ok(t, h.PutArchived(ctx, random(rnd.IntN(250))))
		id := fmt.Sprintf("task-%08d", rnd.IntN(250))
		ok(t, h.Forget(ctx, api.KindTrainingTask, id))
		delete(all, id)
	}
	for n := range 30 {
		q := history.ListQuery{Kind: api.KindTrainingTask, Sort: one("", "id", "name", "displayName", "updatedAt"), Desc: n%2 == 0, Limit: 9 + rnd.IntN(80)}
		for _, set := range []func(){
			func() { q.Project = one("p1", "p2", "nobody") }, func() { q.Owner = one("ann", "陈") }, func() { q.Queue = one("q1", "q2") },
			func() { q.Phase = []string{"Failed", one("Stopped", "Completed", "none")} }, func() { q.Labels = map[string]string{"team": one("x", "z"), "k": "v=1"} },
			func() { q.Search = one("GPT", "翻译", "译", "task-1", "9", "12", "型1", "zz", "b") },
		} {
			if rnd.IntN(3) == 0 {
				set()
			}
		}
		want := slow(all, q)
		count, err := h.CountArchived(ctx, q, 1000)
		ok(t, err)
		few, err := h.CountArchived(ctx, q, 3)
		ok(t, err)
		got := pages(t, h, q)
		if !slices.Equal(want, got) || count != len(want) || few != min(3, len(want)) {
			t.Fatalf("%+v: counted %d and %d\nwant %d %q\ngot  %d %q", q, count, few, len(want), want, len(got), got)
		}
	}
}

// SortValue is what a cursor behind a row holds.
func SortValue(a history.Archived, sort string) string {
	m := a.Object.GetMeta()
	switch sort {
	case "name":
		return m.Name
	case "displayName":
		return history.SortKey(m.DisplayName)
	case "updatedAt":
		return history.TimeKey(m.UpdatedAt)
	}
	return ""
}

// pages walks a whole list with cursors.
func pages(t *testing.T, h history.History, q history.ListQuery) []string {
	out := []string{}
	for {
		rows, err := h.ListArchived(context.Background(), q)
		ok(t, err)
		out = append(out, ids(rows)...)
		if len(rows) < q.Limit {
			return out
		}
		last := rows[len(rows)-1]
		q.After = &history.Cursor{Value: SortValue(last, q.Sort), ID: last.Object.GetMeta().ID}
	}
}

func slow(all map[string]history.Archived, q history.ListQuery) []string {
	var rows []history.Archived
	for _, a := range all {
		m := a.Object.GetMeta()
		fits := (q.Project == "" || q.Project == m.Project) && (q.Owner == "" || q.Owner == m.Owner) && (q.Queue == "" || q.Queue == a.Queue) &&
			(len(q.Phase) == 0 || slices.Contains(q.Phase, a.Phase)) && strings.Contains(history.Haystack(m.Name, m.DisplayName), history.Fold(q.Search))
		for k, v := range q.Labels {
			fits = fits && m.Labels[k] == v
		}
		if fits {
			rows = append(rows, a)
		}
	}
	slices.SortFunc(rows, func(a, b history.Archived) int {
		c := cmp.Or(cmp.Compare(SortValue(a, q.Sort), SortValue(b, q.Sort)), cmp.Compare(a.Object.GetMeta().ID, b.Object.GetMeta().ID))
		if q.Desc {
			return -c
		}
		return c
	})
	return ids(rows)
}
