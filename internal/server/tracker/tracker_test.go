package tracker

import (
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/array"
	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/store"
)

// TestWhatMakesOtherWorkIsNotCounted: a service and an array take no place; what they make does.
func TestWhatMakesOtherWorkIsNotCounted(t *testing.T) {
	born := func(o api.Work) store.Change { return store.Change{Key: api.KeyOf(o), New: o} }
	tr := New()
	moved, stop := tr.Watch("svc-1")
	defer stop()
	tr.apply([]store.Change{
		born(&serving.InferenceService{Meta: api.Meta{ID: "svc-1"}, Spec: serving.ServiceSpec{Queue: "q"}, Status: serving.ServiceStatus{Phase: serving.PhaseDeploying}}),
		born(&serving.ServiceReplica{Meta: api.Meta{ID: "rep-1"}, Spec: serving.ServiceReplicaSpec{Queue: "q"}, Status: serving.ServiceReplicaStatus{Phase: api.PhaseRunning}}),
		born(&serving.ServiceReplica{Meta: api.Meta{ID: "rep-2"}, Spec: serving.ServiceReplicaSpec{Queue: "q"}, Status: serving.ServiceReplicaStatus{Phase: api.PhasePending}}),
		born(&array.TaskArray{Meta: api.Meta{ID: "arr-1"}, Spec: array.TaskArraySpec{TrainingTaskSpec: api.TrainingTaskSpec{Queue: "q"}}, Status: array.TaskArrayStatus{Phase: api.PhaseRunning}}),
		born(&api.TrainingTask{Meta: api.Meta{ID: "task-1"}, Spec: api.TrainingTaskSpec{Queue: "q"}, Status: api.TrainingTaskStatus{Phase: api.PhasePending}}),
	})
	if got, want := tr.Counts("q"), (api.QueueStatus{Pending: 2, Running: 1, PendingTasks: 1}); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
	select {
	case <-moved:
	default:
		t.Error("who waits for the service does not hear of it")
	}
}
