package ckpt

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/zeebo/blake3"

	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/ckpt/tensor"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Version is the newest format this program reads, and the one it writes.
const Version = 1

// Bounds of what is read from outside.
const (
	MaxWorld    = 1 << 20
	MaxTree     = 64 << 20
	maxCount    = 1<<63 - 1
	maxManifest = 256 << 20
	maxPart     = 1 << 30
	maxMetrics  = 64

	// chunkMax is the most bytes of a chunk.
	chunkMax = 4 << 20
)

// Hash is a BLAKE3 of 256 bits.
type Hash [32]byte

func sum(b []byte) Hash { return blake3.Sum256(b) }

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

// Chunk is a stretch of a rank's data and tree. Without a pack it lies where another rank of the
// same checkpoint says.
type Chunk struct {
	Hash  Hash   `json:"hash"`
	Bytes uint32 `json:"bytes"`
	Pack  *int   `json:"pack,omitempty"` // which of Part.Packs
	At    uint64 `json:"at,omitempty"`
}

// Part is what one rank has of a checkpoint. Its chunks, one after the other, are its data and its tree.
type Part struct {
	Version    int             `json:"version"`
	Generation uint64          `json:"generation"`
	Step       uint64          `json:"step"`
	Rank       uint32          `json:"rank"`
	World      uint32          `json:"world"`
	Data       uint64          `json:"data"`
	Tree       uint64          `json:"tree"`
	Tensors    []tensor.Tensor `json:"tensors"`
	Packs      []string        `json:"packs"`
	Chunks     []Chunk         `json:"chunks"`
}

// PartRef names a part that is durable.
type PartRef struct {
	Rank  uint32 `json:"rank"`
	Key   string `json:"key"`
	Bytes int64  `json:"bytes"`
	Hash  Hash   `json:"hash"`
	// Lease protects what the part relies on until the checkpoint is committed.
	Lease string `json:"lease"`
	// Size is what the rank's state takes, New what had to be written for it.
	Size uint64 `json:"size"`
	New  uint64 `json:"new"`
}

// Manifest makes a checkpoint exist.
type Manifest struct {
	Version    int                `json:"version"`
	Generation uint64             `json:"generation"`
	Step       uint64             `json:"step"`
	World      uint32             `json:"world"`
	Metrics    map[string]float64 `json:"metrics,omitempty"`
	Parts      []PartRef          `json:"parts"` // by rank
}

// Name is the checkpoint's own: by generation, then by step, as keys sort.
func (m *Manifest) Name() string { return manifestName(m.Generation, m.Step) }

func manifestName(generation, step uint64) string {
	return fmt.Sprintf("%019d-%019d", generation, step)
}

// encodeManifest writes the JSON and, on a line of its own, its BLAKE3: a manifest is read alone, and
// nobody else holds its sum.
func encodeManifest(m *Manifest) []byte {
	raw, err := json.Marshal(m)
	if err != nil {
		panic("a manifest: " + err.Error()) // numbers that are not finite were refused before
	}
	return append(raw, "\n"+sum(raw).String()+"\n"...)
}

// DecodeManifest reads a manifest from outside.
func DecodeManifest(raw []byte) (*Manifest, error) {
	const tail = 1 + 64 + 1
	if len(raw) < tail || raw[len(raw)-1] != '\n' || raw[len(raw)-tail] != '\n' {
		return nil, damaged("a manifest is torn", "清单不完整")
	}
	body := raw[:len(raw)-tail]
	if sum(body).String() != string(raw[len(raw)-tail+1:len(raw)-1]) {
		return nil, damaged("a manifest does not match its sum", "清单与其校验和不符")
	}
	m := &Manifest{}
	if err := decodeStrict(body, m); err != nil {
		return nil, err
	}
	return m, m.check()
}

func (m *Manifest) check() error {
	bad := m.Version < 1 || m.World == 0 || m.World > MaxWorld || m.Step == 0 || m.Step > maxCount || m.Generation > maxCount ||
		len(m.Parts) != int(m.World) || len(m.Metrics) > maxMetrics
	for i, p := range m.Parts {
		bad = bad || p.Rank != uint32(i) || p.Bytes < 0 || p.Bytes > maxPart || !ownKey(p.Key, partsDir) ||
			p.Lease != "" && !ownKey(leasesDir+p.Lease, leasesDir) || p.Size > tensor.MaxData+MaxTree || p.New > p.Size
	}
	if bad {
		return damaged("a manifest contradicts itself", "清单自相矛盾")
	}
	return nil
}

// decodePart reads a part from outside.
func decodePart(raw []byte) (*Part, error) {
	p := &Part{}
	if err := decodeStrict(raw, p); err != nil {
		return nil, err
	}
	return p, p.check()
}

func (p *Part) check() error {
	wrong := damaged("the record of a rank contradicts itself", "某个进程的记录自相矛盾")
	if p.Version < 1 || p.World == 0 || p.World > MaxWorld || p.Rank >= p.World || p.Step == 0 || p.Step > maxCount ||
		p.Generation > maxCount || p.Data > tensor.MaxData || p.Tree == 0 || p.Tree > MaxTree {
		return wrong
	}
	for _, key := range p.Packs {
		if !ownKey(key, packsDir) {
			return wrong
		}
	}
	var all uint64
	for i := range p.Chunks {
		c := &p.Chunks[i]
		if c.Bytes == 0 || c.Bytes > chunkMax || c.At > maxCount || c.Pack != nil && (*c.Pack < 0 || *c.Pack >= len(p.Packs)) {
			return wrong
		}
		all += uint64(c.Bytes)
	}
	if all != p.Data+p.Tree {
		return wrong
	}
	for i := range p.Tensors {
		t := &p.Tensors[i]
		if err := t.Check(); err != nil {
			return wrong.Because(err)
		}
		if t.At > p.Data || t.Bytes > p.Data-t.At {
			return wrong
		}
	}
	return nil
}

// newerFormat is the reason where a newer Fermi wrote it.
const newerFormat = "NewerFormat"

// decodeStrict refuses what is newer by name, fields it does not know, and anything behind the end.
func decodeStrict(raw []byte, into any) error {
	var v struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return damaged("a record is no JSON", "记录不是有效的 JSON").Because(err)
	}
	if v.Version > Version {
		return fault.New(fault.Invalid, newerFormat, fault.T(
			"Its format %d is newer than this Fermi reads (up to %d).", "其格式版本 %d 高于本 Fermi 可读取的版本（最高 %d）。", v.Version, Version)).
			WithHint(fault.T("Use the version of Fermi that wrote it, or a newer one.", "请使用写入它的 Fermi 版本或更新的版本。"))
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return damaged("a record cannot be read", "记录无法读取").Because(err)
	}
	if _, err := d.Token(); err != io.EOF {
		return damaged("there is something behind a record", "记录之后有多余内容")
	}
	return nil
}

func damaged(en, zh string) *fault.Error {
	return fault.New(fault.Invalid, "Damaged", fault.Text{EN: "The checkpoint is damaged: " + en + ".", ZH: "检查点已损坏：" + zh + "。"})
}

// ownKey says that a key names an object in this folder of the repository, and none outside of it.
func ownKey(key, dir string) bool {
	return strings.HasPrefix(key, dir) && blob.CheckKey(key) == nil
}
