package ckpt

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// Image is what one rank has of a checkpoint, to be sent as the file of a slot. The header of a slot holds the
// sums of what follows it, which are known only after that was read; so it comes last, and nothing is read twice or held:
//
//	data, tree, table      the file from its byte 4096 on
//	header                 its first 4096 bytes
//	SHA-256                of all that, 32 bytes
type Image struct {
	src  *source
	part *sourcePart
}

// Image opens a rank's part of a checkpoint whose parts are here. The manifest may be from elsewhere.
func (r *Repo) Image(ctx context.Context, m *Manifest, rank uint32) (*Image, error) {
	if rank >= m.World {
		return nil, fault.New(fault.NotFound, "NoSuchRank", fault.T(
			"There is no rank %d; the checkpoint has ranks 0 to %d.", "进程 %d 不存在；该检查点的进程编号为 0 至 %d。", rank, m.World-1))
	}
	src := &source{repo: r, m: m, parts: map[uint32]*sourcePart{}}
	part, err := src.part(ctx, rank)
	if err != nil {
		return nil, err
	}
	return &Image{src, part}, nil
}

// Size is how many bytes Send sends.
func (i *Image) Size() int64 {
	return slotData + int64(i.part.Data+i.part.Tree) + int64(tableOf(i.part.Data)) + sha256.Size
}

func tableOf(data uint64) uint64 { return 4 * ((data + slotSum - 1) / slotSum) }

// Send writes every byte after its chunk was verified. Memory: one chunk, and what a few open packs take.
func (i *Image) Send(ctx context.Context, w io.Writer) error {
	whole := sha256.New()
	out := io.MultiWriter(w, whole)
	page, table, err := i.pass(ctx, out)
	if err != nil {
		return err
	}
	if _, err := out.Write(append(table, page...)); err != nil {
		return err
	}
	_, err = w.Write(whole.Sum(nil))
	return err
}

// adding makes the table of a slot's data as it goes by.
type adding struct {
	left  uint64 // of the data
	done  uint64 // of the stretch
	crc   uint32
	table []byte
}

func (a *adding) add(p []byte) {
	for len(p) > 0 {
		n := min(uint64(len(p)), slotSum-a.done)
		a.crc = crc32.Update(a.crc, crc32.IEEETable, p[:n])
		a.left, a.done, p = a.left-n, a.done+n, p[n:]
		if a.done == slotSum || a.left == 0 {
			a.table, a.done, a.crc = binary.LittleEndian.AppendUint32(a.table, a.crc), 0, 0
		}
	}
}

// openPacks is how many packs are open at once: a rank's chunks lie in those of a few saves, mostly in their order.
const openPacks = 4

// packReader reads chunks in any order; in the order of a pack that is one request.
type packReader struct {
	src  *source
	open []*openPack // the last used first
}

type openPack struct {
	name string
	in   io.ReadSeekCloser
	at   uint64
}

// chunk fills p with a chunk, verified. What does not match is read once more: a read that went wrong says nothing about
// what lies there.
func (r *packReader) chunk(ctx context.Context, part *sourcePart, c *Chunk, p []byte) error {
	where, err := r.src.find(ctx, part, c)
	if err != nil {
		return err
	}
	err = r.read(ctx, where, p, c.Hash)
	if fault.ReasonOf(err) == "Damaged" {
		r.close()
		err = r.read(ctx, where, p, c.Hash)
	}
	return err
}

func (r *packReader) read(ctx context.Context, where place, p []byte, want Hash) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	pack, err := r.pack(ctx, where.pack)
	if err != nil {
		return err
	}
	if pack.at != where.at {
		if _, err := pack.in.Seek(int64(where.at), io.SeekStart); err != nil {
			return fault.From(err)
		}
	}
	n, err := io.ReadFull(pack.in, p)
	pack.at = where.at + uint64(n)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return damaged("the pack "+where.pack+" is too short", "数据包 "+where.pack+" 过短").Because(err)
	} else if err != nil {
		return fault.From(err)
	}
	if sum(p) != want {
		return damaged("a chunk in "+where.pack+" does not match its hash", where.pack+" 中的数据块与其哈希不符")
	}
	return nil
}

func (r *packReader) pack(ctx context.Context, name string) (*openPack, error) {
	for i, p := range r.open {
		if p.name == name {
			copy(r.open[1:], r.open[:i])
			r.open[0] = p
			return p, nil
		}
	}
	in, _, err := r.src.repo.cfg.Store.Open(ctx, r.src.repo.key(name))
	if err != nil {
		return nil, err
	}
	if len(r.open) == openPacks {
		r.open[openPacks-1].in.Close()
		r.open = r.open[:openPacks-1]
	}
	p := &openPack{name: name, in: in}
	r.open = append([]*openPack{p}, r.open...)
	return p, nil
}

func (r *packReader) close() {
	for _, p := range r.open {
		p.in.Close() // only read
	}
	r.open = nil
}
