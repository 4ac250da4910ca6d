package clitest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/joined"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Now is the time in all tests of this package.
var Now = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// Fake speaks the REST contract from memory, for the commands' sake only; the real server is
// tested with the real commands in test/e2e.
type Fake struct {
	Mu       sync.Mutex
	Objects  map[api.Kind][]api.Object
	Archives map[string][]byte
	Audit    []api.AuditEntry
	Outputs  map[string]string
	Events   []client.Event
	Log      []client.LogLine
	calls    []string
	rev      int64
	Stopped  chan struct{}
	// Run decides what becomes of a submitted task.
	Run func(t *api.TrainingTask)
	// Follow, when set, holds log streams open until it is closed.
	Follow chan struct{}
	URL    string
	Answers
}

// Answers are what it says, whatever it is asked.
type Answers struct {
	// Moves are what would admit every task.
	Moves []api.TaskMove
	// Recipe answers every question for one.
	Recipe api.Recipe
	// Together is what any running tasks are together.
	Together api.ExistingPreview
	// Planned is the preview of every task; nil: this server does not lead.
	Planned *api.Preview
	Shares  []api.QueueShare
	Lost    api.Outage
	Usage   client.Usage
	// Upgrade is what becomes of a node's agent that is to be upgraded.
	Upgrade func(*api.Node) (joined.Upgrade, *fault.Error)
	// Checkpoints are those of every task.
	Checkpoints []api.Checkpoint
}

func New(t *testing.T) *Fake {
	f := &Fake{Objects: map[api.Kind][]api.Object{}, Archives: map[string][]byte{}, Outputs: map[string]string{}, Stopped: make(chan struct{}), rev: 10}
	srv := httptest.NewServer(f)
	f.URL = srv.URL
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	for _, k := range []string{"FERMI_SERVER", "FERMI_PROJECT", "FERMI_LANG", "LC_ALL", "LC_MESSAGES", "LANG"} {
		t.Setenv(k, "")
	}
	t.Setenv("FERMI_DATA", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("FERMI_TOKEN", "good")
	t.Setenv("FERMI_SERVER", f.URL)
	t.Setenv("TZ", "UTC")
	return f
}

// FixedClock stands still but lets waits pass.
type FixedClock struct{}

func (FixedClock) Now() time.Time { return Now }
func (FixedClock) After(d time.Duration) <-chan time.Time {
	return clock.Real.After(min(d, 20*time.Millisecond))
}

func (f *Fake) Add(objs ...api.Object) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	for _, o := range objs {
		m := o.GetMeta()
		f.rev++
		m.Revision = f.rev
		if m.ID == "" {
			m.ID = api.MustInfo(o.Kind()).IDPrefix + "-" + m.Name
		}
		if m.CreatedAt.IsZero() {
			m.CreatedAt = Now.Add(-3 * time.Minute)
		}
		f.Objects[o.Kind()] = append(f.Objects[o.Kind()], o)
	}
}

func (f *Fake) Called() []string {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	return slices.Clone(f.calls)
}

func answer(w http.ResponseWriter, data any) {
	_ = json.NewEncoder(w).Encode(map[string]any{"code": 200, "message": "OK", "data": data})
}

func refuse(w http.ResponseWriter, e *fault.Error) {
	w.WriteHeader(e.Code.HTTP())
	var fields []map[string]string
	for _, f := range e.Fields {
		fields = append(fields, map[string]string{"path": f.Path, "message": f.Message.EN})
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"code": e.Code.HTTP(), "reason": e.Reason, "message": e.Message.EN, "hint": e.Hint.EN, "fields": fields})
}

func notFound(w http.ResponseWriter, what string) {
	refuse(w, fault.New(fault.NotFound, "NotFound", fault.T("There is no %s.", "没有 %s。", what)))
}

func (f *Fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer good" {
		refuse(w, fault.New(fault.Unauthenticated, "BadToken", fault.T("The token is not known.", "令牌无效。")))
		return
	}
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	f.Mu.Lock()
	call := r.Method + " " + strings.TrimPrefix(r.URL.Path, "/api/v1")
	f.calls = append(f.calls, call)
	f.Mu.Unlock()
	path := strings.Split(strings.TrimPrefix(r.URL.Path, "/api/v1/"), "/")
	if call == "GET /zones/beijing-1/outage" {
		answer(w, f.Lost)
		return
	}
	if path[0] == "shares" {
		if len(path) == 1 {
			answer(w, map[string]any{"items": f.Shares})
			return
		}
		i := slices.IndexFunc(f.Shares, func(x api.QueueShare) bool { return x.Queue == path[1] })
		if i < 0 {
			notFound(w, "queue "+path[1])
			return
		}
		answer(w, f.Shares[i])
		return
	}
	if call == "POST /placements/preview" {
		if f.Planned == nil {
			refuse(w, fault.New(fault.Unavailable, "NotLeading", fault.T("It does not lead.", "不是主节点。")))
			return
		}
		answer(w, f.Planned)
		return
	}
	if call == "POST /training-tasks/existing/preview" {
		answer(w, f.Together)
		return
	}
	if call == "POST /training-tasks/recipe" {
		answer(w, f.Recipe)
		return
	}
	for _, info := range api.Kinds {
		if info.Plural == path[0] {
			f.kind(w, r, info, path[1:], body)
			return
		}
	}
	f.Mu.Lock()
	defer f.Mu.Unlock()
	switch {
	case call == "GET /whoami":
		answer(w, map[string]string{"user": "admin", "role": "admin"})
	case call == "GET /version":
		answer(w, map[string]string{"version": "v9"})
	case call == "GET /events":
		answer(w, map[string]any{"items": f.Events})
	case call == "GET /usage":
		answer(w, f.Usage)
	case call == "GET /audit":
		answer(w, map[string]any{"items": f.Audit})
	case call == "GET /audit/export":
		f.export(w)
	case call == "POST /backup":
		fmt.Fprint(w, "tar bytes")
	case call == "POST /archives":
		sum := sha256.Sum256(body)
		digest := "sha256:" + hex.EncodeToString(sum[:])
		f.Archives[digest] = body
		answer(w, client.Archive{Digest: digest, Size: int64(len(body))})
	case path[0] == "archives":
		if data, ok := f.Archives[path[1]]; ok {
			answer(w, client.Archive{Digest: path[1], Size: int64(len(data))})
			return
		}
		notFound(w, path[1])
	default:
		notFound(w, call)
	}
}

