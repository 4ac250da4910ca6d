package bundle

import (
	"archive/tar"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
	"time"

	"github.com/zeebo/blake3"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// The entries: etcd's snapshot, SQLite's file or PostgreSQL's copy, and one for each object below Blobs.
const (
	Etcd    = "etcd.snapshot"
	History = "history.db"
	Copy    = "history.copy"
	Blobs   = "blobs/"
)

const (
	// Format is at least that of the data folder: who must not open one must not restore it either. From 4 on there are sums.
	Format       = 4
	firstSealed  = 4
	manifestName = "manifest.json"
	endName      = "end.json"
	sumsFolder   = "sums/"
	sumsEvery    = 1000
	maxNote      = 1 << 16
	maxSums      = 4 << 20
)

// Manifest is the first entry.
type Manifest struct {
	Format  int       `json:"format"`
	Version string    `json:"version"`
	Taken   time.Time `json:"taken"`
	// SecretKeys are the fingerprints of the keys that open the secrets inside, the one of now first; none before format 4.
	SecretKeys []string `json:"secretKeys,omitempty"`
}

// Sealed says that the backup can be verified.
func (m Manifest) Sealed() bool { return m.Format >= firstSealed }

type end struct {
	Entries int    `json:"entries"`
	Bytes   int64  `json:"bytes"`
	Sum     string `json:"sum"`
}

// Summary is what a whole backup held.
type Summary struct {
	Manifest
	Entries int
	Bytes   int64
}

// tally adds up entries, the same way at both ends.
type tally struct {
	lines   bytes.Buffer // since the last sums
	open    int
	all     hash.Hash
	parts   int
	entries int
	bytes   int64
}

func (t *tally) add(name string, size int64, sum []byte) {
	fmt.Fprintf(&t.lines, "%x %d %q\n", sum, size, name)
	t.open++
	t.entries++
	t.bytes += size
}

// part ends a run of entries.
func (t *tally) part() (name string, lines []byte) {
	lines = bytes.Clone(t.lines.Bytes())
	_, _ = t.all.Write(lines) // never fails
	t.parts++
	t.open = 0
	t.lines.Reset()
	return fmt.Sprintf("%s%06d", sumsFolder, t.parts), lines
}

func (t *tally) end() end { return end{t.entries, t.bytes, hex.EncodeToString(t.all.Sum(nil))} }

// Writer writes one. Nothing is a backup without Close.
type Writer struct {
	t     *tar.Writer
	tally tally
}

// NewWriter begins with the manifest.
func NewWriter(w io.Writer, m Manifest) (*Writer, error) {
	out := &Writer{t: tar.NewWriter(w), tally: tally{all: blake3.New()}}
	note, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	return out, out.Add(manifestName, int64(len(note)), time.Time{}, bytes.NewReader(note))
}

// Add writes exactly size bytes of r.
func (w *Writer) Add(name string, size int64, modified time.Time, r io.Reader) error {
	if err := w.t.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: size, ModTime: modified, Format: tar.FormatPAX}); err != nil {
		return err
	}
	sum := blake3.New()
	if _, err := io.CopyN(io.MultiWriter(w.t, sum), r, size); err != nil {
		return err
	}
	if w.tally.add(name, size, sum.Sum(nil)); w.tally.open < sumsEvery {
		return nil
	}
	return w.sums()
}

func (w *Writer) sums() error {
	name, lines := w.tally.part()
	return w.plain(name, lines)
}

// plain writes an entry that no line stands for.
func (w *Writer) plain(name string, content []byte) error {
	if err := w.t.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(content))}); err != nil {
		return err
	}
	_, err := w.t.Write(content)
	return err
}

// Close writes the end.
func (w *Writer) Close() error {
	if err := w.sums(); err != nil {
		return err
	}
	note, err := json.Marshal(w.tally.end())
	if err != nil {
		return err
	}
	return errors.Join(w.plain(endName, note), w.t.Close())
}

// Read hands out the entries in order. accept hears the manifest first and may refuse; take reads an entry, whose bytes
// are verified only later: what it makes of them must not count before Read has ended well.
func Read(r io.Reader, accept func(Manifest) error, take func(name string, r io.Reader) error) (Summary, error) {
	b := &reader{t: tar.NewReader(r), tally: tally{all: blake3.New()}, take: take}
	if err := b.first(accept); err != nil {
		return b.sum, err
	}
	for {
		done, err := b.next()
		if err != nil {
			return b.sum, err
		}
		if done {
			break
		}
	}
	b.sum.Entries, b.sum.Bytes = b.tally.entries, b.tally.bytes
	// An encrypted one proves only at its very end that it was not cut.
	if _, err := io.Copy(io.Discard, r); err != nil {
		return b.sum, bad(b.last, err)
	}
	return b.sum, nil
}

