package asset

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/zeebo/blake3"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// Format is the newest form of manifests, and the one that is written.
const Format = 1

// Bounds of a manifest.
const (
	MaxManifest = 256 << 20 // bytes of it
	MaxFiles    = 1 << 20
	MaxChunks   = 1 << 20
	MaxPath     = 1024
	maxSegment  = 255
	maxTag      = 256
	// ChunkMax is the most bytes of a chunk.
	ChunkMax = 4 << 20
)

// Hash is a BLAKE3 of 256 bits.
type Hash [32]byte

// Sum is the hash of some bytes.
func Sum(b []byte) Hash { return blake3.Sum256(b) }

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText is lower-case hexadecimal.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText takes nothing else.
func (h *Hash) UnmarshalText(b []byte) error {
	if len(b) != 2*len(h) || strings.ToLower(string(b)) != string(b) {
		return fmt.Errorf("a hash is 64 hexadecimal digits in lower case")
	}
	_, err := hex.Decode(h[:], b)
	return err
}

// ParseHash reads a hash as it is written in a path.
func ParseHash(text string) (h Hash, err error) {
	if err := h.UnmarshalText([]byte(text)); err != nil {
		return h, fault.New(fault.Invalid, "BadHash", fault.T("%.100q is no BLAKE3 in hexadecimal.", "%.100q 不是十六进制的 BLAKE3。", text)).Because(err)
	}
	return h, nil
}

// File is one file of a version.
type File struct {
	Path string `json:"path"`
	Size int64  `json:"size"`
	Exec bool   `json:"exec,omitempty"`
	// Tag is how the source names this state of it, where the bytes lie elsewhere: an ETag, or a time.
	Tag string `json:"tag,omitempty"`
}

// Chunk is a stretch of the bytes of all files, one after the other.
type Chunk struct {
	Hash  Hash   `json:"hash"`
	Bytes uint32 `json:"bytes"`
}

// Manifest is what a version is: its files in the order of their paths, and the chunks that they are cut into. One without chunks
// refers to bytes that lie elsewhere.
type Manifest struct {
	Version int     `json:"version"`
	Files   []File  `json:"files"`
	Chunks  []Chunk `json:"chunks,omitempty"`
}

// Encode writes it; the second is its name.
func (m *Manifest) Encode() ([]byte, Hash) {
	raw, err := json.Marshal(m)
	if err != nil {
		panic("a manifest: " + err.Error()) // strings and numbers always encode
	}
	return raw, Sum(raw)
}

// Decode reads a manifest from outside, of a version whose bytes are kept.
func Decode(raw []byte) (*Manifest, error) { return decode(raw, false) }

// DecodeListing reads one of a version whose bytes lie elsewhere.
func DecodeListing(raw []byte) (*Manifest, error) { return decode(raw, true) }

func decode(raw []byte, elsewhere bool) (*Manifest, error) {
	if len(raw) > MaxManifest {
		return nil, bad("it is larger than %d bytes", "超过 %d 字节", MaxManifest)
	}
	var v struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, bad("it is no JSON", "不是有效的 JSON").Because(err)
	}
	if v.Version != Format {
		return nil, bad("its form %d is not known here; it should be %d", "不支持其格式版本 %d，应为 %d", v.Version, Format)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	m := &Manifest{}
	if err := d.Decode(m); err != nil {
		return nil, bad("it can't be read", "无法读取").Because(err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, bad("there is something behind it", "其后有多余内容")
	}
	return m, m.check(elsewhere)
}

func bad(en, zh string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, "BadManifest", fault.T("The list of files is refused: "+en+".", "文件清单被拒绝："+zh+"。", args...))
}

// check says whether it can be laid out, and adds up.
func (m *Manifest) check(elsewhere bool) error {
	if len(m.Files) == 0 || len(m.Files) > MaxFiles || len(m.Chunks) > MaxChunks {
		return bad("it must have 1 to %d files, and at most %d chunks", "应有 1 到 %d 个文件，最多 %d 个数据块", MaxFiles, MaxChunks)
	}
	var size int64
	for i := range m.Files {
		f := &m.Files[i]
		if err := CheckPath(f.Path); err != nil {
			return err
		}
		if f.Size < 0 || f.Size > 1<<50 || len(f.Tag) > maxTag {
			return bad("the size of %.200q is out of range", "%.200q 的大小超出范围", f.Path)
		}
		if size += f.Size; size > 1<<50 {
			return bad("it is too large", "过大")
		}
		if i > 0 {
			before := m.Files[i-1].Path
			if Compare(before, f.Path) >= 0 || strings.HasPrefix(f.Path, before+"/") {
				return bad("%.200q is out of order, twice there, or a file and a folder", "%.200q 顺序错误、重复，或同时是文件与目录", f.Path)
			}
		}
	}
	if elsewhere {
		if len(m.Chunks) > 0 {
			return bad("it has chunks, and its bytes lie elsewhere", "数据位于别处却含有数据块")
		}
		return nil
	}
	for i := range m.Chunks {
		n := m.Chunks[i].Bytes
		if n == 0 || n > ChunkMax {
			return bad("chunk %d has %d bytes; at most %d", "第 %d 个数据块为 %d 字节，最多 %d 字节", i, n, ChunkMax)
		}
		size -= int64(n)
	}
	if size != 0 {
		return bad("its chunks are not as long as its files", "数据块与文件的总长度不符")
	}
	return nil
}

// CheckPath refuses what leads out of a folder, or can't be shown.
func CheckPath(p string) error {
	if len(p) == 0 || len(p) > MaxPath || p == "." || !fs.ValidPath(p) || !utf8.ValidString(p) || strings.ContainsFunc(p, func(r rune) bool { return !unicode.IsPrint(r) || r == '\\' }) {
		return bad("%.200q is no path of a file: it must be relative, without \"..\", at most %d bytes of printable text", "%.200q 不是合法的文件路径：应为相对路径，不含 \"..\"，最多 %d 字节的可打印文本", p, MaxPath)
	}
	for seg := range strings.SplitSeq(p, "/") {
		if len(seg) > maxSegment {
			return bad("a name in %.200q is longer than %d bytes", "%.200q 中有名称超过 %d 字节", p, maxSegment)
		}
	}
	return nil
}

// Compare is the order of paths: that of a walk, in which what is in a folder follows it at once.
func Compare(a, b string) int {
	for i := 0; i < len(a) && i < len(b); i++ {
		if x, y := a[i], b[i]; x != y {
			switch {
			case x == '/':
				return -1
			case y == '/':
				return 1
			case x < y:
				return -1
			}
			return 1
		}
	}
	return len(a) - len(b)
}

// Size is the bytes of all files.
func (m *Manifest) Size() (n int64) {
	for i := range m.Files {
		n += m.Files[i].Size
	}
	return n
}

// Starts are where each file begins in the bytes of all.
func (m *Manifest) Starts() []int64 {
	out := make([]int64, len(m.Files)+1)
	for i := range m.Files {
		out[i+1] = out[i] + m.Files[i].Size
	}
	return out
}

// Find is a file by its path.
func (m *Manifest) Find(path string) (int, bool) {
	lo, hi := 0, len(m.Files)
	for lo < hi {
		mid := (lo + hi) / 2
		if Compare(m.Files[mid].Path, path) < 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, lo < len(m.Files) && m.Files[lo].Path == path
}
