package server

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/joined"
	"github.com/fermi-cluster/fermi/internal/blob/folder"
	"github.com/fermi-cluster/fermi/internal/blob/logbook"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history/sqlstore"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/server/cluster"
	"github.com/fermi-cluster/fermi/internal/server/door"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/train"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/internal/store/embedded"
)

// world is a whole server on real parts: embedded etcd, SQLite, a folder.
type world struct {
	t       *testing.T
	store   *store.Store
	history *sqlstore.Store
	blob    *folder.Store
	blobDir string
	logs    *logbook.Book
	server  *Server
	base    string
	admin   string // secret
	stop    func() // ends the server and everything under it; waits
	live    *fakeLive
	cfg     Config
	shelf   *shelf
}

// fakeLive is the leader's memory, set by the test.
type fakeLive struct {
	mu       sync.Mutex
	replicas map[string][]train.ReplicaView
	waits    []string              // ids of tasks that wait
	runs     map[string]api.Object // by replica, those that run
}

// linkToken is every replica's.
const linkToken = "the link's token"

// lends has a replica of some work run; nil: no more.
func (l *fakeLive) lends(replica string, of api.Object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.runs == nil {
		l.runs = map[string]api.Object{}
	}
	l.runs[replica] = of
}

// Standing is as of app: of what runs.
func (l *fakeLive) Standing(_ context.Context, replica string) (string, api.Object, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if of := l.runs[replica]; of != nil {
		return linkToken, of, nil
	}
	return "", nil, fault.New(fault.Forbidden, "AttemptOver", fault.T("Over.", "已结束。"))
}

func (l *fakeLive) Why(_ context.Context, _ api.Work) (train.Explanation, error) {
	return train.Explanation{Reason: "NoFit", Message: api.T("No node fits.", "没有合适的节点。"), Evidence: []api.Text{api.T("1 of 2 nodes", "2 个节点中的 1 个")}}, nil
}

func (l *fakeLive) Replicas(_ context.Context, taskID string) ([]train.ReplicaView, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.replicas[taskID], nil
}

func (l *fakeLive) Capacity(context.Context) ([]cluster.CapacityView, error) {
	return []cluster.CapacityView{{Type: "A100", Total: 8, Used: 2.5, Free: 5.5, Stranded: 0.5, Largest: 4}}, nil
}

// Shares are of the default queue, Share of any, with who waits in it.
func (l *fakeLive) Shares(context.Context) ([]api.QueueShare, error) {
	return []api.QueueShare{{Queue: "default", Weight: 1, FairShare: 1, Used: map[string]float64{"devices": 2.5}, Waiting: 1}}, nil
}

func (l *fakeLive) Share(_ context.Context, queue string) (api.QueueShare, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := api.QueueShare{Queue: queue, Weight: 1, FairShare: 1, Waiting: len(l.waits)}
	for _, id := range l.waits {
		out.Waits = append(out.Waits, api.ShareTask{ID: id, Queue: queue, Devices: 1, Reason: "NoFit", Message: api.T("No node fits.", "没有合适的节点。")})
	}
	return out, nil
}

func (l *fakeLive) Drained(_ context.Context, place string) (api.Outage, error) {
	return api.Outage{Node: place, Wait: 1, Items: []api.OutageTask{{Project: "lab", Name: "t", Replicas: 1, Lost: 1, Reason: "DevicesBusy", Message: api.T("Full.", "已满。")}}}, nil
}

func (l *fakeLive) UpgradeNode(_ context.Context, node string) (joined.Upgrade, error) {
	return joined.Upgrade{ID: "up-" + node, Version: "v2", Digest: "d", State: joined.UpgradeFetching}, nil
}

func (l *fakeLive) JoinPlace(context.Context) ([]string, string, error) {
	return []string{"10.0.0.1:7072"}, "pin", nil
}

func (l *fakeLive) Outage(_ context.Context, zone string) (api.Outage, error) {
	return api.Outage{Zone: zone, Move: 1, Items: []api.OutageTask{{Project: "lab", Name: "t", Replicas: 2, Lost: 1, To: map[string]int{"b": 2}}}}, nil
}

