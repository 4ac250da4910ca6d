package server

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/asset"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/train"
)

// shelf has the same checkpoints for every task: of steps 10, 20 and 30, the last on nodes' disks only.
type shelf struct {
	mu    sync.Mutex
	empty bool
	pins  map[string]bool
	bad   map[string]bool // damaged in the shared store
	read  []string        // what was to be verified
	torn  bool            // bytes break off
}

func (s *shelf) List(context.Context, string) ([]api.Checkpoint, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.empty {
		return nil, nil
	}
	one := func(step int64, name string, tiers ...string) api.Checkpoint {
		c := api.Checkpoint{Name: name, Step: step, Generation: 1, Ranks: 2}
		for _, t := range tiers {
			one := api.CheckpointCopy{Tier: t, Pinned: s.pins[name]}
			if t == "shared" && s.bad[name] {
				one.Damage = &api.CheckpointDamage{Message: fault.T("a chunk in packs/00/x", "packs/00/x 中的数据块")}
			}
			c.Tiers = append(c.Tiers, one)
		}
		return c
	}
	const g = "0000000000000000001-00000000000000000"
	return []api.Checkpoint{one(10, g+"10", "shared"), one(20, g+"20", "local", "shared"), one(30, g+"30", "local")}, nil
}

func (s *shelf) Pin(_ context.Context, _, name string, pinned bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pins == nil {
		s.pins = map[string]bool{}
	}
	s.pins[name] = pinned
	return nil
}

func (s *shelf) Verify(_ context.Context, _ string, names []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read = names
	return nil
}

// Image is a few bytes of the tier; rank 1 has none, and those of step 20 break off in the shared store.
func (s *shelf) Image(_ context.Context, _, name, tier string, rank int) (train.RankImage, error) {
	if rank == 1 {
		return nil, fault.New(fault.NotFound, "OutOfReach", fault.T("elsewhere", "别处"))
	}
	return &picture{tier + " " + strings.TrimLeft(name[20:], "0"), s}, nil
}

type picture struct {
	text  string
	shelf *shelf
}

func (p *picture) Size() int64  { return int64(len(p.text)) }
func (p *picture) Close() error { return nil }
func (p *picture) Files(context.Context) ([]asset.File, asset.Opener, error) {
	return []asset.File{{Path: "step/model.json", Size: p.Size()}}, func(string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(p.text)), nil }, nil
}
func (p *picture) Send(_ context.Context, w io.Writer) error {
	p.shelf.mu.Lock()
	torn := p.shelf.torn
	p.shelf.mu.Unlock()
	if torn {
		_, _ = io.WriteString(w, p.text[:2])
		return fault.New(fault.Invalid, "Damaged", fault.T("damaged", "损坏"))
	}
	_, err := io.WriteString(w, p.text)
	return err
}

// Receive takes what begins with "good".
func (s *shelf) Receive(_ context.Context, _ string, _ int64, rank int, in io.Reader) (api.CheckpointPart, error) {
	raw, err := io.ReadAll(in)
	if err != nil || !strings.HasPrefix(string(raw), "good") {
		return api.CheckpointPart{}, fault.New(fault.Invalid, "BadSlot", fault.T("bad", "坏")).Because(err)
	}
	return api.CheckpointPart{Rank: rank, Key: "parts/x", Hash: strings.Repeat("0", 64), Size: int64(len(raw))}, nil
}

func (s *shelf) Commit(_ context.Context, taskID string, step int64, parts []api.CheckpointPart) (*api.CheckpointOrigin, error) {
	if len(parts) == 0 || parts[0].Key != "parts/x" {
		return nil, fault.New(fault.Invalid, "Incomplete", fault.T("not all", "不全"))
	}
	return &api.CheckpointOrigin{TaskID: taskID, Name: "0-1", Step: step}, nil
}

func (s *shelf) spoil(names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bad = map[string]bool{}
	for _, name := range names {
		s.bad[name] = true
	}
}

func (s *shelf) Erase(context.Context, string) error { return nil }

func (s *shelf) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.empty = true
}

