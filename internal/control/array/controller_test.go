package array

import (
	"context"
	"log/slog"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	kind "github.com/fermi-cluster/fermi/api/v1/array"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/control/work"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/internal/store/storetest"
)

// past is a history that has what the test puts into it.
type past struct {
	work.History
	archived map[string]history.Archived
}

func (*past) AddEvents(context.Context, ...history.Event) error { return nil }

func (p *past) GetArchived(_ context.Context, _ api.Kind, _, name string) (history.Archived, error) {
	if row, ok := p.archived[name]; ok {
		return row, nil
	}
	return history.Archived{}, fault.New(fault.NotFound, "NotFound", fault.T("Not there.", "不存在。"))
}

// TestTurn: over a real store, the tasks of an array are made with their index, and those that were archived meanwhile count as they ended.
func TestTurn(t *testing.T) {
	if _, known := api.InfoOf(kind.Kind); !known {
		api.Register(kind.Row)
	}
	st, ctx := storetest.Open(t), t.Context()
	a := &kind.TaskArray{Meta: api.Meta{ID: "arr-0123456789abcdefghjk", Name: "sweep", DisplayName: "sweep", Project: "lab", Owner: "li", Labels: map[string]string{"team": "a"}}}
	a.Spec = kind.TaskArraySpec{Indexes: "0-4:2", AtOnce: 2, TrainingTaskSpec: api.TrainingTaskSpec{Roles: []api.Role{{Command: []string{"true"}}}, Queue: "default"}}
	a.Default()
	a.Status.Phase = api.PhaseRunning
	project := &api.Project{Meta: api.Meta{ID: "proj-0123456789abcdefghjk", Name: "lab"}}
	if _, err := st.Commit(ctx, store.Txn{Ops: []store.Op{store.Create(a), store.Create(project)}}); err != nil {
		t.Fatal(err)
	}
	p := &past{archived: map[string]history.Archived{}}
	c := New(work.Config{Store: st, History: p, Clock: clock.Real, Log: slog.New(slog.DiscardHandler)}, id.Default)
	newest := func() int64 {
		rev, err := st.Now(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return rev
	}
	turn := func() {
		t.Helper()
		if _, err := st.Get(ctx, api.KeyOf(a), newest()); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Reconcile(ctx, api.KeyOf(a)); err != nil {
			t.Fatal(err)
		}
	}
	get := func(name string) *api.TrainingTask {
		o, err := st.Get(ctx, api.Key{Kind: api.KindTrainingTask, Project: "lab", Name: name}, newest())
		if err != nil {
			return nil
		}
		return o.(*api.TrainingTask)
	}
	turn()
	one := get("sweep-2")
	if one == nil || get("sweep-0") == nil || get("sweep-4") != nil {
		t.Fatal("the first two are not there alone")
	}
	env := map[string]string{}
	for _, v := range one.Spec.Roles[0].Env {
		env[v.Name] = v.Value
	}
	if env["FERMI_ARRAY_INDEX"] != "2" || env["FERMI_ARRAY_COUNT"] != "3" || env["FERMI_ARRAY_LAST"] != "4" || one.Meta.Labels["array"] != "sweep" || one.Meta.Labels["team"] != "a" || one.Meta.Owner != "li" {
		t.Errorf("%v %+v", env, one.Meta)
	}
	if bad := one.Validate(); len(bad) > 0 {
		t.Errorf("it could not be run again: %v", bad)
	}
	// It ended and went to history before anybody looked.
	done := store.Clone(one)
	done.Meta.CreatedAt = time.Now()
	p.archived["sweep-2"] = history.Archived{Object: done, Phase: string(api.PhaseFailed)}
	if _, err := st.Commit(ctx, store.Txn{Ops: []store.Op{store.Delete(api.KeyOf(one), one.Meta.Revision)}}); err != nil {
		t.Fatal(err)
	}
	turn()
	if get("sweep-4") == nil {
		t.Error("the next did not begin")
	}
	o, err := st.Get(ctx, api.KeyOf(a), newest())
	if err != nil || o.(*kind.TaskArray).Status.Ended.Failed != "2" {
		t.Errorf("%+v %v", o, err)
	}
}