func (l *fakeLive) Preview(_ context.Context, task api.Work) (api.Preview, error) {
	return api.Preview{Fits: true, StartBasis: "now", Planned: &api.PlacementOption{Name: "planned", NodeCount: task.Workload().Roles[0].Replicas}}, nil
}

func (l *fakeLive) Move(_ context.Context, _ api.Work, wish train.MoveWish) (api.Move, error) {
	if wish.Zone == "full" {
		return api.Move{}, fault.New(fault.Conflict, "DevicesBusy", fault.T("No room.", "没有空位。"))
	}
	to := &api.PlacementOption{Name: "planned", Zones: []api.ZonePart{{Zone: wish.Zone}}}
	return api.Move{Moving: !wish.Preview, Fits: true, From: api.PlacementOption{Name: "current"}, To: to}, nil
}

func (l *fakeLive) Probe(_ context.Context, _ *api.TrainingTask, wish train.FaultWish) (train.ProbeView, error) {
	if wish.Kind == "net" {
		return train.ProbeView{}, fault.New(fault.Conflict, "Refused", fault.T("Not here.", "此处不行。"))
	}
	return train.ProbeView{Rank: wish.Rank, Kind: wish.Kind, Replica: "r", Node: "n", Generation: 1}, nil
}

func (l *fakeLive) set(taskID string, views ...train.ReplicaView) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.replicas[taskID] = views
}

func newWorld(t *testing.T, change ...func(*Config)) *world {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "f")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	w := &world{t: t, shelf: &shelf{}, live: &fakeLive{replicas: map[string][]train.ReplicaView{}}}
	ctx, cancel := context.WithCancel(context.Background())
	etcd, err := embedded.Start(ctx, embedded.Config{Dir: filepath.Join(dir, "e"), UnsafeNoFsync: true})
	must(t, err)
	w.store = store.New(store.Config{Client: etcd.Client()})
	w.history, err = sqlstore.Open(ctx, sqlstore.Config{Path: filepath.Join(dir, "history.db"), Clock: clock.Real})
	must(t, err)
	w.blobDir = filepath.Join(dir, "b")
	w.blob, err = folder.Open(w.blobDir)
	must(t, err)
	w.logs = logbook.New(logbook.Config{Blob: w.blob, Clock: clock.Real})
	registry := prometheus.NewRegistry()
	cfg := Config{
		Store: w.store, History: w.history, Blob: w.blob, Logs: w.logs, Live: w.live, Checkpoints: w.shelf, Imports: w.shelf, Version: "test",
		Metrics: registry, Register: registry,
		Backup: func(_ context.Context, out io.Writer) error { _, err := io.WriteString(out, "tar"); return err },
	}
	for _, c := range change {
		c(&cfg)
	}
	w.cfg = cfg
	w.server, err = New(cfg)
	must(t, err)
	w.server.sessions.Passwords.Cost = door.Cost{Memory: 64, Times: 1, Lanes: 1} // tests sign in often
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	w.base = "http://" + l.Addr().String()
	var parts sync.WaitGroup
	parts.Go(func() { _ = w.store.Run(ctx) })
	<-w.store.Ready()
	parts.Go(func() { _ = w.logs.Run(ctx) })
	serving, endServing := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- w.server.Run(serving, l) }()
	var once sync.Once
	w.stop = func() {
		once.Do(func() {
			endServing()
			if err := <-served; err != nil {
				t.Errorf("Run: %v", err)
			}
			cancel()
			parts.Wait()
			_ = w.history.Close()
			etcd.Close()
			http.DefaultClient.CloseIdleConnections()
		})
	}
	t.Cleanup(w.stop)
	w.found()
	return w
}

// over is the same world seen through a further server, built otherwise.
func (w *world) over(change func(*Config)) *world {
	w.t.Helper()
	cfg := w.cfg
	change(&cfg)
	s, err := New(cfg)
	must(w.t, err)
	listening := httptest.NewServer(s.Handler())
	w.t.Cleanup(listening.Close)
	other := *w
	other.server, other.base, other.cfg = s, listening.URL, cfg
	return &other
}