func TestRestoreRoute(t *testing.T) {
	w := newWorld(t)
	task := w.submit("t")
	path := "/api/v1/training-tasks/t/restore"
	task = w.change(task, func(t *api.TrainingTask) {
		t.Status.Phase, t.Status.Attempt, t.Status.Generation = api.PhaseRunning, 2, 3
	})
	w.refused("POST", path, `{"step":20}`, 409, "StillRunning")
	a := w.refused("POST", path, `{"step":15,"stop":true}`, 400, "InvalidField")
	if !strings.Contains(string(a.raw), "10, 20, 30") {
		t.Errorf("it does not name the steps there are: %s", a.raw)
	}
	w.refused("POST", path, `{"stop":true}`, 400, "InvalidField")
	w.refused("POST", path, `{"step":20,"more":1}`, 400, "BadBody")
	w.refused("POST", "/api/v1/training-tasks/none/restore", `{"step":20}`, 404, "NotFound")
	var got api.TrainingTask
	w.ok("POST", path, `{"step":20,"stop":true}`, &got)
	if r := got.Spec.Restore; r == nil || r.Step != 20 || r.Attempt != 2 || r.Generation != 3 || !r.Due(2) || r.Due(3) || r.At.IsZero() {
		t.Fatalf("%+v", r)
	}
	if !got.Spec.Restore.Abandons("0000000000000000001-0000000000000000030") || got.Spec.Restore.Abandons(got.Spec.Restore.Name) ||
		got.Spec.Restore.Abandons("0000000000000000004-0000000000000000001") {
		t.Error("what was made after the chosen one and before the wish counts no more, and nothing else")
	}
	ended := w.change(task, func(t *api.TrainingTask) { t.Status.Phase, t.Spec.Stop = api.PhaseStopped, true })
	w.ok("POST", path, `{"step":30}`, &got)
	if got.Spec.Stop || got.Spec.Restore.Step != 30 {
		t.Errorf("%+v", got.Spec)
	}
	// What the server set can't be made up, and may be left out of an update.
	var read api.TrainingTask
	w.ok("GET", "/api/v1/training-tasks/t", nil, &read)
	read.Spec.Restore.Step = 10
	w.refused("PUT", "/api/v1/training-tasks/t", read, 400, "Immutable")
	read.Spec.Restore = nil
	w.ok("PUT", "/api/v1/training-tasks/t", read, &got)
	if got.Spec.Restore == nil || got.Spec.Restore.Step != 30 {
		t.Errorf("an update undid the restore: %+v", got.Spec.Restore)
	}
	w.refused("POST", "/api/v1/training-tasks", manifest("u", func(t *api.TrainingTask) { t.Spec.Restore = &api.Rewind{Name: "x"} }), 400, "InvalidField")
	var cloned train.Submitted
	w.ok("POST", "/api/v1/training-tasks/t/clone", `{"name":"c"}`, &cloned)
	if cloned.Task.Spec.Restore != nil {
		t.Error("a clone is no restore")
	}
	w.shelf.clear()
	w.change(ended, func(t *api.TrainingTask) { t.Status.Phase = api.PhaseFailed })
	w.refused("POST", path, `{"step":20}`, 400, "InvalidField")
}

func TestTasksBeginFromOthersCheckpoints(t *testing.T) {
	w := newWorld(t)
	source := w.submit("source")
	from := func(name string, step int64) *api.TrainingTask {
		return manifest("t-"+source.Meta.Name+"-"+name, func(t *api.TrainingTask) {
			t.Meta.Name = ""
			t.Meta.DisplayName = "t"
			t.Spec.Checkpoint = &api.Checkpoints{From: &api.CheckpointFrom{Task: name, Step: step}}
		})
	}
	for _, name := range []string{"source", source.Meta.ID} {
		for step, want := range map[int64]int64{0: 20, 10: 10} { // the newest is on disks only
			var out train.Submitted
			w.ok("POST", "/api/v1/training-tasks", from(name, step), &out)
			if o := out.Task.Status.From; o == nil || o.TaskID != source.Meta.ID || o.Step != want {
				t.Errorf("%s@%d: %+v", name, step, o)
			}
		}
	}
	path := "/api/v1/training-tasks"
	for about, bad := range map[string]*api.TrainingTask{
		"10, 20": from("source", 30), "no task": from("none", 0), "no name": from("../x", 0), "At least 1": from("source", -1),
	} {
		if a := w.refused("POST", path, bad, 400, "InvalidField"); !strings.Contains(string(a.raw), about) {
			t.Errorf("%s: %s", about, a.raw)
		}
	}
	alone := from("source", 0)
	alone.Spec.Roles = append(alone.Spec.Roles, api.Role{Name: "reward", Restart: api.RestartRole, Command: []string{"x"}})
	w.ok("POST", path, alone, nil)
	w.put(&api.Project{Meta: api.Meta{Name: "other"}})
	elsewhere := from("source", 0)
	elsewhere.Meta.Project = "other"
	w.refused("POST", path, elsewhere, 400, "InvalidField")
	w.shelf.clear()
	w.refused("POST", path, from("source", 0), 400, "InvalidField")
}

