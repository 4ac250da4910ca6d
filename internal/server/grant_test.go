package server

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/server/train"
)

// A member whose project may use one device must not run eight in another queue at priority 10,000.
func TestQueuesAndPrioritiesAreGranted(t *testing.T) {
	w := newWorld(t)
	member := w.user("li", api.RoleMember)
	for _, q := range []*api.Queue{
		{Meta: api.Meta{Name: "small"}, Spec: api.QueueSpec{Limit: map[string]int{"devices": 1}}},
		{Meta: api.Meta{Name: "big"}, Spec: api.QueueSpec{Limit: map[string]int{"devices": 64}}},
		{Meta: api.Meta{Name: "below"}, Spec: api.QueueSpec{Parent: "small"}},
	} {
		w.put(q)
	}
	w.put(&api.Project{Meta: api.Meta{Name: "lab"}, Spec: api.ProjectSpec{Queue: "small", Members: []string{"li"}}, Status: api.ProjectStatus{Grants: api.GrantsVersion}})
	const tasks = "/api/v1/training-tasks"
	in := func(queue string, priority int) func(*api.TrainingTask) {
		return func(t *api.TrainingTask) {
			t.Meta.Project, t.Spec.Queue = "lab", queue
			if priority > 0 {
				t.Spec.Priority = &priority
			}
		}
	}
	for _, who := range []string{member, w.admin} { // the rule is the project's, whoever submits
		for _, path := range []string{tasks, tasks + "?dryRun=true", "/api/v1/placements/preview", tasks + "/recipe"} {
			a := w.refusedTo(who, "POST", path, manifest("x", in("big", 0)), 403, "QueueNotAllowed")
			if len(a.Fields) != 1 || a.Fields[0].Path != "spec.queue" || !strings.Contains(a.Message, "small") || !strings.Contains(a.Hint, "fermi queue set big --add-project lab") {
				t.Errorf("%s", a.raw)
			}
			w.refusedTo(who, "POST", path, manifest("x", in("below", 0)), 403, "QueueNotAllowed")
			a = w.refusedTo(who, "POST", path, manifest("x", in("", 10_000)), 403, "PriorityNotAllowed")
			if len(a.Fields) != 1 || a.Fields[0].Path != "spec.priority" || !strings.Contains(a.Message, "500") || !strings.Contains(a.Hint, "--max-priority 10000") {
				t.Errorf("%s", a.raw)
			}
			if a = w.refusedTo(who, "POST", path, manifest("x", in("big", 10_000)), 403, "QueueNotAllowed"); len(a.Fields) != 2 {
				t.Errorf("not all at once: %s", a.raw)
			}
			w.refusedTo(who, "POST", path, manifest("x", in("", 0), func(t *api.TrainingTask) { t.Spec.PriorityClass = "inference" }), 403, "PriorityNotAllowed")
		}
		w.refusedTo(who, "POST", tasks+"?project=lab", `{"taskName":"flat","command":["x"],"queue":"big"}`, 403, "QueueNotAllowed")
		w.refusedTo(who, "POST", tasks+"?project=lab", `{"taskName":"flat","command":["x"],"priority":501}`, 403, "PriorityNotAllowed")
	}
	// A kind's own class, and less, is always allowed; so is the project's own queue.
	var made train.Submitted
	a := w.do("POST", tasks, member, manifest("own", in("small", 500)))
	if a.status != 200 {
		t.Fatalf("%s", a.raw)
	}
	must(t, json.Unmarshal(a.Data, &made))

	// An update must not raise it; a lower one is fine.
	raise := func(to int) answerOf {
		next := *made.Task
		next.Spec.Priority = &to
		return w.do("PUT", tasks+"/own?project=lab", member, &next)
	}
	if a := raise(501); a.status != 403 || a.Reason != "PriorityNotAllowed" {
		t.Fatalf("%s", a.raw)
	}
	if a := raise(100); a.status != 200 {
		t.Fatalf("%s", a.raw)
	}

	// Members change neither rule; the operator's word opens the queue, the admin's the priority.
	var queue api.Queue
	w.ok("GET", "/api/v1/queues/big", nil, &queue)
	queue.Spec.Projects = []string{"lab"}
	w.refusedTo(member, "PUT", "/api/v1/queues/big", &queue, 403, "NotAllowed")
	var project api.Project
	w.ok("GET", "/api/v1/projects/lab", nil, &project)
	project.Spec.MaxPriority = 700
	w.refusedTo(member, "PUT", "/api/v1/projects/lab", &project, 403, "NotAllowed")
	unknown := queue
	unknown.Spec.Projects = []string{"lab", "nobody"}
	if a := w.refused("PUT", "/api/v1/queues/big", &unknown, 400, "InvalidField"); a.Fields[0].Path != "spec.projects[1]" {
		t.Errorf("%s", a.raw)
	}
	w.ok("PUT", "/api/v1/queues/big", &queue, &queue)
	w.ok("PUT", "/api/v1/projects/lab", &project, &project)
	for i, more := range []func(*api.TrainingTask){in("big", 0), in("big", 700)} {
		if a := w.do("POST", tasks, member, manifest(fmt.Sprintf("granted-%d", i), more)); a.status != 200 {
			t.Fatalf("%s", a.raw)
		}
	}
	w.refusedTo(member, "POST", tasks, manifest("x", in("big", 701)), 403, "PriorityNotAllowed")
	// A clone is a submit, and so is an ended task that goes on: by the rules of now.
	queue.Spec.Projects = nil
	w.ok("PUT", "/api/v1/queues/big", &queue, &queue)
	w.refusedTo(member, "POST", tasks+"/granted-0/clone?project=lab", "{}", 403, "QueueNotAllowed")
	queue.Spec.Projects = []string{api.AllProjects}
	w.ok("PUT", "/api/v1/queues/big", &queue, &queue)
	if a := w.do("POST", tasks+"/granted-0/clone?project=lab", member, `{"name":"again"}`); a.status != 200 {
		t.Fatalf("%s", a.raw)
	}
}

