package store

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Random transactions on the store and on a map must agree: on what is refused, on what is there
// after each, on lists and on what a feed told.
func TestAgreesWithAMap(t *testing.T) {
	s := fresh(t)
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		project := fmt.Sprintf("p%d", round)
		feed := s.Subscribe(api.KindTrainingTask)
		defer feed.Close()
		model, told := map[string]*api.TrainingTask{}, map[string]int64{}
		var rev int64
		for range rapid.IntRange(1, 12).Draw(rt, "transactions") {
			ops, after, ok := drawTxn(rt, project, model)
			got, err := s.Commit(t.Context(), Txn{Ops: ops})
			if ok != (err == nil) {
				rt.Fatalf("expected success %v, got %v", ok, err)
			}
			if err != nil {
				if !fault.Is(err, fault.Conflict) {
					rt.Fatalf("got %v", err)
				}
				continue
			}
			model, rev = after, got
			compare(rt, t, s, project, model, rev)
		}
		for !agree(told, model) {
			changes, err := feed.Next(t.Context())
			if err != nil {
				rt.Fatal(err)
			}
			for _, ch := range changes {
				if ch.New == nil {
					delete(told, ch.Key.Name)
				} else {
					told[ch.Key.Name] = ch.New.GetMeta().Revision
				}
			}
		}
	})
}

func agree(told map[string]int64, model map[string]*api.TrainingTask) bool {
	for name, o := range model {
		if told[name] != o.Meta.Revision {
			return false
		}
	}
	return len(told) == len(model)
}

// drawTxn makes a transaction over a few names, what the map is after it, and whether it must
// succeed.
func drawTxn(rt *rapid.T, project string, model map[string]*api.TrainingTask) (ops []Op, after map[string]*api.TrainingTask, ok bool) {
	after, ok = map[string]*api.TrainingTask{}, true
	for k, v := range model {
		after[k] = v
	}
	names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}), 1, 4, rapid.ID[string]).Draw(rt, "names")
	for _, name := range names {
		was := model[name]
		key := api.Key{Kind: api.KindTrainingTask, Project: project, Name: name}
		old := rapid.Bool().Draw(rt, "stale")
		revision := int64(1)
		if was != nil && !old {
			revision = was.Meta.Revision
		}
		right := was != nil && !old
		switch rapid.IntRange(0, 4).Draw(rt, "verb") {
		case 0:
			o := task(name)
			o.Meta.Project = project
			ops, after[name] = append(ops, Create(o)), o
			ok = ok && was == nil
		case 1:
			o := task(name)
			if was != nil {
				o = Clone(was)
			}
			o.Meta.Project, o.Meta.Revision = project, revision
			o.Status.Attempt++
			ops, after[name] = append(ops, Update(o)), o
			ok = ok && right
		case 2:
			ops = append(ops, Delete(key, revision))
			delete(after, name)
			ok = ok && right
		case 3:
			ops = append(ops, Delete(key, 0))
			delete(after, name)
		case 4:
			ops = append(ops, Unchanged(key, revision))
			ok = ok && right
		}
	}
	return ops, after, ok
}

func compare(rt *rapid.T, t *testing.T, s *Store, project string, model map[string]*api.TrainingTask, rev int64) {
	list, err := s.List(t.Context(), api.KindTrainingTask, project, rev)
	if err != nil {
		rt.Fatal(err)
	}
	got, last := map[string]*api.TrainingTask{}, ""
	list.Ascend("", func(o api.Object) bool {
		if o.GetMeta().ID <= last {
			rt.Fatalf("%s after %s", o.GetMeta().ID, last)
		}
		last = o.GetMeta().ID
		got[o.GetMeta().Name] = o.(*api.TrainingTask)
		return true
	})
	if diff := cmp.Diff(model, got); diff != "" {
		rt.Fatal(diff)
	}
}

func FuzzPath(f *testing.F) {
	for _, p := range []string{"training-tasks/default/x", "zones/_/z", "_leader/1", "zones//", "nodes/a/b/c", "queues/_/\xff"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p string) {
		key, info, ok := parsePath(p)
		if !ok {
			return
		}
		if key.Kind != info.Kind || strings.Contains(key.Name, "/") {
			t.Errorf("%q gave %v", p, key)
		}
		if back, err := path(key); err != nil || back != p {
			t.Errorf("%q became %v became %q (%v)", p, key, back, err)
		}
	})
}

func FuzzDecode(f *testing.F) {
	raw, err := encode(bigTask(1))
	if err != nil {
		f.Fatal(err)
	}
	f.Add("training-tasks/default/task-000001", raw)
	f.Add("zones/_/z", []byte(`{"metadata":{"name":"z"},"spec":{"region":"北京","latencyMs":{"a":1.5}}}`))
	f.Add("placements/p/x", []byte(`{"metadata":{"name":"x","project":"p"},"spec":{"roles":[{"role":"w","slots":"AAAAAQAAAAAAAAAD"}]}}`))
	f.Add("nodes/_/n", []byte(`{"metadata":{"name":"n"},"spec":{"cpu":"64","memory":"1Ti","devices":[{"index":0,"type":"A100"}]}}`))
	f.Add("zones/_/z", []byte(`{`))
	f.Fuzz(func(t *testing.T, p string, raw []byte) {
		key, info, ok := parsePath(p)
		if !ok {
			return
		}
		o, err := decode(key, info, raw, 7)
		if err != nil {
			return
		}
		if api.KeyOf(o) != key || o.GetMeta().Revision != 7 {
			t.Errorf("%s decoded as %s at %d", key, api.KeyOf(o), o.GetMeta().Revision)
		}
		again, err := encode(o)
		if err != nil {
			t.Fatalf("what was read can't be written: %v", err)
		}
		if _, err := decode(key, info, again, 7); err != nil {
			t.Errorf("what was written can't be read: %v\n%s", err, again)
		}
	})
}
