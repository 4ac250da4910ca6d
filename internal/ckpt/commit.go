package ckpt

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// Proposal is a checkpoint that every rank has written.
type Proposal struct {
	Generation, Step uint64
	World            uint32
	Parts            []PartRef
	Metrics          map[string]float64
	// Here are the ranks whose parts this tier holds, where it is one machine's own; nil means all.
	Here []uint32
}

// Fence says that a generation has begun: older ones commit no more. The coordinator calls it before
// the ranks of that generation start. A commit that looked before and wrote after is harmless: it is
// whole, and sorts behind whatever the new generation commits.
func (r *Repo) Fence(ctx context.Context, generation uint64) error {
	if generation > maxCount {
		return stale(generation, maxCount)
	}
	newest, err := generations{r.objects}.newest(ctx)
	if err != nil {
		return err
	}
	if newest > generation {
		return stale(generation, newest)
	}
	_, err = r.put(ctx, generationsDir+fmt.Sprintf("%019d", generation), []byte("begun"))
	return err
}

// generations are those that have begun.
type generations struct{ objects }

func (g generations) newest(ctx context.Context) (uint64, error) {
	found, err := g.list(ctx, generationsDir)
	if err != nil || len(found) == 0 {
		return 0, err
	}
	n, err := strconv.ParseUint(path.Base(found[len(found)-1].name), 10, 63)
	if err != nil {
		return 0, damaged("a generation has no number", "代号不是数字").Because(err)
	}
	return n, nil
}

func stale(generation, newest uint64) *fault.Error {
	return fault.New(fault.Conflict, "StaleGeneration", fault.T(
		"Generation %d can't commit a checkpoint: generation %d has begun.", "第 %d 代不能提交检查点：第 %d 代已经开始。", generation, newest))
}

// Commit makes the checkpoint exist. Saying it again is fine; another state under the same
// generation and step is fault Conflict.
func (r *Repo) Commit(ctx context.Context, p Proposal) (*Manifest, error) {
	m, err := p.manifest()
	if err != nil {
		return nil, err
	}
	raw := encodeManifest(m)
	if have, err := r.read(ctx, manifestsDir+m.Name(), maxManifest); err == nil && bytes.Equal(have, raw) {
		return m, nil
	} else if passing(ctx, err) {
		return nil, err
	}
	newest, err := generations{r.objects}.newest(ctx)
	if err != nil {
		return nil, err
	}
	if newest > m.Generation {
		return nil, stale(m.Generation, newest)
	}
	here, err := r.checkParts(ctx, m, p.Here)
	if err != nil {
		return nil, err
	}
	left, err := leases{r.objects}.fresh(ctx, here)
	if err != nil {
		return nil, err
	}
	// Not later than the leases hold: past that Collect may have taken what the manifest names.
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	if _, err := r.cfg.Store.Create(ctx, r.key(manifestsDir+m.Name()), bytes.NewReader(raw)); err != nil {
		have, again := r.read(ctx, manifestsDir+m.Name(), maxManifest)
		if again != nil || !bytes.Equal(have, raw) {
			return nil, err
		}
	}
	return m, nil
}

func (p Proposal) manifest() (*Manifest, error) {
	m := &Manifest{Version: Version, Generation: p.Generation, Step: p.Step, World: p.World, Metrics: p.Metrics, Parts: slices.Clone(p.Parts)}
	slices.SortFunc(m.Parts, func(a, b PartRef) int { return cmp.Compare(uint64(a.Rank), uint64(b.Rank)) })
	for name, v := range p.Metrics {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fault.New(fault.Invalid, "BadMetric", fault.T("The metric %.100q is not finite.", "指标 %.100q 不是有限数。", name))
		}
	}
	if err := m.check(); err != nil {
		return nil, fault.New(fault.Invalid, "Incomplete", fault.T(
			"A checkpoint needs one part of each of its %d ranks.", "检查点需要全部 %d 个进程各一份。", p.World)).Because(err)
	}
	return m, nil
}

// checkParts reads the parts that are here: each is what its rank said, every chunk has a place, and
// every pack was written.
func (r *Repo) checkParts(ctx context.Context, m *Manifest, here []uint32) ([]PartRef, error) {
	if here == nil {
		for rank := range m.World {
			here = append(here, rank)
		}
	}
	var refs []PartRef
	placed, named, packs := map[Hash]bool{}, map[Hash]bool{}, reliance{map[string]bool{}, map[string][]string{}}
	for _, rank := range here {
		if rank >= m.World {
			return nil, fault.New(fault.Invalid, "NoSuchRank", fault.T("There is no rank %d.", "进程 %d 不存在。", rank))
		}
		part, err := r.part(ctx, m, rank)
		if err != nil {
			return nil, err
		}
		for _, c := range part.Chunks {
			if c.Pack != nil {
				placed[c.Hash] = true
			}
			named[c.Hash] = true
		}
		packs.add(part, m.Parts[rank].Lease)
		refs = append(refs, m.Parts[rank])
	}
	if len(placed) != len(named) {
		return nil, damaged("chunks were written by no rank", "有数据块没有被任何进程写入")
	}
	return refs, r.checkPacks(ctx, packs)
}

// reliance is which packs the saves of a checkpoint wrote, by their parts, and which they only name.
type reliance struct {
	written map[string]bool
	named   map[string][]string // by save
}

func (n reliance) add(p *Part, save string) {
	for _, key := range p.Packs {
		if saveOf(key) == save {
			n.written[key] = true
		} else {
			n.named[save] = append(n.named[save], key)
		}
	}
}

// checkPacks finds each pack that a save did not write itself among those that another one did, or that
// it leased: who claimed a pack may have ended before it was written, and come back as another save.
func (r *Repo) checkPacks(ctx context.Context, packs reliance) error {
	for save, keys := range packs.named {
		keys = slices.DeleteFunc(keys, func(key string) bool { return packs.written[key] })
		if len(keys) == 0 {
			continue
		}
		l, err := leases{r.objects}.of(ctx, save)
		if fault.Is(err, fault.NotFound) {
			return tooSlow()
		}
		if err != nil {
			return err
		}
		for _, key := range keys {
			if _, leased := slices.BinarySearch(l.Packs, key); !leased {
				return damaged("a pack was written by no rank", "有数据包没有被任何进程写入")
			}
		}
	}
	return nil
}
