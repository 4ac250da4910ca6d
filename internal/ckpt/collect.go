package ckpt

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// Collected says what a Collect did.
type Collected struct {
	Dropped []string // checkpoints, by name
	Deleted int      // packs and parts
	// Damaged are checkpoints whose records can't be read. While there are any no pack is deleted, for
	// nobody can say what they name: see Drop.
	Damaged []string
}

// Collect drops the checkpoints that the policy does not keep, and deletes the packs and parts that no
// checkpoint names and no lease protects. Several may run at once, beside saves.
//
// Why it is safe. What nobody names is first only marked. It goes a grace after that, if it still is
// nobody's. A save that began before the mark has committed by then, or lost its lease; one that began
// later knows of a pack only by a checkpoint that was there: and dropping a checkpoint first takes the
// marks off all it names. The order of a turn matters: the time, leases, manifests, marks, deletion.
func (r *Repo) Collect(ctx context.Context, keep Retention) (*Collected, error) {
	c := &collector{repo: r, out: &Collected{}}
	return c.out, c.turn(ctx, keep)
}

// collector is one turn of a collection.
type collector struct {
	repo *Repo
	now  time.Time // by the store's clock
	out  *Collected
}

func (c *collector) turn(ctx context.Context, keep Retention) (err error) {
	if err := c.retire(ctx, keep); err != nil {
		return err
	}
	if c.now, err = c.repo.storeNow(ctx); err != nil {
		return err
	}
	if err := c.unclaim(ctx); err != nil {
		return err
	}
	packs, ids, err := leases{c.repo.objects}.live(ctx, c.now)
	if err != nil {
		return err
	}
	live, err := c.live(ctx)
	if err != nil || len(c.out.Damaged) > 0 {
		return err
	}
	for name := range packs {
		live[name] = true
	}
	return c.sweep(ctx, live, ids)
}

// retire drops what the policy does not keep.
func (c *collector) retire(ctx context.Context, keep Retention) error {
	all, _, err := c.repo.List(ctx)
	if err != nil {
		return err
	}
	kept := keep.kept(all)
	for _, one := range all {
		if kept[one.Name] {
			continue
		}
		if err := c.repo.Drop(ctx, one.Name); err != nil {
			return err
		}
		c.out.Dropped = append(c.out.Dropped, one.Name)
	}
	return nil
}

// Drop makes a checkpoint exist no more; what only it names goes with a later Collect. One that can't
// be read is dropped too. A pinned one is fault Conflict.
func (r *Repo) Drop(ctx context.Context, name string) error {
	if _, _, err := parseName(name); err != nil {
		return err
	}
	pins, err := r.list(ctx, pinsDir)
	if err != nil {
		return err
	}
	for _, o := range pins {
		if path.Base(o.name) == name {
			return fault.New(fault.Conflict, "Pinned", fault.T("The checkpoint %s is pinned.", "检查点 %s 已被固定。", name)).
				WithHint(fault.T("Unpin it first.", "请先取消固定。"))
		}
	}
	m, err := r.Manifest(ctx, name)
	switch {
	case fault.Is(err, fault.NotFound):
		return nil
	case passing(ctx, err):
		return err
	case err == nil:
		named := map[string]bool{}
		if _, err := r.addNamed(ctx, m, named); err != nil {
			return err
		}
		for key := range named {
			if err := r.delete(ctx, condemnedDir+key); err != nil {
				return err
			}
		}
	default:
		// It can't be told what it names: every mark goes, and all wait anew.
		if err := r.delete(ctx, condemnedDir); err != nil {
			return err
		}
	}
	if err := r.delete(ctx, verdictsDir+name); err != nil {
		return err
	}
	return r.delete(ctx, manifestsDir+name)
}

// addNamed adds the parts and packs that a manifest names. whole is false where a part is damaged.
func (r *Repo) addNamed(ctx context.Context, m *Manifest, named map[string]bool) (whole bool, err error) {
	whole = true
	for rank, ref := range m.Parts {
		named[ref.Key] = true
		p, err := r.part(ctx, m, uint32(rank))
		switch {
		case fault.Is(err, fault.NotFound):
			continue // another machine's
		case passing(ctx, err):
			return false, err
		case err != nil:
			whole = false
			continue
		}
		for _, key := range p.Packs {
			named[key] = true
		}
	}
	return whole, nil
}

// live gives what committed checkpoints name.
func (c *collector) live(ctx context.Context) (map[string]bool, error) {
	named := map[string]bool{}
	names, err := c.repo.names(ctx)
	if err != nil {
		return nil, err
	}
	c.out.Damaged = nil
	for _, name := range names {
		m, err := c.repo.Manifest(ctx, name)
		switch {
		case fault.Is(err, fault.NotFound):
			continue // dropped meanwhile
		case passing(ctx, err):
			return nil, err
		case err != nil:
			c.out.Damaged = append(c.out.Damaged, name)
			continue
		}
		whole, err := c.repo.addNamed(ctx, m, named)
		if err != nil {
			return nil, err
		}
		if !whole {
			c.out.Damaged = append(c.out.Damaged, name)
		}
	}
	return named, nil
}

// sweep marks what is nobody's, and deletes what has been so for longer than the grace.
func (c *collector) sweep(ctx context.Context, live, saving map[string]bool) error {
	marks, err := c.repo.list(ctx, condemnedDir)
	if err != nil {
		return err
	}
	since := map[string]time.Time{}
	for _, o := range marks {
		since[strings.TrimPrefix(o.name, condemnedDir)] = o.modified
	}
	for _, dir := range []string{packsDir, partsDir} {
		found, err := c.repo.list(ctx, dir)
		if err != nil {
			return err
		}
		for _, o := range found {
			if err := c.judge(ctx, o.name, since, live[o.name] || saving[saveOf(o.name)]); err != nil {
				return err
			}
			delete(since, o.name)
		}
	}
	for name := range since { // marks of what is gone
		if err := c.repo.delete(ctx, condemnedDir+name); err != nil {
			return err
		}
	}
	return nil
}

func (c *collector) judge(ctx context.Context, name string, since map[string]time.Time, needed bool) error {
	marked, is := since[name]
	switch {
	case needed && is:
		return c.repo.delete(ctx, condemnedDir+name)
	case needed:
		return nil
	case !is:
		_, err := c.repo.put(ctx, condemnedDir+name, []byte("unnamed"))
		return err
	case c.now.Sub(marked) > c.repo.cfg.Grace:
		c.out.Deleted++
		if err := c.repo.delete(ctx, name); err != nil {
			return err
		}
		return c.repo.delete(ctx, condemnedDir+name)
	}
	return nil
}

func parseName(name string) (generation, step uint64, err error) {
	if _, err := fmt.Sscanf(name, "%d-%d", &generation, &step); err != nil || manifestName(generation, step) != name {
		return 0, 0, fault.New(fault.Invalid, "BadName", fault.T("%.100q names no checkpoint.", "%.100q 不是检查点名称。", name))
	}
	return generation, step, nil
}
