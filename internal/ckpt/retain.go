package ckpt

import (
	"cmp"
	"context"
	"path"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Checkpoint is one that is committed.
type Checkpoint struct {
	Name             string
	Generation, Step uint64
	World            uint32
	Metrics          map[string]float64
	Size, New        uint64 // bytes of the state, and those written for it
	Committed        time.Time
	Pinned           bool
	Verdict          Verdict
	// Unread says why its record can't be read: then only its name, and what that says, is known of it.
	Unread error
}

// Newer says that a newer Fermi wrote it. It may be whole, and nothing older stands for it.
func (c *Checkpoint) Newer() bool { return fault.ReasonOf(c.Unread) == newerFormat }

// List gives the committed checkpoints, oldest first, and those whose records can't be read.
func (r *Repo) List(ctx context.Context) (all, unread []Checkpoint, err error) {
	pins, err := r.list(ctx, pinsDir)
	if err != nil {
		return nil, nil, err
	}
	pinned := map[string]bool{}
	for _, o := range pins {
		pinned[path.Base(o.name)] = true
	}
	verdict, err := verdicts{r.objects}.all(ctx)
	if err != nil {
		return nil, nil, err
	}
	found, err := r.list(ctx, manifestsDir)
	if err != nil {
		return nil, nil, err
	}
	for _, o := range found {
		name := path.Base(o.name)
		c := Checkpoint{Name: name, Committed: o.modified, Pinned: pinned[name], Verdict: verdict[name]}
		m, err := r.Manifest(ctx, name)
		switch {
		case fault.Is(err, fault.NotFound):
			continue // dropped meanwhile
		case passing(ctx, err):
			return nil, nil, err
		case err != nil:
			unread = append(unread, c.unreadable(err, r.cfg.Clock.Now().UTC()))
			continue
		}
		c.Generation, c.Step, c.World, c.Metrics = m.Generation, m.Step, m.World, m.Metrics
		for _, p := range m.Parts {
			c.Size += p.Size
			c.New += p.New
		}
		all = append(all, c)
	}
	return all, unread, nil
}

// unreadable is the checkpoint with what its name says of it, and as damaged.
func (c Checkpoint) unreadable(why error, now time.Time) Checkpoint {
	c.Generation, c.Step, _ = parseName(c.Name) // one that is no name has neither
	if c.Unread = why; !c.Verdict.Bad() {
		c.Verdict = Verdict{At: now, Damage: fault.From(why).Message}
	}
	return c
}

// Pin keeps a checkpoint whatever the policy says; Unpin ends that.
func (r *Repo) Pin(ctx context.Context, name string) error {
	if _, err := r.Manifest(ctx, name); err != nil {
		return err
	}
	_, err := r.put(ctx, pinsDir+name, []byte("pinned"))
	return err
}

// Unpin lets the policy decide again.
func (r *Repo) Unpin(ctx context.Context, name string) error {
	if _, _, err := parseName(name); err != nil {
		return err
	}
	return r.delete(ctx, pinsDir+name)
}

// Retention says which checkpoints stay: those that any of the three names. The newest always does. One that is
// known to be damaged is none of them, else good ones would go for it.
type Retention struct {
	// Last is how many of the newest stay.
	Last int
	// Every keeps those whose step is a multiple of it; 0 keeps none for that.
	Every uint64
	// Best keeps the BestCount of the best by this metric; those without it are none of them.
	Best      string
	BestCount int
	// Most says that more is better.
	Most bool
	// Abandoned says, by name, which count no more: they go unless they are pinned. Nil: none.
	Abandoned func(name string) bool
	// Held says which of the others stay, by name: somebody is about to read them. Nil: none.
	Held func(name string) bool
}

// Keeping is what a task asks for.
func Keeping(keep api.CheckpointKeep) Retention {
	k := Retention{Last: keep.Last, Every: uint64(keep.EverySteps)}
	if b := keep.Best; b != nil {
		k.Best, k.BestCount, k.Most = b.Metric, b.Count, b.Order == api.OrderMax
	}
	return k
}

// kept says which stay, by name. all is sorted, oldest first.
func (k Retention) kept(all []Checkpoint) map[string]bool {
	out := k.named(all)
	for _, c := range all {
		if !out[c.Name] && (c.Pinned || k.Held != nil && k.Held(c.Name)) {
			out[c.Name] = true
		}
	}
	return out
}

// named are those that a rule names.
func (k Retention) named(all []Checkpoint) map[string]bool {
	out := map[string]bool{}
	all = slices.DeleteFunc(slices.Clone(all), func(c Checkpoint) bool {
		return c.Verdict.Bad() || k.Abandoned != nil && k.Abandoned(c.Name)
	})
	for i, c := range all {
		if i >= len(all)-max(k.Last, 1) || k.Every > 0 && c.Step%k.Every == 0 {
			out[c.Name] = true
		}
	}
	if k.Best == "" {
		return out
	}
	ranked := slices.Clone(all)
	ranked = slices.DeleteFunc(ranked, func(c Checkpoint) bool { _, ok := c.Metrics[k.Best]; return !ok })
	slices.SortStableFunc(ranked, func(a, b Checkpoint) int {
		by := cmp.Compare(a.Metrics[k.Best], b.Metrics[k.Best])
		if k.Most {
			by = -by
		}
		return cmp.Or(by, cmp.Compare(a.Name, b.Name)) // of equals the older: measured nearer to it
	})
	for _, c := range ranked[:min(max(k.BestCount, 1), len(ranked))] {
		out[c.Name] = true
	}
	return out
}
