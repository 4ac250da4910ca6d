package sample

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"time"
)

// trainer is everything that a step changes, and what it needs for it.
type trainer struct {
	o     Options
	data  []Point
	pcg   *rand.PCG
	rng   *rand.Rand
	model *Model
	grad  *Model
	opt   *adam
	work  *scratch
	batch []Point
	last  time.Time // when the step before had ended
	// waited is for other ranks, since then.
	waited time.Duration
	flat   []float64 // the gradients on their way round, and whether this rank wants to stop
}

func newTrainer(o Options) *trainer {
	// One stream for the data, one for weights and batches: changing one leaves the other alone.
	t := &trainer{o: o, data: spirals(examples, rand.New(rand.NewPCG(o.Seed, 1))), pcg: rand.NewPCG(o.Seed, 2)}
	t.rng = rand.New(t.pcg)
	t.model = NewModel(o.Hidden, t.rng)
	t.grad, t.opt, t.work = t.model.zeros(), newAdam(t.model, o.Rate), t.model.scratch()
	t.batch = make([]Point, o.Batch)
	return t
}

// step is one optimizer step. Every rank draws the whole batch and takes its share of it, so that
// random numbers are the same everywhere. stop is this rank's wish; the answer is whether any had it.
func (t *trainer) step(r *ring, stop bool) (stopped bool, err error) {
	for i := range t.batch {
		t.batch[i] = t.data[t.rng.IntN(len(t.data))]
	}
	p := t.o.Place
	n := max(p.World, 1)
	if t.o.Shards > 0 {
		stopped, err = t.shards(r, stop)
	} else {
		share := t.batch[p.Rank*len(t.batch)/n : (p.Rank+1)*len(t.batch)/n]
		t.grad.clear()
		t.model.batchOf(t.work, share, len(t.batch), t.grad)
		stopped, err = t.reduce(r, stop)
	}
	if err != nil {
		return false, err
	}
	t.waited += r.took()
	t.opt.apply(t.model, t.grad)
	return stopped, nil
}

// reduce sums the gradients of all ranks.
func (t *trainer) reduce(r *ring, stop bool) (stopped bool, err error) {
	if r == nil {
		return stop, nil
	}
	t.flat = t.flat[:0]
	for _, part := range t.grad.parameters() {
		t.flat = append(t.flat, part...)
	}
	wish := 0.0
	if stop {
		wish = 1
	}
	t.flat = append(t.flat, wish)
	if err := r.sum(t.flat); err != nil {
		return false, err
	}
	rest := t.flat
	for _, part := range t.grad.parameters() {
		rest = rest[copy(part, rest):]
	}
	return rest[0] > 0, nil
}

// state is all of it as bytes: the optimizer's step, the random numbers' state, weights and moments.
func (t *trainer) state() []byte {
	rng, err := t.pcg.MarshalBinary()
	if err != nil {
		panic(err) // it never fails
	}
	out := binary.LittleEndian.AppendUint64(nil, uint64(t.opt.step))
	out = binary.LittleEndian.AppendUint64(out, uint64(len(rng)))
	out = append(out, rng...)
	for _, m := range []*Model{t.model, t.opt.m1, t.opt.m2} {
		for _, part := range m.parameters() {
			for _, x := range part {
				out = binary.LittleEndian.AppendUint64(out, math.Float64bits(x))
			}
		}
	}
	return out
}

var errState = errors.New("the saved state is of another model")

// restore takes a state back.
func (t *trainer) restore(data []byte) error {
	if len(data) < 16 {
		return errState
	}
	n := binary.LittleEndian.Uint64(data[8:])
	if n > uint64(len(data)-16) {
		return errState
	}
	step, rng, rest := binary.LittleEndian.Uint64(data), data[16:16+n], data[16+n:]
	want := 0
	for _, part := range t.model.parameters() {
		want += 3 * 8 * len(part)
	}
	if len(rest) != want || step > math.MaxInt32 || t.pcg.UnmarshalBinary(rng) != nil {
		return errState
	}
	t.opt.step = int(step)
	for _, m := range []*Model{t.model, t.opt.m1, t.opt.m2} {
		for _, part := range m.parameters() {
			for i := range part {
				part[i] = float(rest, i)
			}
			rest = rest[8*len(part):]
		}
	}
	return nil
}
