package truth

import (
	"context"
	"sync/atomic"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Retries is how often a write is tried again when somebody else was faster.
const Retries = 8

// Store is the truth as the face needs it.
type Store interface {
	store.Reader
	store.Writer
	// Healthy is nil, or says in words for people what is wrong. Safe for concurrent use.
	Healthy(ctx context.Context) error
	// Now is a revision at or above everything acknowledged before the call.
	Now(ctx context.Context) (int64, error)
}

// Truth is the store as all rooms use it. It remembers the newest revision written through this server, so that
// whoever was answered finds what was made. Safe for concurrent use.
type Truth struct {
	Store
	others *asked // what only further servers may know yet; nil: there are none
	latest atomic.Int64
}

// New reads and writes st; others says that there are further servers.
func New(st Store, others bool) *Truth {
	t := &Truth{Store: st}
	if others {
		t.others = newAsked(st.Now)
	}
	return t
}

// Newest is the newest revision written through this server.
func (t *Truth) Newest() int64 { return t.latest.Load() }

// Write commits and remembers the revision, so that a read through this server which misses can look again at
// least there.
func (t *Truth) Write(ctx context.Context, ops ...store.Op) (int64, error) {
	rev, err := t.Store.Commit(ctx, store.Txn{Ops: ops})
	if err != nil {
		return 0, err
	}
	for {
		old := t.latest.Load()
		if rev <= old || t.latest.CompareAndSwap(old, rev) {
			return rev, nil
		}
	}
}

// Find reads from the cache; a miss looks again at the newest revision written through this
// server, so that an object just made is always found.
func (t *Truth) Find(ctx context.Context, key api.Key, minRevision int64) (api.Object, error) {
	o, err := t.Store.Get(ctx, key, minRevision)
	if newest := t.Newest(); fault.Is(err, fault.NotFound) && newest > minRevision {
		return t.Store.Get(ctx, key, newest)
	}
	return o, err
}

// FindAnywhere is find; a miss asks once more where another server may have made it a moment ago.
func (t *Truth) FindAnywhere(ctx context.Context, key api.Key) (api.Object, error) {
	o, err := t.Find(ctx, key, 0)
	if fault.Is(err, fault.NotFound) && t.others != nil {
		now, err := t.others.Newest(ctx)
		if err != nil {
			return nil, err
		}
		return t.Store.Get(ctx, key, now)
	}
	return o, err
}

// Newer is a revision to look again at for what was not found at minRevision: another server may have made it a moment
// ago. 0: there is no other server, or the caller has said how new is new enough. It fails where the store does not
// answer: then nobody knows that the thing is not there.
func (t *Truth) Newer(ctx context.Context, minRevision int64) (int64, error) {
	if minRevision > 0 || t.others == nil {
		return 0, nil
	}
	return t.others.Newest(ctx)
}

// Refer finds an object that another one names; missing is the fault of that field.
func (t *Truth) Refer(ctx context.Context, key api.Key, path string) (api.Object, error) {
	o, err := t.Find(ctx, key, 0)
	if fault.Is(err, fault.NotFound) {
		row := api.MustInfo(key.Kind)
		return nil, refuse.Invalid(path, fault.T("There is no %s %q.", "%s %q 不存在。", row.Singular, refuse.Clip(key.Name, 64)))
	}
	return o, err
}

// NoneOf refuses with InUse when an object of a kind refers to what is to go.
func (t *Truth) NoneOf(ctx context.Context, kind api.Kind, project string, rev int64, refers func(api.Object) bool) error {
	snap, err := t.Store.List(ctx, kind, project, rev)
	if err != nil {
		return err
	}
	var user api.Object
	snap.Ascend("", func(x api.Object) bool {
		if refers(x) {
			user = x
		}
		return user == nil
	})
	if user == nil {
		return nil
	}
	row := api.MustInfo(kind)
	return fault.New(fault.Conflict, "InUse", fault.T(
		"It is in use by the %s %q.", "仍被 %s %q 使用。", row.Singular, user.GetMeta().Name)).WithHint(fault.T(
		"Delete or change what uses it first.", "请先删除或修改引用它的对象。"))
}

// EachWork visits all work of a project ("": of all), kind by kind, until visit says no.
func (t *Truth) EachWork(ctx context.Context, project string, rev int64, visit func(api.Work) bool) error {
	for _, kind := range api.WorkKinds() {
		snap, err := t.Store.List(ctx, kind, project, rev)
		if err != nil {
			return err
		}
		more := true
		snap.Ascend("", func(o api.Object) bool {
			more = visit(o.(api.Work))
			return more
		})
		if !more {
			return nil
		}
	}
	return nil
}

// CountWork is how much work of all kinds a project has.
func (t *Truth) CountWork(ctx context.Context, project string) (n int, err error) {
	for _, kind := range api.WorkKinds() {
		snap, err := t.Store.List(ctx, kind, project, 0)
		if err != nil {
			return 0, err
		}
		n += snap.Len()
	}
	return n, nil
}

// NoWork refuses with InUse when work of any kind refers to what is to go.
func (t *Truth) NoWork(ctx context.Context, project string, rev int64, refers func(api.Workload) bool) error {
	for _, kind := range api.WorkKinds() {
		if err := t.NoneOf(ctx, kind, project, rev, func(o api.Object) bool { return refers(o.(api.Work).Workload()) }); err != nil {
			return err
		}
	}
	return nil
}