type reader struct {
	t     *tar.Reader
	tally tally
	take  func(string, io.Reader) error
	sum   Summary
	last  string // entry
}

func (b *reader) first(accept func(Manifest) error) error {
	h, err := b.t.Next()
	if err != nil {
		return bad("", err)
	}
	if b.last = h.Name; h.Name != manifestName {
		return bad("", fmt.Errorf("first entry is %q", h.Name))
	}
	raw, err := io.ReadAll(io.LimitReader(b.t, maxNote))
	if err == nil {
		err = json.Unmarshal(raw, &b.sum.Manifest)
	}
	if err != nil {
		return bad(h.Name, err)
	}
	if b.sum.Format > Format {
		return fault.New(fault.Invalid, "NewerBackup", fault.T("This backup was made by fermi %s, which is newer.", "该备份由更新的 fermi %s 创建。", b.sum.Version)).
			WithHint(fault.T("Restore it with that version.", "请用该版本恢复。"))
	}
	sum := blake3.Sum256(raw)
	b.tally.add(h.Name, int64(len(raw)), sum[:])
	return accept(b.sum.Manifest)
}

// next takes one entry; done: it was the last.
func (b *reader) next() (done bool, err error) {
	h, err := b.t.Next()
	if errors.Is(err, io.EOF) && !b.sum.Sealed() {
		return true, nil
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("it has no end")
	}
	if err != nil {
		return false, bad(b.last, err)
	}
	if h.Typeflag != tar.TypeReg {
		return false, bad(h.Name, errors.New("it is no file"))
	}
	switch seals := strings.HasPrefix(h.Name, sumsFolder); {
	case (seals || h.Name == endName) && !b.sum.Sealed():
		return false, bad(manifestName, fmt.Errorf("format %d has no %s", b.sum.Format, h.Name))
	case seals:
		return false, b.checkSums(h.Name)
	case h.Name == endName:
		return true, b.checkEnd()
	}
	b.last = h.Name
	sum := blake3.New()
	body := &watched{r: io.TeeReader(b.t, sum)}
	err = b.take(h.Name, body)
	if err == nil {
		_, err = io.Copy(io.Discard, body)
	}
	if body.err != nil { // the file ended in the middle
		return false, bad(h.Name, body.err)
	}
	b.tally.add(h.Name, h.Size, sum.Sum(nil))
	return false, err
}

func (b *reader) checkSums(name string) error {
	raw, err := io.ReadAll(io.LimitReader(b.t, maxSums))
	if err != nil {
		return bad(b.last, err)
	}
	want, lines := b.tally.part()
	if name == want && bytes.Equal(raw, lines) {
		return nil
	}
	told, have := strings.SplitAfter(string(raw), "\n"), strings.SplitAfter(string(lines), "\n")
	for i := range have { // the first that differs
		if i >= len(told) || told[i] != have[i] {
			var sum, entry string
			var size int64
			if _, err := fmt.Sscanf(have[i], "%s %d %q", &sum, &size, &entry); err != nil {
				break
			}
			return bad(entry, errors.New("its checksum does not fit"))
		}
	}
	return bad(name, fmt.Errorf("it is not %s", want))
}

func (b *reader) checkEnd() error {
	raw, err := io.ReadAll(io.LimitReader(b.t, maxNote))
	var told end
	if err == nil {
		err = json.Unmarshal(raw, &told)
	}
	if have := b.tally.end(); err == nil && (told != have || b.tally.open > 0) {
		err = fmt.Errorf("%d entries of %d", have.Entries, told.Entries)
	}
	if err != nil {
		return bad(endName, err)
	}
	return nil
}

// watched remembers why the backup could not be read, whatever becomes of the error.
type watched struct {
	r   io.Reader
	err error
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		w.err = err
	}
	return n, err
}

// Bad says that this is no whole backup.
func Bad(cause error) error { return bad("", cause) }

func bad(entry string, cause error) error {
	text := fault.T("This is not a whole Fermi backup; nothing was changed.", "这不是完整的 Fermi 备份，未做任何改动。")
	if entry != "" {
		text = fault.T("The backup is damaged or cut at or behind its entry %s; nothing was changed.", "备份已损坏或被截断，位置在条目 %s 或其后；未做任何改动。", entry)
	}
	return fault.New(fault.Invalid, "BadBackup", text).WithHint(fault.T("Use another backup.", "请改用其他备份。")).Because(cause)
}
