package ckpt

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fermi-cluster/fermi/internal/ckpt/tensor"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// place is where a chunk lies.
type place struct {
	pack string
	at   uint64
}

// Save is one machine's share of one save. Its ranks may be written side by side.
type Save struct {
	repo             *Repo
	id               string
	generation, step uint64
	world            uint32
	known            map[Hash]place // of the newest checkpoint; read only
	lease            lease
	shared           bool        // with other machines
	rooms            chan []byte // memory for packs, in a save that is shared

	mu      sync.Mutex
	renewed time.Time
	claimed map[Hash]place // by a rank of this save: no other one writes it; where it lies once that rank is done
}

// Begin reads what the newest checkpoint has and leases it. End must follow. A full save relies on
// nothing older: now and then one keeps bytes that rotted on the disk from living on.
func (r *Repo) Begin(ctx context.Context, generation, step uint64, world uint32, full bool) (*Save, error) {
	if world == 0 || world > MaxWorld || step == 0 || step > maxCount || generation > maxCount {
		return nil, fault.New(fault.Invalid, "BadSave", fault.T(
			"Step %d of %d ranks can't be saved.", "无法保存第 %d 步（%d 个进程）。", step, world))
	}
	s := &Save{repo: r, id: newID(), generation: generation, step: step, world: world, known: map[Hash]place{}, claimed: map[Hash]place{}, lease: lease{Version: Version}}
	begun := r.cfg.Clock.Now()
	if !full {
		if err := s.learn(ctx); err != nil {
			return nil, err
		}
	}
	if err := s.renew(ctx); err != nil {
		return nil, err
	}
	// What was read may have been dropped before it was leased; it goes a grace after that at the earliest.
	if r.cfg.Clock.Now().Sub(begun) > r.cfg.Grace/2 {
		return nil, tooSlow()
	}
	return s, nil
}

func tooSlow() *fault.Error {
	return fault.New(fault.Timeout, "SaveTooSlow", fault.T(
		"The save was silent for too long; what it relies on may be gone.", "保存过程停顿过久，其依赖的数据可能已被清理。"))
}

// learn finds where the chunks of the newest readable checkpoint lie. One that can't be read costs
// bytes and nothing else: what it has is written again.
func (s *Save) learn(ctx context.Context) error {
	names, err := s.repo.names(ctx)
	if err != nil {
		return err
	}
	for i := len(names) - 1; i >= 0 && len(s.known) == 0; i-- {
		if v, err := (verdicts{s.repo.objects}).of(ctx, names[i]); err != nil || v.Bad() {
			return err // older ones may have the same bytes
		}
		m, err := s.repo.Manifest(ctx, names[i])
		if passing(ctx, err) {
			return err
		}
		for rank := uint32(0); err == nil && rank < m.World; rank++ {
			p, err := s.repo.part(ctx, m, rank)
			if passing(ctx, err) {
				return err
			}
			if err == nil {
				s.learnPart(p)
			}
		}
	}
	return nil
}

func (s *Save) learnPart(p *Part) {
	for _, key := range p.Packs {
		s.lease.add(key)
	}
	for _, c := range p.Chunks {
		if c.Pack != nil {
			s.known[c.Hash] = place{p.Packs[*c.Pack], c.At}
		}
	}
}

// passing says that a failure is one of the moment, and says nothing about the bytes.
func passing(ctx context.Context, err error) bool {
	return err != nil && (ctx.Err() != nil || fault.CodeOf(err).Retry())
}

// Rank writes what is new of one rank's state, and the part that names all of it. The part is durable
// when Rank returns; the checkpoint exists when Commit has all of them.
func (s *Save) Rank(ctx context.Context, slot *Slot) (PartRef, error) {
	h := slot.Header
	if h.Step != s.step || h.Generation != s.generation || h.World != s.world {
		return PartRef{}, badSlot(fmt.Sprintf("it holds step %d of generation %d", h.Step, h.Generation), fmt.Sprintf("它保存的是第 %d 代第 %d 步", h.Generation, h.Step))
	}
	_, leaves, err := tensor.Parse(slot.Tree, h.Data)
	if err != nil {
		return PartRef{}, err
	}
	w := &rankWriter{save: s, slot: slot, packs: map[string]int{}, ceded: map[string]string{}, part: Part{
		Version: Version, Generation: h.Generation, Step: h.Step, Rank: h.Rank, World: h.World, Data: h.Data, Tree: h.Tree,
		Tensors: make([]tensor.Tensor, 0, len(leaves)), Packs: []string{}, Chunks: []Chunk{},
	}}
	for _, t := range leaves {
		w.part.Tensors = append(w.part.Tensors, *t)
	}
	if err := w.write(ctx, cuts(leaves, h.Data, h.Tree, uint64(s.repo.cfg.ChunkBytes))); err != nil {
		return PartRef{}, err
	}
	w.settle()
	raw := mustJSON(&w.part)
	ref := PartRef{
		Rank: h.Rank, Key: spread(partsDir, fmt.Sprintf("%s-%d", s.id, h.Rank)), Bytes: int64(len(raw)), Hash: sum(raw),
		Lease: s.id, Size: h.Data + h.Tree, New: w.fresh,
	}
	_, err = s.repo.put(ctx, ref.Key, raw)
	return ref, err
}

// cuts gives the lengths of the chunks of data and tree: large blobs are cut from their own beginning,
// so that one that grows does not move the chunks of others; small ones share chunks.
func cuts(leaves []*tensor.Tensor, data, tree, most uint64) []stretch {
	var out []stretch
	begin, large := uint64(0), most/4
	cut := func(at, little uint64) {
		for begin < at {
			n := min(most, at-begin)
			out = append(out, stretch{int(n), n < little})
			begin += n
		}
	}
	little := large // of what lies before: nothing of a large blob is
	for _, t := range leaves {
		if t.At > begin && (t.Bytes >= large || t.At+t.Bytes-begin > most || little == 0) {
			cut(t.At, little)
		}
		if little = large; t.Bytes >= large {
			little = 0
		}
	}
	cut(data, little)
	cut(data+tree, most+1)
	return out
}

// stretch is the length of a chunk. The tree, and what is little of small blobs, is likely the rank's own, as the
// state of a random generator is.
type stretch struct {
	length int
	little bool
}

// claim says whether the caller is the first of this save with a chunk, and so writes it. Else it lies
// where the first one put it; no place: that is not known yet.
func (s *Save) claim(h Hash) (at place, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, claimed := s.claimed[h]
	if !claimed {
		s.claimed[h] = place{}
	}
	return at, !claimed
}
