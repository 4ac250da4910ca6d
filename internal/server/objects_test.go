package server

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/server/archive"
	"github.com/fermi-cluster/fermi/internal/server/audit"
	"github.com/fermi-cluster/fermi/internal/server/report"
	"github.com/fermi-cluster/fermi/internal/server/train"
	"github.com/fermi-cluster/fermi/internal/store"
)

// TestKinds takes every kind that users write through create, get, update and delete.
func TestKinds(t *testing.T) {
	w := newWorld(t)
	for _, tc := range []struct {
		kind                  api.Kind
		body, changed, pinned string
	}{
		{api.KindZone, `{"metadata":{"name":"z1","displayName":"北京-1"},"spec":{"region":"北京"}}`, `"region":"上海"`, `"region":"北京"`},
		{api.KindQueue, `{"metadata":{"name":"q1"},"spec":{"maxPending":5}}`, `"maxPending":6`, `"maxPending":5`},
		{api.KindProject, `{"metadata":{"name":"p1"},"spec":{"queue":"default","members":["root"]}}`, `"description":"d","members":["root"]`, `"members":["root"]`},
		{api.KindUser, "metadata: {name: u1}\nspec: {role: viewer}\n", `"role":"member"`, `"role":"viewer"`},
	} {
		row := api.MustInfo(tc.kind)
		all := "/api/v1/" + row.Plural
		dry := w.ok("POST", all+"?dryRun=true", tc.body, nil)
		made := w.ok("POST", all, tc.body, nil)
		o := row.New()
		must(t, json.Unmarshal(made.Data, o))
		m := o.GetMeta()
		one := all + "/" + m.Name
		if m.ID == "" || m.Owner != "root" || m.Revision == 0 || m.CreatedAt.IsZero() || made.header.Get("Fermi-Revision") != fmt.Sprint(m.Revision) {
			t.Errorf("%s: %s", tc.kind, made.raw)
		}
		if strings.Contains(string(dry.Data), m.ID) {
			t.Errorf("%s: a dry run used the id", tc.kind)
		}
		w.refused("POST", all, tc.body, 409, "NameTaken")
		for _, word := range []string{m.Name, m.ID} {
			got := row.New()
			w.ok("GET", all+"/"+word, nil, got)
			if got.GetMeta().ID != m.ID {
				t.Errorf("%s by %s: %+v", tc.kind, word, got)
			}
		}
		var list struct{ Items []json.RawMessage }
		w.ok("GET", all+query("search", strings.ToUpper(m.Name), "minRevision", fmt.Sprint(m.Revision)), nil, &list)
		if len(list.Items) != 1 {
			t.Errorf("%s: list found %d", tc.kind, len(list.Items))
		}
		body, err := json.Marshal(o)
		must(t, err)
		next := strings.Replace(string(body), tc.pinned, tc.changed, 1)
		updated := row.New()
		w.ok("PUT", one, next, updated)
		if updated.GetMeta().Revision <= m.Revision || updated.GetMeta().ID != m.ID {
			t.Errorf("%s: updated %+v", tc.kind, updated.GetMeta())
		}
		w.refused("PUT", one, next, 409, "Stale")
		w.ok("DELETE", one, nil, nil)
		w.refused("DELETE", one, nil, 404, "NotFound")
		if a := w.do("GET", one+query("minRevision", made.header.Get("Fermi-Revision")), w.admin, nil); a.status != 404 {
			t.Errorf("%s is still there: %s", tc.kind, a.raw)
		}
	}
}

