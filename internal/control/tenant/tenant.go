package tenant

import (
	"context"
	"sync"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Config makes a Register.
type Config struct {
	Store store.ReadWriter
	// First and Last bound the numbers that are given.
	First, Last int
	// Burn returns the first number from least on that was never returned, durably.
	Burn func(least int) (int, error)
	// Take, where it is given, is used instead of all these: it returns a number that no project of this
	// machine has or had, durably. used are those that projects have here.
	Take func(used []int) (int, error)
}

// Register gives numbers. Safe for concurrent use.
type Register struct {
	cfg Config
	mu  sync.Mutex // one gift at a time
}

// New makes a register; it starts nothing.
func New(cfg Config) *Register { return &Register{cfg: cfg} }

// retries is how often a gift is tried again when somebody changed the project meanwhile.
const retries = 8

// UID is the project's, given now if it has none. Only the leader may ask. Faults: NotFound; Full
// when all numbers are used up; those of a commit.
func (r *Register) UID(ctx context.Context, project string, fence store.Epoch) (int, error) {
	key := api.Key{Kind: api.KindProject, Name: project}
	o, err := r.cfg.Store.Get(ctx, key, 0)
	if err != nil {
		return 0, err
	}
	if uid := o.(*api.Project).Status.UID; uid != 0 {
		return uid, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for range retries {
		var uid int
		if uid, err = r.give(ctx, key, fence); fault.ReasonOf(err) != "Stale" {
			return uid, err
		}
	}
	return 0, err
}

// Folders are the names of the machines' folders that a project was granted.
func (r *Register) Folders(ctx context.Context, project string) ([]string, error) {
	o, err := r.cfg.Store.Get(ctx, api.Key{Kind: api.KindProject, Name: project}, 0)
	if err != nil {
		return nil, err
	}
	return o.(*api.Project).Spec.Folders, nil
}

func (r *Register) give(ctx context.Context, key api.Key, fence store.Epoch) (int, error) {
	// A write that changes nothing: it is fenced, and its revision is newer than every earlier gift.
	revision, err := r.cfg.Store.Commit(ctx, store.Txn{Ops: []store.Op{store.Delete(nobody, 0)}, Fence: fence})
	if err != nil {
		return 0, err
	}
	o, err := r.cfg.Store.Get(ctx, key, revision)
	if err != nil {
		return 0, err
	}
	p := store.Clone(o.(*api.Project))
	if p.Status.UID != 0 {
		return p.Status.UID, nil
	}
	if p.Status.UID, err = r.next(ctx, revision); err != nil {
		return 0, err
	}
	_, err = r.cfg.Store.Commit(ctx, store.Txn{Ops: []store.Op{store.Update(p)}, Fence: fence})
	return p.Status.UID, err
}

// next is a number that is written down as given.
func (r *Register) next(ctx context.Context, revision int64) (int, error) {
	if r.cfg.Take != nil {
		used, err := Used(ctx, r.cfg.Store, revision)
		if err != nil {
			return 0, err
		}
		return r.cfg.Take(used)
	}
	least, err := r.least(ctx, revision)
	if err != nil {
		return 0, err
	}
	uid, err := r.cfg.Burn(least)
	if err != nil {
		return 0, err
	}
	if uid > r.cfg.Last {
		return 0, fault.New(fault.Full, "UIDsUsedUp", fault.T(
			"All uids from %d to %d were given to projects.", "从 %d 到 %d 的 uid 已全部分配给项目。", r.cfg.First, r.cfg.Last)).
			WithHint(fault.T("Widen tenants.uids.", "请扩大 tenants.uids 的范围。"))
	}
	return uid, nil
}

// Used are the numbers that projects have.
func Used(ctx context.Context, st store.Reader, revision int64) ([]int, error) {
	all, err := st.List(ctx, api.KindProject, "", revision)
	if err != nil {
		return nil, err
	}
	var out []int
	all.Ascend("", func(o api.Object) bool {
		if uid := o.(*api.Project).Status.UID; uid != 0 {
			out = append(out, uid)
		}
		return true
	})
	return out, nil
}

// nobody is a key that no object can have: names are lower case.
var nobody = api.Key{Kind: api.KindProject, Name: "NOBODY"}

// least is beyond every number that a project has.
func (r *Register) least(ctx context.Context, revision int64) (int, error) {
	all, err := r.cfg.Store.List(ctx, api.KindProject, "", revision)
	if err != nil {
		return 0, err
	}
	least := r.cfg.First
	all.Ascend("", func(o api.Object) bool {
		if uid := o.(*api.Project).Status.UID; uid >= least && uid <= r.cfg.Last {
			least = uid + 1
		}
		return true
	})
	return least, nil
}