func (f *Fake) kind(w http.ResponseWriter, r *http.Request, info api.KindInfo, path []string, body []byte) {
	if info.Kind == api.KindTrainingTask && len(path) > 1 {
		f.task(w, r, path)
		return
	}
	f.Mu.Lock()
	defer f.Mu.Unlock()
	if len(path) == 0 && r.Method == http.MethodGet {
		items := f.Objects[info.Kind]
		if items == nil {
			items = []api.Object{}
		}
		answer(w, map[string]any{"items": items})
		return
	}
	if r.Method == http.MethodPost && len(path) == 0 {
		f.create(w, r, info, body)
		return
	}
	i := slices.IndexFunc(f.Objects[info.Kind], func(o api.Object) bool { return o.GetMeta().Name == path[0] || o.GetMeta().ID == path[0] })
	if i < 0 {
		notFound(w, info.Singular+" "+path[0])
		return
	}
	obj := f.Objects[info.Kind][i]
	switch {
	case len(path) == 2 && path[1] == "upgrade":
		up, bad := f.Upgrade(obj.(*api.Node))
		if bad != nil {
			refuse(w, bad)
			return
		}
		answer(w, up)
	case len(path) == 2: // cordon, uncordon
		obj.(*api.Node).Spec.Cordoned = path[1] == "cordon"
		answer(w, obj)
	case r.Method == http.MethodGet:
		answer(w, obj)
	case r.Method == http.MethodDelete:
		f.Objects[info.Kind] = slices.Delete(f.Objects[info.Kind], i, i+1)
		answer(w, obj)
	case r.Method == http.MethodPut:
		next, err := api.Decode(info.Kind, body)
		if err != nil {
			refuse(w, fault.From(err))
			return
		}
		if next.GetMeta().Revision != obj.GetMeta().Revision {
			refuse(w, fault.New(fault.Conflict, "Stale", fault.T("Stale.", "已过期。")))
			return
		}
		f.rev++
		next.GetMeta().Revision = f.rev
		f.Objects[info.Kind][i] = next
		answer(w, next)
	}
}

func (f *Fake) create(w http.ResponseWriter, r *http.Request, info api.KindInfo, body []byte) {
	obj, err := api.Decode(info.Kind, body)
	if err == nil {
		err = api.Prepare(obj, func(n int) string { return strings.Repeat("7", n) })
	}
	if err != nil {
		refuse(w, fault.From(err))
		return
	}
	m := obj.GetMeta()
	m.ID, m.CreatedAt, m.Owner = info.IDPrefix+"-"+m.Name, Now, "admin"
	if info.Project && m.Project == "" {
		m.Project = "default"
	}
	if r.URL.Query().Get("dryRun") != "true" {
		f.rev++
		m.Revision = f.rev
		f.Objects[info.Kind] = append(f.Objects[info.Kind], obj)
	}
	switch o := obj.(type) {
	case *api.TrainingTask:
		o.Status.Phase = api.PhasePending
		made := client.Submitted{TaskID: m.ID, Name: m.Name, Status: "pending", Task: o}
		data, _ := json.Marshal(made)
		if f.Run != nil && r.URL.Query().Get("dryRun") != "true" {
			f.Run(o)
		}
		answer(w, json.RawMessage(data))
	case *api.Token:
		answer(w, client.NewToken{Object: o, Secret: "fermi_" + m.Name + "_secret"})
	default:
		answer(w, obj)
	}
}