func TestInUse(t *testing.T) {
	w := newWorld(t)
	w.put(&api.Zone{Meta: api.Meta{Name: "z"}, Spec: api.ZoneSpec{Region: "r"}})
	w.put(&api.Node{Meta: api.Meta{Name: "n"}, Spec: api.NodeSpec{Zone: "z", CPU: 1000, Memory: 1 << 30, Devices: []api.Device{{Type: "A100"}}}, Status: api.NodeStatus{Ready: true}})
	w.submit("t")
	w.refused("DELETE", "/api/v1/queues/default", nil, 409, "InUse")
	w.refused("DELETE", "/api/v1/projects/default", nil, 409, "InUse")
	w.refused("DELETE", "/api/v1/zones/z", nil, 409, "InUse")
	w.refused("DELETE", "/api/v1/users/root", nil, 409, "InUse")
	var zone api.Zone
	w.ok("GET", "/api/v1/zones/z", nil, &zone)
	if diff := cmp.Diff(api.ZoneStatus{Health: api.ZoneHealthy, Nodes: 1, Ready: 1, Devices: 1}, zone.Status); diff != "" {
		t.Error(diff)
	}
	var queue api.Queue
	eventually(t, "the queue counts its task", func() bool {
		w.ok("GET", "/api/v1/queues/default", nil, &queue)
		return queue.Status.Pending == 1
	})
	// The last admin stays one.
	var root api.User
	w.ok("GET", "/api/v1/users/root", nil, &root)
	root.Spec.Role = api.RoleMember
	w.refused("PUT", "/api/v1/users/root", root, 409, "LastAdmin")
	w.user("second", api.RoleAdmin)
	w.ok("PUT", "/api/v1/users/root", root, nil)
}

func TestCordon(t *testing.T) {
	w := newWorld(t)
	w.put(&api.Node{Meta: api.Meta{Name: "n"}, Spec: api.NodeSpec{Zone: "z", CPU: 1000, Memory: 1 << 30}})
	var node api.Node
	for _, cordoned := range []bool{true, true, false, false} {
		word := map[bool]string{true: "cordon", false: "uncordon"}[cordoned]
		w.ok("POST", "/api/v1/nodes/n/"+word, nil, &node)
		if node.Spec.Cordoned != cordoned {
			t.Errorf("%s: %+v", word, node.Spec)
		}
		node = api.Node{}
	}
	w.refused("POST", "/api/v1/nodes/none/cordon", nil, 404, "NotFound")
	w.refusedTo(w.user("m", api.RoleMember), "POST", "/api/v1/nodes/n/cordon", nil, 403, "NotAllowed")
	operator := w.user("op", api.RoleOperator)
	if a := w.do("POST", "/api/v1/nodes/n/cordon", operator, nil); a.status != 200 {
		t.Errorf("operator: %s", a.raw)
	}
}

func TestSubmit(t *testing.T) {
	w := newWorld(t)
	a := w.do("POST", "/api/v1/training-tasks", w.admin, manifest("", func(t *api.TrainingTask) {
		t.Meta.DisplayName = "GPT大模型分布式训练"
		t.Spec.Roles[0].Replicas = 3
		t.Spec.Roles[0].Resources.Accelerators = api.Accelerators{Type: "A100", Count: 8}
		t.Status.Phase = api.PhaseCompleted // never taken
	}), "Accept-Language", "zh")
	var got train.Submitted
	must(t, json.Unmarshal(a.Data, &got))
	if a.status != 200 || a.Message != "训练任务创建成功" || got.Status != "pending" || !strings.HasPrefix(got.Name, "gpt-") {
		t.Fatalf("%s", a.raw)
	}
	if diff := cmp.Diff(&train.DistributedInfo{NodeCount: 3, TotalGPUs: 24, Framework: "plain"}, got.DistributedInfo); diff != "" {
		t.Error(diff)
	}
	task := got.Task
	if task.Meta.ID != got.TaskID || task.Meta.Owner != "root" || task.Spec.Queue != "default" || task.Status.Phase != api.PhasePending || task.Meta.Project != "default" {
		t.Errorf("%+v", task)
	}
	if single := w.ok("POST", "/api/v1/training-tasks", manifest("one"), nil); strings.Contains(string(single.Data), "distributedInfo") || single.Message != "Training task created" {
		t.Errorf("%s", single.raw)
	}
	for _, tc := range []struct {
		name   string
		edit   func(*api.TrainingTask)
		reason string
		path   string
	}{
		{"project", func(t *api.TrainingTask) { t.Meta.Project = "none" }, "InvalidField", "metadata.project"},
		{"queue", func(t *api.TrainingTask) { t.Spec.Queue = "none" }, "InvalidField", "spec.queue"},
		{"archive", func(t *api.TrainingTask) { t.Spec.Code = &api.Code{Archive: "sha256:" + strings.Repeat("0", 64)} }, "InvalidField", "spec.code.archive"},
		{"stop", func(t *api.TrainingTask) { t.Spec.Stop = true }, "InvalidField", "spec.stop"},
		{"command", func(t *api.TrainingTask) { t.Spec.Roles[0].Command = nil }, "InvalidField", "spec.roles[0].command"},
	} {
		a := w.refused("POST", "/api/v1/training-tasks", manifest("bad", tc.edit), 400, tc.reason)
		if len(a.Fields) != 1 || a.Fields[0].Path != tc.path {
			t.Errorf("%s: %s", tc.name, a.raw)
		}
	}
	var audit audit.Audits
	w.ok("GET", "/api/v1/audit", nil, &audit)
	if len(audit.Items) != 7 || audit.Items[0].Outcome != "InvalidField" || audit.Items[6].Outcome != "ok" || audit.Items[6].Actor != "root" || audit.Items[6].After == "" {
		t.Errorf("audit: %+v", audit.Items)
	}
	var happened report.EventList
	w.ok("GET", "/api/v1/training-tasks/one/events", nil, &happened)
	if len(happened.Items) != 1 || happened.Items[0].Reason != "Created" || happened.Items[0].Actor != "root" {
		t.Errorf("events: %+v", happened)
	}
	w.ok("GET", "/api/v1/events"+query("kind", "TrainingTask", "name", "one"), nil, &happened)
	if len(happened.Items) != 1 {
		t.Errorf("events by name: %+v", happened)
	}
}

