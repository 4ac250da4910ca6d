package ckpt

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"sort"

	"github.com/fermi-cluster/fermi/api/v1/asset"
)

// Files are those of a rank's state: what the script saved, where it saves files itself; otherwise the one file of the rank's slot, for which all of
// its state is read once. Each is opened as often as is wanted, also at once; who reads may seek, and every byte was verified.
func (i *Image) Files(ctx context.Context) (files []asset.File, open asset.Opener, err error) {
	p := i.part
	tree := i.window(ctx, nil, p.Data, p.Data+p.Tree, nil)
	raw, err := io.ReadAll(tree)
	if _ = tree.Close(); err != nil { // only read
		return nil, nil, err
	}
	opens := map[string]func() io.ReadCloser{}
	if kept, err := filesOf(&Slot{Header: Header{Data: p.Data}, Tree: raw}); err == nil {
		for _, f := range kept {
			files = append(files, asset.File{Path: f.name, Size: int64(f.size)})
			opens[f.name] = func() io.ReadCloser { return i.window(ctx, nil, f.at, f.at+f.size, nil) }
		}
	} else {
		page, table, err := i.pass(ctx, io.Discard)
		if err != nil {
			return nil, nil, err
		}
		name := fmt.Sprintf("rank-%d.slot", p.Rank)
		files = []asset.File{{Path: name, Size: int64(len(page)) + int64(p.Data+p.Tree) + int64(len(table))}}
		opens[name] = func() io.ReadCloser { return i.window(ctx, page, 0, p.Data+p.Tree, table) }
	}
	return files, func(path string) (io.ReadCloser, error) {
		if one := opens[path]; one != nil {
			return one(), nil
		}
		return nil, fs.ErrNotExist
	}, nil
}

// pass writes the data and the tree, every byte after its chunk was verified, and makes of them what stands before and behind: the header's page
// and the table. Memory: one chunk, and what a few open packs take.
func (i *Image) pass(ctx context.Context, out io.Writer) (page, table []byte, err error) {
	packs := &packReader{src: i.src}
	defer packs.close()
	buf := chunkBuffers.Get().(*[]byte)
	defer chunkBuffers.Put(buf)
	sums, tree := adding{left: i.part.Data}, uint32(0)
	for n := range i.part.Chunks {
		c := &i.part.Chunks[n]
		p := (*buf)[:c.Bytes]
		if err := packs.chunk(ctx, i.part, c, p); err != nil {
			return nil, nil, err
		}
		data := p[:min(uint64(len(p)), sums.left)]
		sums.add(data)
		tree = crc32.Update(tree, crc32.IEEETable, p[len(data):])
		if _, err := out.Write(p); err != nil {
			return nil, nil, err
		}
	}
	h := Header{
		Rank: i.part.Rank, World: i.part.World, Generation: i.part.Generation, Step: i.part.Step, Data: i.part.Data, Tree: i.part.Tree, Table: uint64(len(sums.table)),
		treeCRC: tree, tableCRC: crc32.ChecksumIEEE(sums.table),
	}
	return append(make([]byte, 0, slotData), h.pack()...)[:slotData], sums.table, nil
}

// window reads bytes that are here, then a stretch of a rank's state, then others that are here. One goroutine's.
type window struct {
	ctx          context.Context
	img          *Image
	packs        *packReader
	head, tail   []byte
	from, to, at uint64 // the first two of the state
	buf          *[]byte
	chunk        int // that is in buf; -1: none
}

func (i *Image) window(ctx context.Context, head []byte, from, to uint64, tail []byte) *window {
	return &window{ctx: ctx, img: i, packs: &packReader{src: i.src}, head: head, tail: tail, from: from, to: to, chunk: -1}
}

// Read is io.Reader's.
func (w *window) Read(p []byte) (int, error) {
	first, last := uint64(len(w.head)), uint64(len(w.head))+w.to-w.from
	n := 0
	switch {
	case w.at < first:
		n = copy(p, w.head[w.at:])
	case w.at < last:
		there, err := w.state(w.from + w.at - first)
		if err != nil {
			return 0, err
		}
		n = copy(p, there[:min(uint64(len(there)), last-w.at)])
	case w.at < last+uint64(len(w.tail)):
		n = copy(p, w.tail[w.at-last:])
	default:
		return 0, io.EOF
	}
	w.at += uint64(n)
	return n, nil
}

// state is what follows a place of the state, which its chunks are all of, in its chunk.
func (w *window) state(at uint64) ([]byte, error) {
	part := w.img.part
	n := sort.Search(len(part.ends), func(n int) bool { return part.ends[n] > at })
	c := &part.Chunks[n]
	if w.chunk != n {
		if w.chunk = -1; w.buf == nil {
			w.buf = chunkBuffers.Get().(*[]byte)
		}
		if err := w.packs.chunk(w.ctx, part, c, (*w.buf)[:c.Bytes]); err != nil {
			return nil, err
		}
		w.chunk = n
	}
	return (*w.buf)[at-(part.ends[n]-uint64(c.Bytes)) : c.Bytes], nil
}

// Seek is io.Seeker's, from the start only.
func (w *window) Seek(offset int64, _ int) (int64, error) {
	w.at = uint64(max(offset, 0))
	return int64(w.at), nil
}

// Close lets go of what it holds; it may be said again.
func (w *window) Close() error {
	w.packs.close()
	if w.buf != nil {
		chunkBuffers.Put(w.buf)
		w.buf, w.chunk = nil, -1
	}
	return nil
}
