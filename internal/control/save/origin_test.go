package save

import (
	"encoding/hex"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/blob/folder"
	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/google/go-cmp/cmp"
	"github.com/zeebo/blake3"
)

// past are the checkpoints of the played task, newest first.
func past() []api.CheckpointOrigin {
	k := &checkpoints{}
	for step := int64(1); step <= 3; step++ {
		k.add("task-1", "0000000000000000001-000000000000000000"+strconv.Itoa(int(step)), step)
	}
	return k.list
}

// rewound is a task that was asked to go on from the second newest of past.
func rewound(tk *api.TrainingTask, at time.Time) *api.TrainingTask {
	next := store.Clone(tk)
	chosen := past()[1]
	next.Spec.Stop = false
	next.Spec.Restore = &api.Rewind{Name: chosen.Name, Step: chosen.Step, Attempt: tk.Status.Attempt, Generation: max(tk.Status.Generation, 1), At: at}
	return next
}

func TestOriginsAreSortedAndBounded(t *testing.T) {
	k := &checkpoints{}
	for i := range 2 * maxOrigins {
		k.add("t", "0000000000000000001-0000000000000000"+strconv.Itoa(100+i), int64(100+i))
		k.add("t", "0000000000000000001-0000000000000000"+strconv.Itoa(100+i), int64(100+i))
	}
	if len(k.list) != maxOrigins || k.list[0].Step != 2*maxOrigins+99 {
		t.Error(len(k.list), k.list[0])
	}
	if d := cmp.Diff(int64(3), past()[0].Step); d != "" {
		t.Error(d)
	}
}

// TestWhatCantBeReadIsKnown: a leader that reads the checkpoints of a task knows of those whose record is torn or of a newer
// Fermi, and which of them are better than what it could begin from.
func TestWhatCantBeReadIsKnown(t *testing.T) {
	st, err := folder.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	sum := blake3.Sum256([]byte(`{"version":9}`))
	newer := `{"version":9}` + "\n" + hex.EncodeToString(sum[:]) + "\n"
	for name, raw := range map[string]string{past()[0].Name: newer, past()[2].Name: "torn"} {
		if _, err := st.Put(t.Context(), "task-1/manifests/"+name, strings.NewReader(raw)); err != nil {
			t.Fatal(err)
		}
	}
	c := New(Config{Clock: clock.Real, Log: slog.New(slog.DiscardHandler), Repo: func(tier, task string) (*ckpt.Repo, error) {
		if tier == link.TierLocal {
			return nil, nil
		}
		return ckpt.New(ckpt.Config{Store: st, Prefix: task})
	}})
	s := &gang.Gang{Terms: gang.Terms{Task: task(api.PhaseInitializing, 2, 1)}, Members: gang.Members{at(0, 2, engine.StateCreated, true)}}
	got := c.Origins(t.Context(), s)
	if len(got.List) != 0 || len(got.Passed) != 2 || got.Passed[0].Step != 3 || !got.Passed[0].Newer || got.Passed[1].Step != 1 || got.Passed[1].Newer || got.Away {
		t.Fatalf("%+v %+v", got.List, got.Passed)
	}
	c.known["task-1"].add("task-1", past()[1].Name, 2)
	if got = c.Origins(t.Context(), s); len(got.Passed) != 1 || got.Passed[0].Step != 3 {
		t.Errorf("an older one that can't be read is nobody's concern: %+v", got.Passed)
	}
	s.Task = rewound(s.Task, now) // to step 2: what is beyond counts no more
	if got = c.Origins(t.Context(), s); len(got.Passed) != 0 {
		t.Errorf("%+v", got.Passed)
	}
}

// TestOriginsOfATaskThatWasToldWhereToBegin: its own first, what was given up not at all, the other task's last.
func TestOriginsOfATaskThatWasToldWhereToBegin(t *testing.T) {
	c := New(Config{Repo: func(string, string) (*ckpt.Repo, error) { return nil, nil }})
	tk := rewound(task(api.PhaseInitializing, 2, 1), now)
	tk.Status.From = &api.CheckpointOrigin{TaskID: "task-0", Name: past()[1].Name, Step: 2}
	known := &checkpoints{list: past(), attempt: -1}
	known.add("task-1", "0000000000000000002-0000000000000000001", 1) // after the wish, though of a smaller step
	c.known["task-1"] = known
	s := &gang.Gang{Terms: gang.Terms{Task: tk}, Members: gang.Members{at(0, 2, engine.StateCreated, true)}}
	found := c.Origins(t.Context(), s)
	var got []string
	for _, o := range found.List {
		got = append(got, o.TaskID+" "+strconv.Itoa(int(o.Step)))
	}
	if want := "[task-1 1 task-1 2 task-1 1 task-0 2]"; found.Away || fmt.Sprint(got) != want {
		t.Errorf("%v, want %v", got, want)
	}
	s.Members[0].Said.Refused = &link.Origin{TaskID: "task-0", Name: past()[1].Name}
	if found = c.Origins(t.Context(), s); len(found.List) != 3 || found.List[1].Step != 2 {
		t.Errorf("a refusal of another task's is not one of its own: %v", found.List)
	}
}

func TestWhatOthersBeginFromIsHeld(t *testing.T) {
	c := New(Config{})
	tk := task(api.PhasePending, 0, 0)
	tk.Status.From = &api.CheckpointOrigin{TaskID: "task-0", Name: "a"}
	c.change(store.Change{Key: api.KeyOf(tk), New: tk})
	if held := c.heldOf("task-0"); !held("a") || held("b") || c.heldOf("task-9")("a") {
		t.Error("only what it begins from is held")
	}
	tk.Status.Phase = api.PhaseCompleted
	if c.change(store.Change{Key: api.KeyOf(tk), New: tk}); c.heldOf("task-0")("a") {
		t.Error("it has ended")
	}
}