// TestSoleOwner: where projects can't be kept apart only one user may start processes.
func TestSoleOwner(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.SoleOwner = func() string { return "root" } })
	w.submit("mine")
	ann := w.user("ann", api.RoleAdmin) // the right to submit is not enough
	task := map[string]any{"metadata": map[string]any{"name": "hers"}, "spec": map[string]any{"roles": []any{map[string]any{"name": "w", "replicas": 1, "command": []string{"true"}}}}}
	w.refusedTo(ann, "POST", "/api/v1/training-tasks", task, 403, "SingleTenant")
}

func TestFlatRequest(t *testing.T) {
	w := newWorld(t)
	var got train.Submitted
	w.ok("POST", "/api/v1/training-tasks", `{"taskName":"BERT中文预训练","command":["/bin/true"],"replicas":2,"resources":{"cpu":"2"},"priority":600}`, &got)
	task := got.Task
	if task.Meta.DisplayName != "BERT中文预训练" || task.Spec.Roles[0].Replicas != 2 || task.Spec.Roles[0].Resources.CPU != 2000 || *task.Spec.Priority != 600 {
		t.Errorf("%+v", task)
	}
	a := w.refused("POST", "/api/v1/training-tasks", `{"taskName":"gpt3-pretraining",
		"launchMode":"new","distributedConfig":{"enabled":true,"nodeIds":["env-001"],"framework":"deepspeed"}}`, 400, "NotBuilt")
	var paths []string
	for _, f := range a.Fields {
		paths = append(paths, f.Path)
		if !strings.Contains(f.Message, `"existing"; use that`) {
			t.Errorf("%+v", f)
		}
	}
	if diff := cmp.Diff([]string{"distributedConfig", "launchMode"}, paths); diff != "" {
		t.Error(diff)
	}
	w.refused("POST", "/api/v1/training-tasks", `{"taskName":"x","command":["a"],"colour":"red"}`, 400, "UnknownField")
}

func TestQueueFull(t *testing.T) {
	w := newWorld(t)
	w.put(&api.Queue{Meta: api.Meta{Name: "small"}, Spec: api.QueueSpec{MaxPending: 3, Projects: []string{"default"}}})
	eventually(t, "the tracker counts", w.server.tasks.Ready)
	results := make(chan int, 10)
	for i := range 10 {
		go func() {
			a := w.do("POST", "/api/v1/training-tasks", w.admin, manifest(fmt.Sprintf("t%d", i), func(t *api.TrainingTask) { t.Spec.Queue = "small" }))
			if a.status == 429 && (a.Reason != "QueueFull" || a.header.Get("Retry-After") == "" || !a.Retryable) {
				t.Errorf("%s", a.raw)
			}
			results <- a.status
		}()
	}
	count := map[int]int{}
	for range 10 {
		count[<-results]++
	}
	if diff := cmp.Diff(map[int]int{200: 3, 429: 7}, count); diff != "" {
		t.Error(diff)
	}
	var list struct{ Items []*api.TrainingTask }
	w.ok("GET", "/api/v1/training-tasks?queue=small", nil, &list)
	w.change(list.Items[0], func(t *api.TrainingTask) { t.Status.Phase = api.PhaseStopped })
	eventually(t, "a place is free", func() bool {
		return w.do("POST", "/api/v1/training-tasks", w.admin, manifest("late", func(t *api.TrainingTask) { t.Spec.Queue = "small" })).status == 200
	})
}

