package tenant

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/store"
)

func (w *world) put(o api.Object) {
	w.t.Helper()
	w.id++
	m := o.GetMeta()
	m.ID = fmt.Sprintf("%s-%03d", api.MustInfo(o.Kind()).IDPrefix, w.id)
	revision, err := w.store.Commit(w.t.Context(), store.Txn{Ops: []store.Op{store.Create(o)}})
	if err == nil {
		_, err = w.store.Get(w.t.Context(), api.KeyOf(o), revision)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) task(project, name, queue string, priority int, phase api.Phase) {
	w.put(&api.TrainingTask{Meta: api.Meta{Project: project, Name: name}, Spec: api.TrainingTaskSpec{Queue: queue, Priority: &priority}, Status: api.TrainingTaskStatus{Phase: phase}})
}

// rules are what queues and projects say now.
func (w *world) rules() map[string]any {
	w.t.Helper()
	revision, err := w.store.Commit(w.t.Context(), store.Txn{Ops: []store.Op{store.Delete(nobody, 0)}})
	if err != nil {
		w.t.Fatal(err)
	}
	out := map[string]any{}
	for _, kind := range []api.Kind{api.KindQueue, api.KindProject} {
		list, err := w.store.List(w.t.Context(), kind, "", revision)
		if err != nil {
			w.t.Fatal(err)
		}
		list.Ascend("", func(o api.Object) bool {
			switch o := o.(type) {
			case *api.Queue:
				out["queue "+o.Meta.Name] = o.Spec.Projects
			case *api.Project:
				out["project "+o.Meta.Name] = []int{o.Spec.MaxPriority, o.Status.Grants}
			}
			return true
		})
	}
	return out
}

// What projects use when the rule comes is granted, once.
func TestAnUpgradeGrantsWhatIsUsed(t *testing.T) {
	w := newWorld(t)
	for _, q := range []string{"default", "big", "small"} {
		w.put(&api.Queue{Meta: api.Meta{Name: q}})
	}
	w.put(&api.Project{Meta: api.Meta{Name: "lab"}, Spec: api.ProjectSpec{Queue: "small"}})
	w.put(&api.Project{Meta: api.Meta{Name: "idle"}})
	w.put(&api.Project{Meta: api.Meta{Name: "new"}, Status: api.ProjectStatus{Grants: api.GrantsVersion}})
	w.task("lab", "own", "small", 500, api.PhaseRunning)
	w.task("lab", "other", "big", 900, api.PhasePending)
	w.task("lab", "ended", "default", 100, api.PhaseCompleted)
	w.task("lab", "gone", "deleted-queue", 100, api.PhaseCompleted)
	w.task("new", "never", "big", 9000, api.PhasePending)
	if err := Grant(t.Context(), w.store, store.Epoch{}); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"queue default": []string{"lab"}, "queue big": []string{"lab"}, "queue small": []string(nil),
		"project lab": []int{900, 1}, "project idle": []int{0, 1}, "project new": []int{0, 1},
	}
	if diff := cmp.Diff(want, w.rules()); diff != "" {
		t.Fatal(diff)
	}
	// An operator takes a queue back: no later leader gives it again.
	o, err := w.store.Get(t.Context(), api.Key{Kind: api.KindQueue, Name: "big"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	q := store.Clone(o.(*api.Queue))
	q.Spec.Projects = nil
	if _, err := w.store.Commit(t.Context(), store.Txn{Ops: []store.Op{store.Update(q)}}); err != nil {
		t.Fatal(err)
	}
	if err := Grant(t.Context(), w.store, store.Epoch{}); err != nil {
		t.Fatal(err)
	}
	want["queue big"] = []string(nil)
	if diff := cmp.Diff(want, w.rules()); diff != "" {
		t.Fatal(diff)
	}
}

func TestOnlyTheLeaderGrants(t *testing.T) {
	w := newWorld(t)
	w.put(&api.Project{Meta: api.Meta{Name: "lab"}})
	if err := Grant(t.Context(), w.store, store.Epoch{Key: "nobody-leads", Revision: 7}); err == nil {
		t.Fatal("a leader of long ago granted")
	}
	if got := w.rules()["project lab"]; !cmp.Equal(got, []int{0, 0}) {
		t.Fatal(got)
	}
}
