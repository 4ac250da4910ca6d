package embedded

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
)

// The database is a bbolt file: pages, each beginning with its own number, a type and a count;
// branch pages point to pages, leaf pages hold keys, values and buckets (a page number, or a
// small page inside the value). bbolt maps the file and follows pointers without asking; a
// garbled page there is a crash that nobody can catch. This walk follows the same pointers with
// every bound checked, and reads nothing that it was not told to read.
const (
	boltMagic   = 0xED0CDAED
	boltVersion = 2
	pageHead    = 16
	elemHead    = 16
	bucketHead  = 16

	flagBranch = 0x01
	flagLeaf   = 0x02
	leafBucket = 0x01

	maxDepth     = 64
	maxPageBytes = 1 << 30
)

// checkDB walks a database file and gives the last raft entry it has seen. An absent or empty
// file has seen none.
func checkDB(path string) (uint64, error) {
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if st.Size() == 0 {
		return 0, nil
	}
	return readDB(f, st.Size())
}

func readDB(f io.ReaderAt, size int64) (uint64, error) {
	w := &walk{file: f, size: size}
	root, err := w.meta()
	if err != nil {
		return 0, err
	}
	w.seen = make([]uint64, w.high/64+1)
	if err := w.page(root, nil, 0); err != nil {
		return 0, err
	}
	return w.consistent, nil
}

type walk struct {
	file       io.ReaderAt
	size       int64
	pageSize   int64
	high       uint64   // pages at and above it are not in use
	seen       []uint64 // a bit a page: a second visit is a loop or a double use
	consistent uint64
}

// meta picks the newer of the two valid meta pages, as bbolt does.
func (w *walk) meta() (root uint64, err error) {
	var newest uint64
	found := false
	for _, guess := range []int64{0, 4096, 8192, 16384, 32768, 65536} {
		m, ok := w.metaAt(guess)
		if !ok || (found && m.txid < newest) {
			continue
		}
		found, newest, root = true, m.txid, m.root
		w.pageSize, w.high = m.pageSize, m.high
	}
	if !found {
		return 0, errors.New("both meta pages are invalid")
	}
	// Without fsync the file may end before pages that were only ever free.
	w.high = min(w.high, uint64(w.size/w.pageSize))
	return root, nil
}

type metaPage struct {
	pageSize         int64
	root, high, txid uint64
}

func (w *walk) metaAt(off int64) (metaPage, bool) {
	var b [pageHead + 64]byte
	if _, err := w.file.ReadAt(b[:], off); err != nil {
		return metaPage{}, false
	}
	m := b[pageHead:]
	sum := fnv.New64a()
	sum.Write(m[:56])
	ps := int64(binary.LittleEndian.Uint32(m[8:]))
	if binary.LittleEndian.Uint32(m) != boltMagic || binary.LittleEndian.Uint32(m[4:]) != boltVersion ||
		sum.Sum64() != binary.LittleEndian.Uint64(m[56:]) || ps < 512 || ps > 1<<20 || (off != 0 && off != ps) {
		return metaPage{}, false
	}
	return metaPage{
		pageSize: ps,
		root:     binary.LittleEndian.Uint64(m[16:]),
		high:     binary.LittleEndian.Uint64(m[40:]),
		txid:     binary.LittleEndian.Uint64(m[48:]),
	}, true
}

// page reads one page with its overflow and walks it. bucket is the name of the top bucket it
// belongs to, nil in the root.
func (w *walk) page(id uint64, bucket []byte, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("page %d: deeper than any tree", id)
	}
	var head [pageHead]byte
	if id < 2 || id >= w.high {
		return fmt.Errorf("page %d is outside the %d pages in use", id, w.high)
	}
	if _, err := w.file.ReadAt(head[:], int64(id)*w.pageSize); err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	pages := uint64(binary.LittleEndian.Uint32(head[12:])) + 1
	length := int64(pages) * w.pageSize
	if pages > w.high-id || length > maxPageBytes || int64(id)*w.pageSize+length > w.size {
		return fmt.Errorf("page %d with %d pages ends outside the file", id, pages)
	}
	for i := id; i < id+pages; i++ {
		if w.seen[i/64]&(1<<(i%64)) != 0 {
			return fmt.Errorf("page %d is used twice", i)
		}
		w.seen[i/64] |= 1 << (i % 64)
	}
	if got := binary.LittleEndian.Uint64(head[:]); got != id {
		return fmt.Errorf("page %d says that it is page %d", id, got)
	}
	buf := make([]byte, length)
	if _, err := w.file.ReadAt(buf, int64(id)*w.pageSize); err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	if err := w.content(buf, bucket, depth); err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	return nil
}

func (w *walk) content(buf, bucket []byte, depth int) error {
	if len(buf) < pageHead {
		return errors.New("shorter than a page's head")
	}
	flags := binary.LittleEndian.Uint16(buf[8:])
	count := int(binary.LittleEndian.Uint16(buf[10:]))
	if pageHead+count*elemHead > len(buf) {
		return fmt.Errorf("%d elements do not fit", count)
	}
	if flags != flagBranch && flags != flagLeaf {
		return fmt.Errorf("unexpected type %#x", flags)
	}
	var before []byte
	for i := range count {
		off := pageHead + i*elemHead
		e := buf[off : off+elemHead]
		key, value, err := element(buf, off, e, flags)
		if err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
		if i > 0 && bytes.Compare(before, key) >= 0 {
			return fmt.Errorf("element %d: keys out of order", i)
		}
		before = key
		if flags == flagBranch {
			err = w.page(binary.LittleEndian.Uint64(e[8:]), bucket, depth+1)
		} else {
			err = w.leaf(binary.LittleEndian.Uint32(e)&leafBucket != 0, key, value, bucket, depth)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// element cuts key and value out of a page; positions count from the element itself.
func element(buf []byte, off int, e []byte, flags uint16) (key, value []byte, err error) {
	var pos, klen, vlen uint64
	if flags == flagBranch {
		pos, klen = uint64(binary.LittleEndian.Uint32(e)), uint64(binary.LittleEndian.Uint32(e[4:]))
	} else {
		pos, klen = uint64(binary.LittleEndian.Uint32(e[4:])), uint64(binary.LittleEndian.Uint32(e[8:]))
		vlen = uint64(binary.LittleEndian.Uint32(e[12:]))
	}
	start := uint64(off) + pos
	if start+klen+vlen > uint64(len(buf)) {
		return nil, nil, errors.New("ends outside the page")
	}
	return buf[start : start+klen], buf[start+klen : start+klen+vlen], nil
}

func (w *walk) leaf(isBucket bool, key, value, bucket []byte, depth int) (err error) {
	if !isBucket {
		if string(bucket) == "meta" && string(key) == "consistent_index" {
			w.consistent, err = beUint64(value)
		}
		return err
	}
	if len(value) < bucketHead {
		return errors.New("a bucket without a head")
	}
	if bucket != nil {
		return errors.New("a bucket inside a bucket, which etcd never makes")
	}
	bucket = bytes.Clone(key)
	if root := binary.LittleEndian.Uint64(value); root != 0 {
		return w.page(root, bucket, depth+1)
	}
	return w.content(value[bucketHead:], bucket, depth+1)
}