func TestChangeTask(t *testing.T) {
	w := newWorld(t)
	task := w.submit("t", func(t *api.TrainingTask) { t.Spec.PriorityClass = "training" })
	path := "/api/v1/training-tasks/t"
	task.Meta.DisplayName, task.Spec.Description = "新名字", "d"
	seven := 700
	task.Spec.Priority = &seven
	task.Status.Phase = api.PhaseFailed
	var next api.TrainingTask
	w.ok("PUT", path, task, &next)
	if next.Meta.DisplayName != "新名字" || *next.Spec.Priority != 700 || next.Spec.PriorityClass != "" || next.Status.Phase != api.PhasePending {
		t.Errorf("%+v", next)
	}
	next.Spec.Roles[0].Command, next.Spec.Queue = []string{"rm"}, "other"
	a := w.refused("PUT", path, next, 400, "Immutable")
	if len(a.Fields) != 2 || a.Fields[0].Path != "spec.roles" || a.Fields[1].Path != "spec.queue" {
		t.Errorf("%s", a.raw)
	}
	// The manifest it was made from, applied again, changes nothing it may not.
	again := manifest("t", func(t *api.TrainingTask) { t.Meta.Revision = next.Meta.Revision })
	w.ok("PUT", path, again, nil)
}

func TestStopCloneDelete(t *testing.T) {
	w := newWorld(t)
	task := w.submit("t")
	path := "/api/v1/training-tasks/t"
	var got api.TrainingTask
	for range 2 { // twice is once
		w.ok("POST", path+"/stop", nil, &got)
		if !got.Spec.Stop {
			t.Errorf("%+v", got.Spec)
		}
	}
	var clone train.Submitted
	w.ok("POST", path+"/clone", `{"displayName":"第二次"}`, &clone)
	if clone.Task.Meta.DisplayName != "第二次" || clone.Task.Spec.Stop || clone.TaskID == task.Meta.ID || clone.Status != "pending" {
		t.Errorf("%+v", clone)
	}
	w.ok("POST", path+"/clone", nil, &clone)
	w.refused("POST", path+"/clone", `{"colour":1}`, 400, "BadBody")
	for range 2 {
		w.ok("DELETE", path, nil, &got)
		if got.Meta.DeletedAt == nil {
			t.Errorf("%+v", got.Meta)
		}
	}
	w.refused("PUT", path, &got, 409, "Deleting")
	var happened report.EventList
	w.ok("GET", path+"/events", nil, &happened)
	var reasons []string
	for _, e := range happened.Items {
		reasons = append(reasons, e.Reason)
	}
	if diff := cmp.Diff([]string{"Created", "StopRequested", "DeleteRequested"}, reasons); diff != "" {
		t.Error(diff)
	}
	var why train.Explanation
	w.ok("GET", path+"/why", nil, &why)
	if why.Reason != "NoFit" || why.Message.ZH == "" {
		t.Errorf("%+v", why)
	}
}

