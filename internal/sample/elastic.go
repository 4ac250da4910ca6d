package sample

import (
	"encoding/binary"
	"fmt"
	"io"
)

// What lets the number of ranks change: a state that a newcomer takes from a peer, and gradients whose
// sum does not depend on who computed which part.

// shards computes the gradient with a fixed number of parts of the batch, each by one rank, added in
// their order by everybody: the same bits with any number of ranks.
func (t *trainer) shards(r *ring, stop bool) (stopped bool, err error) {
	all, size := t.o.Shards, 0
	for _, part := range t.grad.parameters() {
		size += len(part)
	}
	t.flat = append(t.flat[:0], make([]float64, all*size+1)...)
	p := t.o.Place
	n := max(p.World, 1)
	for k := p.Rank * all / n; k < (p.Rank+1)*all/n; k++ {
		t.grad.clear()
		t.model.batchOf(t.work, t.batch[k*len(t.batch)/all:(k+1)*len(t.batch)/all], len(t.batch), t.grad)
		row := t.flat[k*size : k*size]
		for _, part := range t.grad.parameters() {
			row = append(row, part...)
		}
	}
	if stop {
		t.flat[all*size] = 1
	}
	// Every place but one is zero in all ranks but one, so this sum only brings the rows together.
	if err := r.sum(t.flat); err != nil {
		return false, err
	}
	t.grad.clear()
	for k := range all {
		row := t.flat[k*size:]
		for _, part := range t.grad.parameters() {
			for i := range part {
				part[i] += row[i]
			}
			row = row[len(part):]
		}
	}
	return t.flat[all*size] > 0, nil
}

// maxState bounds what a peer may send.
const maxState = 1 << 30

// share hands a state to the ranks that lack it: missing says why this one does. It is an error only
// where nobody has it.
func (r *ring) share(own []byte, missing error) ([]byte, error) {
	if r == nil {
		return own, missing
	}
	n, me := r.place.World, r.place.Rank
	sizes := make([]float64, n) // of each rank's state
	if missing == nil {
		sizes[me] = float64(len(own))
	}
	if err := r.sum(sizes); err != nil {
		return nil, err
	}
	from, lack := -1, 0
	for rank, size := range sizes {
		if size == 0 {
			lack++
		} else if from < 0 {
			from = rank
		}
	}
	switch {
	case from < 0:
		return nil, missing
	case lack == 0:
		return own, nil
	case sizes[from] > maxState:
		return nil, fmt.Errorf("a state of %.0f bytes is too large", sizes[from])
	}
	return r.pass(own, missing != nil, from, int(sizes[from]))
}

// pass sends the state of one rank once around; who has its own keeps that.
func (r *ring) pass(own []byte, want bool, from, size int) ([]byte, error) {
	n, me := r.place.World, r.place.Rank
	state := own
	if me != from {
		head := make([]byte, 8)
		if _, err := io.ReadFull(r.prev, head); err != nil {
			return nil, err
		}
		if got := binary.LittleEndian.Uint64(head); got != uint64(size) {
			return nil, fmt.Errorf("a state of %d bytes instead of %d", got, size)
		}
		state = make([]byte, size)
		if _, err := io.ReadFull(r.prev, state); err != nil {
			return nil, err
		}
	}
	if (me+1)%n != from {
		if _, err := r.next.Write(append(binary.LittleEndian.AppendUint64(nil, uint64(size)), state...)); err != nil {
			return nil, err
		}
	}
	if want {
		return state, nil
	}
	return own, nil
}