// found writes what the first start of a cluster writes.
func (w *world) found() {
	w.put(&api.Queue{Meta: api.Meta{Name: "default"}})
	w.admin = w.user("root", api.RoleAdmin)
	w.put(&api.Project{Meta: api.Meta{Name: "default"}, Spec: api.ProjectSpec{Members: []string{"root"}, MaxPriority: 1000}})
}

// put writes an object past the server, as controllers do.
func (w *world) put(o api.Object) api.Object {
	w.t.Helper()
	m := o.GetMeta()
	if m.ID == "" {
		m.ID = id.Default.New(api.MustInfo(o.Kind()).IDPrefix)
	}
	if m.DisplayName == "" {
		m.DisplayName = m.Name
	}
	if m.CreatedAt.IsZero() {
		m.CreatedAt = time.Now().UTC()
		m.UpdatedAt = m.CreatedAt
	}
	op := store.Create(o)
	if m.Revision > 0 {
		op = store.Update(o)
	}
	rev, err := w.store.Commit(context.Background(), store.Txn{Ops: []store.Op{op}})
	must(w.t, err)
	_, err = w.store.Get(context.Background(), api.KeyOf(o), rev)
	must(w.t, err)
	return o
}

// user makes a user with a token named like it and returns the secret.
func (w *world) user(name string, role api.UserRole) string {
	w.t.Helper()
	w.put(&api.User{Meta: api.Meta{Name: name}, Spec: api.UserSpec{Role: role}})
	return w.token(name, name, "", nil)
}

func (w *world) token(name, user, task string, expires *time.Time) string {
	w.t.Helper()
	secret, hash, err := door.NewSecret(name, rand.Reader)
	must(w.t, err)
	w.put(&api.Token{Meta: api.Meta{Name: name}, Spec: api.TokenSpec{User: user, Hash: hash, Task: task, ExpiresAt: expires}})
	return secret
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// answerOf is any JSON answer.
type answerOf struct {
	status    int
	header    http.Header
	raw       []byte
	Code      int                 `json:"code"`
	Reason    string              `json:"reason"`
	Message   string              `json:"message"`
	Hint      string              `json:"hint"`
	Retryable bool                `json:"retryable"`
	Fields    []rest.RefusedField `json:"fields"`
	Data      json.RawMessage     `json:"data"`
}

func (w *world) open(method, path, token string, body io.Reader, headers ...string) *http.Response {
	w.t.Helper()
	if of, _, _ := strings.Cut(strings.TrimPrefix(path, "/api/v1/"), "?"); method == "GET" && !strings.Contains(of, "/") {
		w.hear() // it is of many: what it does not show nobody looks for
	}
	req, err := http.NewRequest(method, w.base+path, body)
	must(w.t, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	must(w.t, err)
	return resp
}

func (w *world) do(method, path, token string, body any, headers ...string) answerOf {
	w.t.Helper()
	var r io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		r = strings.NewReader(b)
	case []byte:
		r = bytes.NewReader(b)
	default:
		data, err := json.Marshal(b)
		must(w.t, err)
		r = bytes.NewReader(data)
	}
	resp := w.open(method, path, token, r, headers...)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	must(w.t, err)
	a := answerOf{status: resp.StatusCode, header: resp.Header, raw: raw}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") && json.Unmarshal(raw, &a) != nil {
		w.t.Fatalf("%s %s: not JSON: %s", method, path, raw)
	}
	return a
}

// ok is do as admin, which must succeed; data goes into out unless nil.
func (w *world) ok(method, path string, body, out any) answerOf {
	w.t.Helper()
	a := w.do(method, path, w.admin, body)
	if a.status != 200 || a.Code != 200 {
		w.t.Fatalf("%s %s: %d %s", method, path, a.status, a.raw)
	}
	if out != nil {
		must(w.t, json.Unmarshal(a.Data, out))
	}
	return a
}

// refused is do as admin, which must fail so.
func (w *world) refused(method, path string, body any, status int, reason string) answerOf {
	w.t.Helper()
	return w.refusedTo(w.admin, method, path, body, status, reason)
}

