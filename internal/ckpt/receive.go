package ckpt

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// An imported checkpoint is of generation 0: no rank has saved it, and whatever ranks save is newer.

// Receive writes a rank's state that comes from outside, as the file of a slot in the order in which it can be
// used as it comes: header (4096 bytes), tree, table, data. The data is cut, hashed and written as it arrives: nothing of it is
// kept here. Of another rank or step, damaged, too short or too long: fault Invalid, and nothing names what was written.
func (r *Repo) Receive(ctx context.Context, in io.Reader, step uint64, rank uint32) (PartRef, error) {
	slot, err := arriving(in)
	if err != nil {
		return PartRef{}, err
	}
	h := &slot.Header
	if h.Step != step || h.Rank != rank {
		return PartRef{}, fault.New(fault.Invalid, "AnotherSlot", fault.T(
			"The slot holds rank %d of step %d, not rank %d of step %d.", "该槽保存的是进程 %d 第 %d 步，而不是进程 %d 第 %d 步。", h.Rank, h.Step, rank, step))
	}
	h.Generation = 0
	save, err := r.Begin(ctx, 0, step, h.World, true)
	if err != nil {
		return PartRef{}, err
	}
	ref, err := save.Rank(ctx, slot)
	if err == nil {
		if n, more := in.Read(make([]byte, 1)); n > 0 || !errors.Is(more, io.EOF) {
			err = badSlot("something follows its end", "末尾之后还有内容").Because(more)
		}
	}
	if err != nil {
		return PartRef{}, errors.Join(err, save.End(context.WithoutCancel(ctx)))
	}
	return ref, nil
}

// arriving reads what comes before the data.
func arriving(in io.Reader) (*Slot, error) {
	page := make([]byte, slotData)
	if _, err := io.ReadFull(in, page); err != nil {
		return nil, slotFault(err)
	}
	h, err := unpackHeader(page)
	if err != nil {
		return nil, err
	}
	var rest bytes.Buffer // grows as it is filled, so that a header's claim alone takes no memory
	if _, err := io.CopyN(&rest, in, int64(h.Tree+h.Table)); err != nil {
		return nil, slotFault(err)
	}
	src := &inOrder{in: in, at: slotData}
	src.turn.L = &src.mu
	return slotOver(h, rest.Bytes(), src)
}

// inOrder lets several readers who each take the next stretch read from one stream: who is early waits for its turn. All that
// is handed out must be read, or fail.
type inOrder struct {
	in   io.Reader
	mu   sync.Mutex
	turn sync.Cond
	at   int64
	err  error
}

// ReadAt is io.ReaderAt, for stretches that follow each other.
func (s *inOrder) ReadAt(p []byte, at int64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.at < at && s.err == nil {
		s.turn.Wait()
	}
	if s.err == nil && s.at > at {
		s.err = errors.New("ckpt: a stream is read twice")
	}
	if s.err != nil {
		return 0, s.err
	}
	n, err := io.ReadFull(s.in, p)
	s.at, s.err = s.at+int64(n), err
	s.turn.Broadcast()
	return n, err
}

// Import commits what Receive has written of all ranks, and says so again when asked again. A repository has one
// imported checkpoint, and none once ranks have begun to save.
func (r *Repo) Import(ctx context.Context, step uint64, parts []PartRef) (*Manifest, error) {
	names, err := r.names(ctx)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(names, func(name string) bool { return name != manifestName(0, step) }) {
		return nil, fault.New(fault.Conflict, "AlreadyImported", fault.T("Another checkpoint is there already.", "已有另一个检查点。"))
	}
	m, err := r.Commit(ctx, Proposal{Step: step, World: uint32(len(parts)), Parts: parts})
	if err != nil {
		return nil, err
	}
	for _, p := range m.Parts { // none is "": Commit looked at them
		if err := r.delete(ctx, spread(leasesDir, p.Lease)); err != nil {
			return nil, err
		}
	}
	return m, nil
}