func TestAnEndedTaskComesBackOnlyWhereItMay(t *testing.T) {
	w := newWorld(t)
	w.put(&api.Queue{Meta: api.Meta{Name: "big"}, Spec: api.QueueSpec{Projects: []string{"default"}}})
	task := w.submit("ended", func(t *api.TrainingTask) { t.Spec.Queue = "big" })
	w.change(task, func(t *api.TrainingTask) { t.Status.Phase = api.PhaseStopped })
	var queue api.Queue
	w.ok("GET", "/api/v1/queues/big", nil, &queue)
	queue.Spec.Projects = nil
	w.ok("PUT", "/api/v1/queues/big", &queue, nil)
	w.refused("POST", "/api/v1/training-tasks/ended/restore", `{"step":10}`, 403, "QueueNotAllowed")
}

// A project that a queue names does not go: another of its name would inherit the queue.
func TestAProjectNamedByAQueueStays(t *testing.T) {
	w := newWorld(t)
	w.put(&api.Project{Meta: api.Meta{Name: "lab"}})
	w.put(&api.Queue{Meta: api.Meta{Name: "big"}, Spec: api.QueueSpec{Projects: []string{"lab"}}})
	w.refused("DELETE", "/api/v1/projects/lab", nil, 409, "InUse")
}

// A flood of unknown fields in the flat form names at most 100 of them.
func TestAFloodOfFlatFields(t *testing.T) {
	w := newWorld(t)
	var b strings.Builder
	b.WriteString(`{"taskName":"x"`)
	for i := range 20_000 {
		fmt.Fprintf(&b, `,"k%d":0`, i)
	}
	b.WriteString("}")
	if a := w.refused("POST", "/api/v1/training-tasks", b.String(), 400, "UnknownField"); len(a.Fields) != train.MaxRefused {
		t.Errorf("%d fields", len(a.Fields))
	}
}