func TestPinRoute(t *testing.T) {
	w := newWorld(t)
	w.submit("t")
	path := "/api/v1/training-tasks/t/pin"
	pinned := func() bool {
		var list struct{ Items []api.Checkpoint }
		w.ok("GET", "/api/v1/training-tasks/t/checkpoints", nil, &list)
		return !slices.ContainsFunc(list.Items[1].Tiers, func(c api.CheckpointCopy) bool { return !c.Pinned })
	}
	w.ok("POST", path, `{"step":20}`, nil)
	if !pinned() {
		t.Error("not pinned")
	}
	w.ok("POST", path, `{"step":20,"unpin":true}`, nil)
	if pinned() {
		t.Error("still pinned")
	}
	w.refused("POST", path, `{"step":7}`, 400, "InvalidField")
	w.refused("POST", path, `{"step":20,"more":1}`, 400, "BadBody")
}

func TestVerifyRoute(t *testing.T) {
	w := newWorld(t)
	w.submit("t")
	path := "/api/v1/training-tasks/t/verify"
	const ten, twenty = "0000000000000000001-0000000000000000010", "0000000000000000001-0000000000000000020"
	for body, want := range map[string][]string{`{}`: {ten, twenty}, `{"step":20}`: {twenty}} {
		var begun struct{ Items []api.Checkpoint }
		w.ok("POST", path, body, &begun)
		if !slices.Equal(w.shelf.read, want) || len(begun.Items) != len(want) {
			t.Errorf("%s: %v", body, w.shelf.read)
		}
	}
	for _, body := range []string{`{"step":7}`, `{"step":-1}`, `{"step":30}`} { // the last is on nodes' disks only
		w.refused("POST", path, body, 400, "InvalidField")
	}
	w.refused("POST", path, `{"steps":20}`, 400, "BadBody")
	w.shelf.clear()
	w.refused("POST", path, `{}`, 409, "NothingToVerify")
}

// TestADamagedCheckpointIsNotChosen: one that is damaged everywhere is refused, and a new task begins from the newest
// that is whole.
func TestADamagedCheckpointIsNotChosen(t *testing.T) {
	w := newWorld(t)
	const ten, twenty = "0000000000000000001-0000000000000000010", "0000000000000000001-0000000000000000020"
	w.shelf.spoil(ten)
	w.change(w.submit("t"), func(t *api.TrainingTask) { t.Status.Phase = api.PhaseStopped })
	w.refused("POST", "/api/v1/training-tasks/t/restore", `{"step":10}`, 400, "InvalidField")
	w.ok("POST", "/api/v1/training-tasks/t/pin", `{"step":10}`, nil)
	w.shelf.spoil(twenty) // the nodes' disks have it
	w.ok("POST", "/api/v1/training-tasks/t/restore", `{"step":20}`, nil)
	from := func(name string, step int64) *api.TrainingTask {
		return &api.TrainingTask{Meta: api.Meta{Name: name}, Spec: api.TrainingTaskSpec{
			Roles: []api.Role{{Command: []string{"true"}}}, Checkpoint: &api.Checkpoints{From: &api.CheckpointFrom{Task: "t", Step: step}},
		}}
	}
	w.refused("POST", "/api/v1/training-tasks", from("a", 20), 400, "InvalidField")
	w.ok("POST", "/api/v1/training-tasks", from("b", 0), nil)
	var b api.TrainingTask
	w.ok("GET", "/api/v1/training-tasks/b", nil, &b)
	if b.Status.From == nil || b.Status.From.Name != ten {
		t.Errorf("from %+v", b.Status.From)
	}
	w.shelf.spoil(ten, twenty)
	w.refused("POST", "/api/v1/training-tasks", from("c", 0), 400, "InvalidField")
}

// TestStatesOfRanks: from the shared store first, else from a disk; what breaks off is cut, and never looks whole.
func TestStatesOfRanks(t *testing.T) {
	w := newWorld(t)
	w.submit("t")
	path := "/api/v1/training-tasks/t/checkpoints/"
	for step, want := range map[string]string{"10": "shared 10", "20": "shared 20", "30": "local 30"} {
		if got := w.do("GET", path+step+"/ranks/0", w.admin, nil); got.status != 200 || string(got.raw) != want {
			t.Errorf("step %s: %d %q", step, got.status, got.raw)
		}
	}
	w.shelf.spoil("0000000000000000001-0000000000000000020")
	if got := w.do("GET", path+"20/ranks/0", w.admin, nil); string(got.raw) != "local 20" {
		t.Errorf("damaged in the store: %q", got.raw)
	}
	w.shelf.spoil("0000000000000000001-0000000000000000010")
	w.refused("GET", path+"10/ranks/0", nil, 400, "InvalidField")
	w.refused("GET", path+"20/ranks/1", nil, 404, "OutOfReach")
	if a := w.refused("GET", path+"15/ranks/0", nil, 400, "InvalidField"); !strings.Contains(string(a.raw), "10, 20, 30") {
		t.Errorf("it does not name the steps there are: %s", a.raw)
	}
	for _, bad := range []string{"20/ranks/2", "20/ranks/x", "20/ranks/-1", "0/ranks/0", "x/ranks/0"} {
		w.refused("GET", path+bad, nil, 400, "InvalidField")
	}
	w.shelf.mu.Lock()
	w.shelf.torn = true
	w.shelf.mu.Unlock()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.base+path+"20/ranks/0", nil)
	must(t, err)
	req.Header.Set("Authorization", "Bearer "+w.admin)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return // cut before anything was sent
	}
	defer resp.Body.Close()
	if raw, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("half a state looks whole: %q", raw)
	}
}

