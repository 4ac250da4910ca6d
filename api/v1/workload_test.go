package v1

import (
	"testing"
	"time"
)

// TestWorkKinds: a row with a class is of a kind that has a view, and no other is.
func TestWorkKinds(t *testing.T) {
	for _, row := range Kinds {
		if _, ok := WorkloadOf(row.New()); ok != (row.Class != "") {
			t.Errorf("%s: a view %v, class %q", row.Kind, ok, row.Class)
		}
		if row.Class != "" && PriorityClasses[row.Class] == 0 {
			t.Errorf("%s: there is no class %q", row.Kind, row.Class)
		}
		if kind, ok := KindOfID(row.IDPrefix + "-0123456789abcdefghjk"); !ok || kind != row.Kind {
			t.Errorf("an id of %s is taken for one of %q", row.Kind, kind)
		}
	}
	if kind, ok := KindOfID("nothing-0123456789abcdefghjk"); ok {
		t.Errorf("an unknown id is taken for one of %s", kind)
	}
}

// TestTheViewOfATask: what waits, who is elastic, and where a role with attempts of its own is.
func TestTheViewOfATask(t *testing.T) {
	now, low := time.Now(), 1
	task := &TrainingTask{Meta: Meta{ID: "task-1", Name: "t", Project: "p"}, Spec: TrainingTaskSpec{Roles: []Role{{Name: "a", Replicas: 2}, {Name: "b", Replicas: 1}}}}
	view := func(change func(*TrainingTask)) *Workload {
		next := *task
		change(&next)
		w := next.Workload()
		return &w
	}
	if w := view(func(*TrainingTask) {}); !w.Waits() || w.Elastic() || w.Priority != 500 || w.Key() != KeyOf(task) || w.PlaceKey() != (Key{KindPlacement, "p", "task-1"}) {
		t.Errorf("%+v", w)
	}
	for name, change := range map[string]func(*TrainingTask){
		"stopped":    func(t *TrainingTask) { t.Spec.Stop = true },
		"deleted":    func(t *TrainingTask) { t.Meta.DeletedAt = &now },
		"running":    func(t *TrainingTask) { t.Status.Phase = PhaseRunning },
		"checkpoint": func(t *TrainingTask) { t.Spec.Checkpoint = &Checkpoints{From: &CheckpointFrom{Upload: true}} },
	} {
		if view(change).Waits() {
			t.Errorf("%s: it waits", name)
		}
	}
	w := view(func(t *TrainingTask) {
		t.Spec.Roles = []Role{{Name: "a", Replicas: 2, MinReplicas: &low}}
		t.Status.Attempt, t.Status.Roles = 3, []RoleStatus{{Name: "a", Attempt: 5}}
	})
	if !w.Elastic() || w.AttemptOf("a") != 5 || w.AttemptOf("b") != 3 {
		t.Errorf("%+v", w)
	}
	if view(func(t *TrainingTask) {
		t.Spec.Roles, t.Spec.Zones = []Role{{Name: "a", Replicas: 2, MinReplicas: &low}}, &ZoneRules{SurviveZoneLoss: true}
	}).Elastic() {
		t.Error("what survives a zone keeps its size")
	}
}