func (f *Fake) task(w http.ResponseWriter, r *http.Request, path []string) {
	f.Mu.Lock()
	i := slices.IndexFunc(f.Objects[api.KindTrainingTask], func(o api.Object) bool { return o.GetMeta().Name == path[0] || o.GetMeta().ID == path[0] })
	if i < 0 {
		f.Mu.Unlock()
		notFound(w, "task "+path[0])
		return
	}
	task := f.Objects[api.KindTrainingTask][i].(*api.TrainingTask)
	lines := slices.Clone(f.Log)
	follow := f.Follow
	defer func() { f.Mu.Unlock() }()
	switch path[1] {
	case "logs":
		f.Mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		for _, l := range lines {
			data, _ := json.Marshal(l)
			fmt.Fprintf(w, "data: %s\n\n", data)
		}
		_ = http.NewResponseController(w).Flush()
		if follow != nil && r.URL.Query().Get("follow") == "true" {
			select {
			case <-follow:
			case <-r.Context().Done():
			}
		}
		fmt.Fprint(w, "event: end\ndata: {}\n\n")
		f.Mu.Lock()
	case "checkpoints":
		answer(w, map[string]any{"items": f.Checkpoints})
	case "verify": // it is done at once
		answer(w, map[string]any{"items": f.Checkpoints})
		at := time.Now()
		for i := range f.Checkpoints {
			f.Checkpoints[i].Tiers[0].VerifiedAt = &at
		}
	case "stop":
		if by := task.Status.InUseBy; by != "" && r.URL.Query().Get("force") != "true" {
			refuse(w, fault.New(fault.Conflict, "InUse", fault.T("The task %q trains inside it.", "任务 %q 正在其中训练。", by)))
			return
		}
		task.Spec.Stop = true
		close(f.Stopped)
		answer(w, task)
	case "move":
		var wish client.MoveWish
		if err := json.NewDecoder(r.Body).Decode(&wish); err != nil || wish.Zone == "full" {
			refuse(w, fault.New(fault.Conflict, "DevicesBusy", fault.T("All busy.", "全忙。")))
			return
		}
		option := func(name, zone string) api.PlacementOption {
			return api.PlacementOption{Name: name, Zones: []api.ZonePart{{Zone: zone, Nodes: 2}}, NodeCount: 2, Efficiency: api.EfficiencyNote{Percent: 90}}
		}
		m := api.Move{Moving: !wish.Preview, Fits: true, From: option("current", "a"), Lost: api.MoveLoss{SinceSeconds: 60, RestartSeconds: 120, Devices: 8, DeviceSeconds: 1440, Grace: api.Duration(2 * time.Minute)}}
		to := option("planned", wish.Zone)
		m.To = &to
		answer(w, m)
	case "clone":
		answer(w, client.Submitted{TaskID: "task-2", Name: "clone-1", Status: "pending"})
	case "why":
		start := Now.Add(5 * time.Minute)
		answer(w, map[string]any{
			"reason": "QueuePaused", "message": map[string]string{"en": "The queue is paused.", "zh": "队列已暂停。"},
			"evidence": []any{map[string]string{"en": "queue default", "zh": "队列 default"}}, "estimatedStart": start,
			"action": map[string]string{"en": "fermi queue resume default", "zh": "fermi queue resume default"}, "moves": f.Moves,
		})
	case "replicas":
		zero := 0
		answer(w, map[string]any{"items": []client.Replica{{Name: "r", Role: "worker", Index: 0, Node: "n1", Zone: "bj-1", State: "Done", ExitCode: &zero}}})
	case "outputs":
		if len(path) > 2 {
			fmt.Fprint(w, f.Outputs[strings.Join(path[2:], "/")])
			return
		}
		var items []client.Output
		for _, p := range slices.Sorted(mapKeys(f.Outputs)) {
			items = append(items, client.Output{Path: p, Size: int64(len(f.Outputs[p])), Modified: Now.Add(-time.Hour)})
		}
		answer(w, map[string]any{"items": items})
	default:
		notFound(w, path[1])
	}
}

func mapKeys(m map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func SomeTask(name, display string, phase api.Phase) *api.TrainingTask {
	started := Now.Add(-2 * time.Minute)
	t := &api.TrainingTask{
		Meta: api.Meta{Name: name, DisplayName: display, Project: "default", Owner: "admin"},
		Spec: api.TrainingTaskSpec{Queue: "default", Roles: []api.Role{{
			Name: "worker", Replicas: 2, Command: []string{"python"}, Args: []string{"train me.py"},
			Resources: api.Resources{Accelerators: api.Accelerators{Type: "A100", Count: 8}},
		}}},
		Status: api.TrainingTaskStatus{Phase: phase},
	}
	if phase != api.PhasePending {
		t.Status.StartedAt = &started
		t.Status.Attempt = 1
		t.Status.Replicas = api.ReplicaCount{Total: 2, Running: 2}
	}
	return t
}

// export writes the audit as the server does.
func (f *Fake) export(w io.Writer) {
	enc := json.NewEncoder(w)
	head := api.AuditHead{Anchor: api.AuditAnchor{Hash: api.NoAuditHash, Time: Now}, Hash: api.NoAuditHash}
	_ = enc.Encode(map[string]any{"audit": "begin", "anchor": head.Anchor})
	for _, e := range f.Audit {
		_ = enc.Encode(e)
		head.Number, head.Hash = e.Number, e.Hash
	}
	_ = enc.Encode(map[string]any{"audit": "end", "head": head})
}