// TestArchived is about tasks that have left the store.
func TestArchived(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	task := w.submit("t")
	done := w.change(task, func(t *api.TrainingTask) {
		t.Status.Phase, t.Status.Reason = api.PhaseCompleted, "Succeeded"
	})
	must(t, w.history.PutArchived(ctx, history.Archived{Object: done, Phase: "Completed", Queue: "default"}))
	start := time.Now().UTC().Truncate(time.Second)
	must(t, w.history.PutUsage(ctx, history.UsageRow{Replica: task.Meta.ID + "-worker-0-1", TaskID: task.Meta.ID, Project: "default", Node: "n", Devices: 2, Start: start, Stop: start.Add(time.Second), ExitCode: 3}))
	_, err := w.store.Commit(ctx, store.Txn{Ops: []store.Op{store.Delete(api.KeyOf(done), 0)}})
	must(t, err)
	_, err = w.blob.Put(ctx, "outputs/"+task.Meta.ID+"/worker-0/模型.bin", strings.NewReader("0123456789"))
	must(t, err)
	path := "/api/v1/training-tasks/" + task.Meta.ID
	eventually(t, "it left the cache", func() bool {
		_, err := w.store.GetByID(ctx, api.KindTrainingTask, task.Meta.ID, 0)
		return fault.Is(err, fault.NotFound)
	})
	for _, word := range []string{"t", task.Meta.ID} {
		var got api.TrainingTask
		w.ok("GET", "/api/v1/training-tasks/"+word, nil, &got)
		if got.Status.Phase != api.PhaseCompleted {
			t.Errorf("%+v", got)
		}
	}
	var replicas struct{ Items []train.ReplicaView }
	w.ok("GET", path+"/replicas", nil, &replicas)
	if len(replicas.Items) != 1 || replicas.Items[0].Role != "worker" || replicas.Items[0].Attempt != 1 || *replicas.Items[0].ExitCode != 3 || replicas.Items[0].State != "Done" {
		t.Errorf("%+v", replicas)
	}
	var outputs train.OutputFiles
	w.ok("GET", path+"/outputs", nil, &outputs)
	if len(outputs.Items) != 1 || outputs.Items[0].Path != "worker-0/模型.bin" || outputs.Items[0].Size != 10 {
		t.Errorf("%+v", outputs)
	}
	a := w.do("GET", path+"/outputs/worker-0/%E6%A8%A1%E5%9E%8B.bin", w.admin, nil, "Range", "bytes=2-4")
	if a.status != 206 || string(a.raw) != "234" || !strings.HasPrefix(a.header.Get("Content-Disposition"), "attachment") ||
		a.header.Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(a.header.Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("%d %s %v", a.status, a.raw, a.header)
	}
	w.refused("GET", path+"/outputs/none", nil, 404, "NoOutput")
	w.refused("GET", path+"/outputs/a%2f..%2f..%2fx", nil, 404, "UnknownRoute")
	w.refused("GET", path+"/outputs/a%00b", nil, 404, "NoOutput")
	var why train.Explanation
	w.ok("GET", path+"/why", nil, &why)
	if why.Reason != "Succeeded" {
		t.Errorf("%+v", why)
	}
	w.ok("POST", path+"/clone", nil, nil)
	w.ok("POST", path+"/stop", nil, nil)
	w.refused("PUT", path, done, 409, "Finished")
	w.ok("DELETE", path, nil, nil)
	w.refused("GET", path, nil, 404, "NotFound")
	if infos, err := w.blob.List(ctx, "outputs/"+task.Meta.ID+"/", "", 10); len(infos) != 0 {
		t.Errorf("outputs are left: %v %v", infos, err)
	}
}

func TestArchives(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Limits.Archive = 1000 })
	var got archive.Archive
	w.ok("POST", "/api/v1/archives", "some code", &got)
	if !strings.HasPrefix(got.Digest, "sha256:") || got.Size != 9 {
		t.Errorf("%+v", got)
	}
	var again archive.Archive
	w.ok("GET", "/api/v1/archives/"+got.Digest, nil, &again)
	if again != got {
		t.Errorf("%+v", again)
	}
	w.submit("t", func(t *api.TrainingTask) { t.Spec.Code = &api.Code{Archive: got.Digest} })
	w.refused("GET", "/api/v1/archives/sha256:"+strings.Repeat("0", 64), nil, 404, "NoArchive")
	if a := w.do("GET", "/api/v1/archives/nonsense", w.admin, nil); a.status != 400 {
		t.Errorf("%s", a.raw)
	}
	if a := w.do("POST", "/api/v1/archives", w.admin, strings.Repeat("x", 1001)); a.status != 413 {
		t.Errorf("%s", a.raw)
	}
	w.refusedTo(w.user("v", api.RoleViewer), "POST", "/api/v1/archives", "x", 403, "NotAllowed")
}