func (w *world) refusedTo(token, method, path string, body any, status int, reason string) answerOf {
	w.t.Helper()
	a := w.do(method, path, token, body)
	if a.status != status || a.Reason != reason || a.Code != status || a.Message == "" {
		w.t.Fatalf("%s %s: got %d %s, want %d %s: %s", method, path, a.status, a.Reason, status, reason, a.raw)
	}
	return a
}

func manifest(name string, more ...func(*api.TrainingTask)) *api.TrainingTask {
	t := &api.TrainingTask{Meta: api.Meta{Name: name}, Spec: api.TrainingTaskSpec{Roles: []api.Role{{Command: []string{"/bin/echo", "hi"}}}}}
	for _, m := range more {
		m(t)
	}
	return t
}

// submit makes a task as admin.
func (w *world) submit(name string, more ...func(*api.TrainingTask)) *api.TrainingTask {
	w.t.Helper()
	var out train.Submitted
	w.ok("POST", "/api/v1/training-tasks", manifest(name, more...), &out)
	return out.Task
}

// change writes a task's status, as its controller does.
func (w *world) change(task *api.TrainingTask, edit func(*api.TrainingTask)) *api.TrainingTask {
	w.t.Helper()
	o, err := w.store.Get(context.Background(), api.KeyOf(task), task.Meta.Revision)
	must(w.t, err)
	next := store.Clone(o.(*api.TrainingTask))
	edit(next)
	return w.put(next).(*api.TrainingTask)
}

// event is one Server-Sent Event.
type event struct {
	name, id, data string
}

// feed reads a stream in the background; next waits for one.
type feed struct {
	t    *testing.T
	resp *http.Response
	ch   chan event
}

// hear waits until the cache has what was written before: a plain read may be of a moment ago.
func (w *world) hear() {
	if now, err := w.store.Now(w.t.Context()); err == nil {
		_, _ = w.store.Get(w.t.Context(), api.Key{Kind: api.KindZone, Name: "none"}, now)
	}
}

func (w *world) events(path, token string, headers ...string) *feed {
	w.t.Helper()
	w.hear()
	resp := w.open("GET", path, token, nil, append(headers, "Accept", "text/event-stream")...)
	if resp.StatusCode != 200 {
		raw, _ := io.ReadAll(resp.Body)
		w.t.Fatalf("GET %s: %d %s", path, resp.StatusCode, raw)
	}
	e := &feed{t: w.t, resp: resp, ch: make(chan event, 1000)}
	go func() {
		defer close(e.ch)
		var ev event
		lines := bufio.NewScanner(resp.Body)
		lines.Buffer(nil, 8<<20)
		for lines.Scan() {
			line := lines.Text()
			switch {
			case line == "" && ev != (event{}):
				e.ch <- ev
				ev = event{}
			case strings.HasPrefix(line, "event: "):
				ev.name = line[7:]
			case strings.HasPrefix(line, "id: "):
				ev.id = line[4:]
			case strings.HasPrefix(line, "data: "):
				ev.data = line[6:]
			}
		}
	}()
	w.t.Cleanup(func() { _ = resp.Body.Close() })
	return e
}

var errEnded = errors.New("ended")

func (e *feed) next() (event, error) {
	e.t.Helper()
	select {
	case ev, ok := <-e.ch:
		if !ok {
			return event{}, errEnded
		}
		return ev, nil
	case <-time.After(time.Minute):
		e.t.Fatal("no event came")
		return event{}, nil
	}
}

// want is the next event, which must have this name; its object's name is returned.
func (e *feed) want(name string) (event, string) {
	e.t.Helper()
	ev, err := e.next()
	if err != nil || ev.name != name {
		e.t.Fatalf("got event %+v (%v), want %s", ev, err, name)
	}
	var o struct {
		Metadata struct{ Name string }
	}
	must(e.t, json.Unmarshal([]byte(ev.data), &o))
	return ev, o.Metadata.Name
}

func query(pairs ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		q.Add(pairs[i], pairs[i+1])
	}
	return "?" + q.Encode()
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("never came: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
