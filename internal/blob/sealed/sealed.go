package sealed

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/zeebo/blake3"

	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/fault"
)

const (
	// block is what one hash covers: the least that is read to give a byte.
	block   = 1 << 20
	sumSize = 16
	// maxSums bounds what is read of a file of sums: objects of 16 TiB.
	maxSums = 512 << 20
	// maxVersions is how many contents may be on their way at once, by uploads that all failed.
	maxVersions = 4

	sumsFolder = "sums/"
)

// sums are those of one object. Several versions stand there while one replaces the other.
type sums struct {
	Key      string    `json:"key"`
	Block    int64     `json:"block"`
	Versions []version `json:"versions"`
}

type version struct {
	Size int64  `json:"size"`
	Sums []byte `json:"sums"`
}

func (v *version) same(o *version) bool { return v.Size == o.Size && bytes.Equal(v.Sums, o.Sums) }

// sumsKey is where an object's sums are: in a folder like the object's, two names deep, so that they can be deleted
// together, under a name of fixed length.
func sumsKey(key string) string {
	parts := strings.SplitN(key, "/", 3)
	sum := blake3.Sum256([]byte(key))
	return sumsFolder + strings.Join(parts[:min(2, len(parts)-1)], "/") + "/" + hex.EncodeToString(sum[:sumSize])
}

// Put writes or replaces an object with its sums.
func Put(ctx context.Context, s blob.Store, key string, r io.Reader) error {
	if err := blob.CheckKey(key); err != nil {
		return err
	}
	before, err := read(ctx, s, key)
	if err != nil && !fault.Is(err, fault.NotFound) && fault.ReasonOf(err) != "Damaged" { // bad sums are replaced
		return err
	}
	w := &sealing{r: r, hash: newHash()}
	var old []version
	w.end = func() error {
		old = w.versions(before)
		return write(ctx, s, key, append([]version{w.version()}, old...))
	}
	if _, err := s.Put(ctx, key, w); err != nil || len(old) == 0 {
		return err
	}
	return write(ctx, s, key, []version{w.version()})
}

// Delete removes all objects below a folder, such as outputs/TASK/, and their sums; it may be said again.
func Delete(ctx context.Context, s blob.Store, prefix string) error {
	if strings.Count(prefix, "/") != 2 || !strings.HasSuffix(prefix, "/") {
		return fmt.Errorf("sealed: %q is no folder of two names", prefix)
	}
	return errors.Join(s.Delete(ctx, prefix), s.Delete(ctx, sumsFolder+prefix))
}

// sealing hashes what is read, and writes the sums when it has seen all and before the store puts the object in place.
type sealing struct {
	r     io.Reader
	hash  *hash
	ended bool
	end   func() error
}

func (w *sealing) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	w.hash.add(p[:n])
	if errors.Is(err, io.EOF) && !w.ended {
		w.ended = true
		w.hash.flush()
		if bad := w.end(); bad != nil {
			return n, bad
		}
	}
	return n, err
}

func (w *sealing) version() version { return version{Size: w.hash.size, Sums: w.hash.sums} }

// versions are those of before that are not the new one.
func (w *sealing) versions(before *sums) (out []version) {
	if before == nil {
		return nil
	}
	now := w.version()
	for i := range before.Versions {
		if v := before.Versions[i]; !v.same(&now) && len(out) < maxVersions-1 {
			out = append(out, v)
		}
	}
	return out
}

// hash makes a sum of each block.
type hash struct {
	h    *blake3.Hasher
	in   int // bytes of the block under way
	size int64
	sums []byte
}

func newHash() *hash { return &hash{h: blake3.New()} }

func (h *hash) add(p []byte) {
	h.size += int64(len(p))
	for len(p) > 0 {
		n := min(len(p), block-h.in)
		_, _ = h.h.Write(p[:n]) // never fails
		h.in, p = h.in+n, p[n:]
		if h.in == block {
			h.flush()
		}
	}
}

func (h *hash) flush() {
	if h.in > 0 {
		h.sums = append(h.sums, h.h.Sum(nil)[:sumSize]...)
		h.h.Reset()
		h.in = 0
	}
}

// write puts the sums down: one line, and the hash of that line.
func write(ctx context.Context, s blob.Store, key string, versions []version) error {
	line, err := json.Marshal(sums{key, block, versions})
	if err != nil {
		return err
	}
	sum := blake3.Sum256(line)
	_, err = s.Put(ctx, sumsKey(key), bytes.NewReader(fmt.Appendf(line, "\n%x\n", sum[:sumSize])))
	return err
}

// read fails with fault NotFound where there are none, and with Damaged where they can't be trusted.
func read(ctx context.Context, s blob.Store, key string) (*sums, error) {
	r, _, err := s.Open(ctx, sumsKey(key))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	raw, err := io.ReadAll(io.LimitReader(r, maxSums))
	if err != nil {
		return nil, err
	}
	line, sum, _ := bytes.Cut(raw, []byte{'\n'})
	want := blake3.Sum256(line)
	var out sums
	switch {
	case string(sum) != fmt.Sprintf("%x\n", want[:sumSize]):
		err = errors.New("the sums do not fit their own")
	default:
		err = json.Unmarshal(line, &out)
	}
	if err == nil && (out.Key != key || out.Block != block) {
		err = fmt.Errorf("sums of %q by %d bytes", out.Key, out.Block)
	}
	if err != nil {
		return nil, fault.New(fault.Internal, "Damaged", fault.T(
			"The checksums of %s are damaged, so that its bytes can't be verified.", "%s 的校验和已损坏，无法校验其内容。", key)).
			WithHint(rescue()).Because(err)
	}
	return &out, nil
}

func rescue() fault.Text {
	return fault.T("Restore it from a backup, or take the bytes as they are with ?unverified=true (fermi train outputs --unverified).",
		"请从备份恢复，或用 ?unverified=true（fermi train outputs --unverified）按原样取出。")
}

func damaged(key string, at, size int64, cause error) *fault.Error {
	return fault.New(fault.Internal, "Damaged", fault.T(
		"%s is damaged: bytes %d to %d are not those that were stored.", "%s 已损坏：第 %d 至 %d 字节与存入时不一致。", key, at, at+size)).
		WithHint(rescue()).Because(cause)
}