// TestUploadedCheckpoints: the task waits until all was uploaded, and begins from that; nobody uploads into any other task.
func TestUploadedCheckpoints(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Limits.State = 1000 })
	var made train.Submitted
	begin := manifest("t", func(t *api.TrainingTask) {
		t.Spec.Checkpoint = &api.Checkpoints{From: &api.CheckpointFrom{Upload: true}}
	})
	w.ok("POST", "/api/v1/training-tasks", begin, &made)
	if !made.Task.AwaitsCheckpoint() || made.Task.Status.Reason != "AwaitsCheckpoint" {
		t.Fatalf("%+v", made.Task.Status)
	}
	path := "/api/v1/training-tasks/t/checkpoints"
	w.refused("PUT", path+"/7/ranks/0", "bad bytes", 400, "BadSlot")
	w.refused("PUT", path+"/7/ranks/0", strings.Repeat("x", 1001), 413, "BodyTooLarge")
	w.refused("PUT", path+"/x/ranks/0", "good", 400, "InvalidField")
	w.refused("PUT", path+"/7/ranks/-1", "good", 400, "InvalidField")
	var part api.CheckpointPart
	w.ok("PUT", path+"/7/ranks/0", "good bytes", &part)
	w.refused("POST", path, `{"step":7,"parts":[]}`, 400, "Incomplete")
	w.refused("POST", path, `{"step":0}`, 400, "InvalidField")
	w.refused("POST", path, `{"step":7,"more":1}`, 400, "BadBody")
	w.refused("POST", path, nil, 400, "BadBody")
	var task api.TrainingTask
	w.ok("POST", path, map[string]any{"step": 7, "parts": []api.CheckpointPart{part}}, &task)
	if from := task.Status.From; task.AwaitsCheckpoint() || from == nil || from.TaskID != task.Meta.ID || from.Step != 7 || task.Status.Reason != train.SubmittedReason {
		t.Fatalf("%+v", task.Status)
	}
	w.refused("POST", path, map[string]any{"step": 7, "parts": []api.CheckpointPart{part}}, 409, "NotAwaited")
	w.refused("PUT", path+"/7/ranks/0", "good", 409, "NotAwaited")
	w.submit("other")
	w.refused("PUT", "/api/v1/training-tasks/other/checkpoints/7/ranks/0", "good", 409, "NotAwaited")
	// A clone begins from the same bytes.
	task = *w.change(&task, func(t *api.TrainingTask) { t.Status.From.Step = 20 })
	made = train.Submitted{}
	w.ok("POST", "/api/v1/training-tasks/t/clone", `{"name":"again"}`, &made)
	if from := made.Task.Spec.Checkpoint.From; from.Upload || from.Step != 20 || made.Task.Status.From == nil {
		t.Errorf("%+v, %+v", from, made.Task.Status.From)
	}
	w.refused("POST", "/api/v1/training-tasks", manifest("both", func(t *api.TrainingTask) {
		t.Spec.Checkpoint = &api.Checkpoints{From: &api.CheckpointFrom{Upload: true, Task: "t"}}
	}), 400, "InvalidField")
}

// TestUploadsNeedAStore: without one the refusal names the setting.
func TestUploadsNeedAStore(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Imports = nil })
	a := w.refused("POST", "/api/v1/training-tasks", manifest("t", func(t *api.TrainingTask) {
		t.Spec.Checkpoint = &api.Checkpoints{From: &api.CheckpointFrom{Upload: true}}
	}), 400, "InvalidField")
	if !strings.Contains(string(a.raw), "--checkpoints-store") || !strings.Contains(string(a.raw), "spec.checkpoint.from.upload") {
		t.Errorf("%s", a.raw)
	}
	w.submit("t")
	w.refused("PUT", "/api/v1/training-tasks/t/checkpoints/7/ranks/0", "good", 409, "NoSharedStore")
}
