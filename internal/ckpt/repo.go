package ckpt

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"path"
	"time"

	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/clock"
)

// The folders of a repository.
const (
	manifestsDir   = "manifests/"
	partsDir       = "parts/"
	packsDir       = "packs/"
	leasesDir      = "leases/"
	condemnedDir   = "condemned/"
	pinsDir        = "pins/"
	verdictsDir    = "verdicts/"
	generationsDir = "generations/"
	claimsDir      = "claims/"
	clockKey       = "clock"
)

// Store is what a repository needs of the port.
type Store interface {
	blob.Store
	blob.Creator
}

// Config says where a repository lies.
type Config struct {
	Store Store
	// Prefix is the folder in the store; one task's checkpoints in one tier.
	Prefix string
	Clock  clock.Clock
	// Grace is longer than a save may be silent: a lease that is older counts no more, and what
	// nobody names goes only after it. All who use a repository must have the same.
	Grace time.Duration
	// PackBytes is when a pack is full, ChunkBytes the most of a chunk; 64 and 4 MiB unless told.
	PackBytes, ChunkBytes int
}

// DefaultGrace is six hours.
const DefaultGrace = 6 * time.Hour

const packBytes = 64 << 20

// Repo is the checkpoints of one task in one tier. Several processes may use one. Safe for
// concurrent use.
type Repo struct{ objects }

// New checks the configuration; nothing is read or written.
func New(cfg Config) (*Repo, error) {
	if err := blob.CheckKey(cfg.Prefix); err != nil {
		return nil, err
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.Real
	}
	if cfg.Grace <= 0 {
		cfg.Grace = DefaultGrace
	}
	if cfg.PackBytes <= 0 {
		cfg.PackBytes = packBytes
	}
	if cfg.ChunkBytes <= 0 || cfg.ChunkBytes > chunkMax {
		cfg.ChunkBytes = chunkMax
	}
	return &Repo{objects{cfg}}, nil
}

// names gives the names of all checkpoints, oldest first.
func (r *Repo) names(ctx context.Context) ([]string, error) {
	found, err := r.list(ctx, manifestsDir)
	names := make([]string, 0, len(found))
	for _, o := range found {
		names = append(names, path.Base(o.name))
	}
	return names, err
}

// Manifest reads one by its name.
func (r *Repo) Manifest(ctx context.Context, name string) (*Manifest, error) {
	return twice(func() (*Manifest, error) { return r.readManifest(ctx, name) })
}

// twice reads again what was not as it was written: on the way from a store a bit may flip that lies there as it should.
func twice[T any](read func() (T, error)) (T, error) {
	v, err := read()
	if Lost(err) {
		v, err = read()
	}
	return v, err
}

func (r *Repo) readManifest(ctx context.Context, name string) (*Manifest, error) {
	raw, err := r.read(ctx, manifestsDir+name, maxManifest)
	if err != nil {
		return nil, err
	}
	m, err := DecodeManifest(raw)
	if err != nil {
		return nil, err
	}
	if m.Name() != name {
		return nil, damaged("a manifest lies under another's name", "清单的名称与内容不符")
	}
	return m, nil
}

// part reads what one rank has, checked against what the manifest says of it.
func (r *Repo) part(ctx context.Context, m *Manifest, rank uint32) (*Part, error) {
	return twice(func() (*Part, error) { return r.readPart(ctx, m, rank) })
}

func (r *Repo) readPart(ctx context.Context, m *Manifest, rank uint32) (*Part, error) {
	ref := m.Parts[rank]
	raw, err := r.read(ctx, ref.Key, maxPart)
	if err != nil {
		return nil, err
	}
	if int64(len(raw)) != ref.Bytes || sum(raw) != ref.Hash {
		return nil, damaged("the record "+ref.Key+" does not match its sum", "记录 "+ref.Key+" 与其校验和不符")
	}
	p, err := decodePart(raw)
	if err != nil {
		return nil, err
	}
	if p.Rank != rank || p.World != m.World || p.Step != m.Step || p.Generation != m.Generation {
		return nil, damaged("the record of a rank is of another checkpoint", "某个进程的记录属于另一个检查点")
	}
	return p, nil
}

// newID names a save.
func newID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// spread puts a name into one of 256 folders: many ranks that save at once share no hot one.
func spread(dir, name string) string {
	h := sum([]byte(name))
	return dir + hex.EncodeToString(h[:1]) + "/" + name
}

func mustJSON(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic("a record: " + err.Error())
	}
	return raw
}