// TestArchivesOfOthersDoNotExist: who knows the digest of another project's code can neither ask for it nor run
// it, and an upload of the same bytes says nothing about it.
func TestArchivesOfOthersDoNotExist(t *testing.T) {
	w := newWorld(t)
	people := map[string]string{}
	for name, project := range map[string]string{"ann": "lab", "amy": "lab", "eve": "den"} {
		people[name] = w.user(name, api.RoleMember)
		o, err := w.store.Get(t.Context(), api.Key{Kind: api.KindProject, Name: project}, 0)
		p := &api.Project{Meta: api.Meta{Name: project}}
		if err == nil {
			p = store.Clone(o.(*api.Project))
		}
		p.Spec.Members = append(p.Spec.Members, name)
		w.put(p)
	}
	operator := w.user("op", api.RoleOperator)
	var got archive.Archive
	upload := func(who, query, code string) string {
		t.Helper()
		a := w.do("POST", "/api/v1/archives"+query, people[who], code)
		if a.status != 200 {
			t.Fatalf("%d %s", a.status, a.raw)
		}
		must(t, json.Unmarshal(a.Data, &got))
		return got.Digest
	}
	finds := func(token, digest, query string) int {
		t.Helper()
		return w.do("GET", "/api/v1/archives/"+digest+query, token, nil).status
	}
	runs := func(who, project, digest string) answerOf {
		t.Helper()
		return w.do("POST", "/api/v1/training-tasks?dryRun=false", people[who], manifest("t"+id.Default.Random(5), func(x *api.TrainingTask) {
			x.Meta.Project, x.Spec.Code = project, &api.Code{Archive: digest}
		}))
	}
	// Of a project: its members find and run it, others don't.
	shared := upload("ann", "?project=lab", "shared code")
	nowhere := "sha256:" + strings.Repeat("0", 64)
	if finds(people["amy"], shared, "") != 200 || finds(people["amy"], shared, "?project=lab") != 200 || finds(operator, shared, "") != 200 {
		t.Error("a member does not find it")
	}
	there, absent := w.do("GET", "/api/v1/archives/"+shared, people["eve"], nil), w.do("GET", "/api/v1/archives/"+nowhere, people["eve"], nil)
	if there.status != 404 || there.Reason != absent.Reason || there.Message != absent.Message || finds(people["eve"], shared, "?project=lab") == 200 {
		t.Errorf("eve learns of it: %s and %s", there.raw, absent.raw)
	}
	if a, b := runs("eve", "den", shared), runs("eve", "den", nowhere); a.status != 400 || string(a.raw) != string(b.raw) {
		t.Errorf("eve runs it, or learns of it: %s and %s", a.raw, b.raw)
	}
	if a := runs("amy", "lab", shared); a.status != 200 {
		t.Errorf("amy does not run it: %s", a.raw)
	}
	if a := w.do("POST", "/api/v1/archives?project=lab", people["eve"], "x"); a.status != 403 {
		t.Errorf("eve sends to another project: %s", a.raw)
	}
	// Of nobody's project: only who sent it, until a task of a project has it.
	own := upload("ann", "", "own code")
	if finds(people["ann"], own, "") != 200 || finds(people["amy"], own, "") != 404 || runs("amy", "lab", own).status != 400 {
		t.Error("others find what ann sent for herself")
	}
	if a := runs("ann", "lab", own); a.status != 200 {
		t.Errorf("ann does not run it: %s", a.raw)
	}
	if finds(people["amy"], own, "") != 200 || runs("amy", "lab", own).status != 200 || finds(people["eve"], own, "") != 404 {
		t.Error("a task did not open it to its project, or opened it to others")
	}
	// Who is in both projects may take code along.
	o, err := w.store.Get(t.Context(), api.Key{Kind: api.KindProject, Name: "den"}, 0)
	must(t, err)
	den := store.Clone(o.(*api.Project))
	den.Spec.Members = append(den.Spec.Members, "amy")
	w.put(den)
	if a := runs("amy", "den", shared); a.status != 200 {
		t.Errorf("amy does not run it in her other project: %s", a.raw)
	}
	// The same bytes again: the answer is that of new bytes, and now it is eve's too.
	if again := upload("eve", "", "own code"); again != own || finds(people["eve"], own, "") != 200 {
		t.Error("eve does not find what she sent")
	}
}
