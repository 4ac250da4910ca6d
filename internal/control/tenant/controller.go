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

// UID is the project's, given now if it has none. Only the leader may ask. Faults: NotFound; Full
// when all numbers are used up; those of a commit.
func (r *Register) UID(ctx context.Context, project string, fence store.Epoch) (int, error) {
	o, err := r.cfg.Store.Get(ctx, api.Key{Kind: api.KindProject, Name: project}, 0)
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
		if uid, err = r.give(ctx, project, fence); fault.ReasonOf(err) != "Stale" {
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
