package asset

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"path"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fermi-cluster/fermi/api/v1/asset"
	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Under is the folder of all projects.
const Under = "assets/"

// Grace is how long an upload may take, and what nobody names stays.
const Grace = 24 * time.Hour

// lookers is how many chunks are looked for at once.
const lookers = 16

// Repo keeps the assets of all projects. Safe for concurrent use; several servers may use one folder.
type Repo struct {
	blob  blob.Store
	clock clock.Clock
	grace time.Duration

	// mu parts uploads that begin from collectors that delete, in this process.
	mu sync.RWMutex
}

// New reads and writes nothing. grace 0 is Grace.
func New(b blob.Store, c clock.Clock, grace time.Duration) *Repo {
	if grace <= 0 {
		grace = Grace
	}
	return &Repo{blob: b, clock: c, grace: grace}
}

func chunkKey(project string, h asset.Hash) string {
	name := h.String()
	return Under + project + "/chunks/" + name[:2] + "/" + name
}

func manifestKey(project, digest string) string { return Under + project + "/manifests/" + digest }
func uploadKey(project, digest string) string   { return Under + project + "/uploads/" + digest }
func condemnedKey(project string) string        { return Under + project + "/condemned" }

// Begin writes an upload down and says which of its chunks are not there, each once, in order.
func (r *Repo) Begin(ctx context.Context, project string, raw []byte) (m *asset.Manifest, digest string, missing []int, err error) {
	if m, err = asset.Decode(raw); err != nil {
		return nil, "", nil, err
	}
	digest = asset.Sum(raw).String()
	if _, err := r.blob.Put(ctx, uploadKey(project, digest), bytes.NewReader(raw)); err != nil {
		return nil, "", nil, err
	}
	r.mu.Lock()
	err = r.reprieve(ctx, project, m)
	r.mu.Unlock()
	if err != nil {
		return nil, "", nil, err
	}
	missing, err = r.missing(ctx, project, m)
	return m, digest, missing, err
}

// BeginListing writes down what a version by reference shall be; there is nothing to send.
func (r *Repo) BeginListing(ctx context.Context, project string, raw []byte) (m *asset.Manifest, digest string, err error) {
	if m, err = asset.DecodeListing(raw); err != nil {
		return nil, "", err
	}
	digest = asset.Sum(raw).String()
	_, err = r.blob.Put(ctx, uploadKey(project, digest), bytes.NewReader(raw))
	return m, digest, err
}

// missing looks for every chunk of a manifest.
func (r *Repo) missing(ctx context.Context, project string, m *asset.Manifest) ([]int, error) {
	gone := make([]bool, len(m.Chunks))
	seen := map[asset.Hash]bool{}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(lookers)
	for i, c := range m.Chunks {
		if seen[c.Hash] {
			continue
		}
		seen[c.Hash] = true
		group.Go(func() error {
			there, err := r.has(ctx, project, c)
			gone[i] = !there
			return err
		})
	}
	err := group.Wait()
	out := []int{}
	for i, is := range gone {
		if is {
			out = append(out, i)
		}
	}
	return out, err
}

func (r *Repo) has(ctx context.Context, project string, c asset.Chunk) (bool, error) {
	in, info, err := r.blob.Open(ctx, chunkKey(project, c.Hash))
	switch {
	case fault.Is(err, fault.NotFound):
		return false, nil
	case err != nil:
		return false, err
	}
	return info.Size == int64(c.Bytes), in.Close()
}

// Has says whether a chunk is there.
func (r *Repo) Has(ctx context.Context, project string, h asset.Hash) (bool, error) {
	in, _, err := r.blob.Open(ctx, chunkKey(project, h))
	switch {
	case fault.Is(err, fault.NotFound):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, in.Close()
}

// PutChunk keeps a chunk whose name was given. It is durable when this returns.
func (r *Repo) PutChunk(ctx context.Context, project string, h asset.Hash, p []byte) error {
	if got := asset.Sum(p); got != h || len(p) == 0 || len(p) > asset.ChunkMax {
		return fault.New(fault.Invalid, "BadChunk", fault.T("The bytes are not those of chunk %s; they were damaged on the way.", "数据与数据块 %s 不符，可能在传输中损坏。", h))
	}
	_, err := r.blob.Put(ctx, chunkKey(project, h), bytes.NewReader(p))
	return err
}

// Upload reads what Begin wrote down, or BeginListing of what lies elsewhere; fault NotFound where it is too old.
func (r *Repo) Upload(ctx context.Context, project, digest string, elsewhere bool) (*asset.Manifest, []byte, error) {
	raw, err := r.whole(ctx, uploadKey(project, digest))
	if fault.Is(err, fault.NotFound) {
		return nil, nil, fault.New(fault.NotFound, "NoUpload", fault.T("There is no such upload; begin it again.", "没有此次上传，请重新开始。"))
	}
	if err != nil {
		return nil, nil, err
	}
	if asset.Sum(raw).String() != digest {
		return nil, nil, damaged("the list of its files")
	}
	return decoded(raw, elsewhere)
}

func decoded(raw []byte, elsewhere bool) (m *asset.Manifest, same []byte, err error) {
	if elsewhere {
		m, err = asset.DecodeListing(raw)
	} else {
		m, err = asset.Decode(raw)
	}
	return m, raw, err
}

// Complete makes an upload ready to be a version: all of its chunks are there, its manifest stays. missing is what is not there.
func (r *Repo) Complete(ctx context.Context, project string, m *asset.Manifest, raw []byte) (missing []int, err error) {
	if missing, err = r.missing(ctx, project, m); err != nil || len(missing) > 0 {
		return missing, err
	}
	return nil, r.PutManifest(ctx, project, raw)
}

// PutManifest keeps a manifest, or the listing of a version by reference.
func (r *Repo) PutManifest(ctx context.Context, project string, raw []byte) error {
	_, err := r.blob.Put(ctx, manifestKey(project, asset.Sum(raw).String()), bytes.NewReader(raw))
	return err
}

// Forget takes back what was written down of an upload.
func (r *Repo) Forget(ctx context.Context, project, digest string) error {
	return r.blob.Delete(ctx, uploadKey(project, digest))
}

// Manifest reads that of a version, and its bytes.
func (r *Repo) Manifest(ctx context.Context, project, digest string, elsewhere bool) (*asset.Manifest, []byte, error) {
	raw, err := r.whole(ctx, manifestKey(project, digest))
	if err != nil {
		return nil, nil, err
	}
	if asset.Sum(raw).String() != digest {
		return nil, nil, damaged("the list of its files")
	}
	return decoded(raw, elsewhere)
}

func (r *Repo) whole(ctx context.Context, key string) ([]byte, error) {
	in, info, err := r.blob.Open(ctx, key)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if info.Size > asset.MaxManifest {
		return nil, damaged(path.Base(key))
	}
	var out bytes.Buffer
	out.Grow(int(info.Size))
	if _, err := io.Copy(&out, io.LimitReader(in, asset.MaxManifest)); err != nil {
		return nil, fault.From(err)
	}
	return out.Bytes(), nil
}

// ReadChunk reads one into buf, verified. On a bad one it looks twice: a bit may have flipped on the way. One that is bad goes, so that the next
// upload sends it again.
func (r *Repo) ReadChunk(ctx context.Context, project string, c asset.Chunk, buf []byte) ([]byte, error) {
	p, err := r.readChunk(ctx, project, c, buf)
	if fault.ReasonOf(err) != "AssetDamaged" {
		return p, err
	}
	p, err = r.readChunk(ctx, project, c, buf)
	if fault.ReasonOf(err) == "AssetDamaged" {
		_ = r.blob.Delete(ctx, chunkKey(project, c.Hash)) // what fails is tried by the next reader
	}
	return p, err
}

func (r *Repo) readChunk(ctx context.Context, project string, c asset.Chunk, buf []byte) ([]byte, error) {
	in, info, err := r.blob.Open(ctx, chunkKey(project, c.Hash))
	if fault.Is(err, fault.NotFound) || err == nil && info.Size != int64(c.Bytes) {
		if err == nil {
			err = in.Close()
		}
		return nil, damaged("chunk " + c.Hash.String()).Because(err)
	}
	if err != nil {
		return nil, err
	}
	defer in.Close()
	p := buf[:c.Bytes]
	if _, err := io.ReadFull(in, p); err != nil {
		return nil, fault.From(err)
	}
	if asset.Sum(p) != c.Hash {
		return nil, damaged("chunk " + c.Hash.String())
	}
	return p, nil
}

func damaged(what string) *fault.Error {
	return fault.New(fault.Internal, "AssetDamaged", fault.T("What is stored of this version is damaged: %s.", "该版本存储的数据已损坏：%s。", what)).
		WithHint(fault.T("Upload it again: what is whole is not sent twice.", "请重新上传；完好的数据不会重复发送。"))
}

// Used is what the chunks and manifests of a project take.
func (r *Repo) Used(ctx context.Context, project string) (n int64, err error) {
	err = r.each(ctx, Under+project+"/", func(o blob.Info) { n += o.Size })
	return n, err
}

func (r *Repo) each(ctx context.Context, prefix string, do func(blob.Info)) error {
	const page = 1000
	for after := ""; ; {
		list, err := r.blob.List(ctx, prefix, after, page)
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, o := range list {
			do(o)
		}
		if len(list) < page {
			return nil
		}
		after = list[len(list)-1].Key
	}
}

// marks are the chunks that nobody named, and since when.
type marks map[string]time.Time

func (r *Repo) marks(ctx context.Context, project string) (marks, error) {
	raw, err := r.whole(ctx, condemnedKey(project))
	if fault.Is(err, fault.NotFound) {
		return marks{}, nil
	}
	out := marks{}
	if err != nil || json.Unmarshal(raw, &out) != nil { // torn: all wait anew
		return marks{}, err
	}
	return out, nil
}

func (r *Repo) putMarks(ctx context.Context, project string, m marks) error {
	if len(m) == 0 {
		return r.blob.Delete(ctx, condemnedKey(project))
	}
	raw, err := json.Marshal(m)
	if err == nil {
		_, err = r.blob.Put(ctx, condemnedKey(project), bytes.NewReader(raw))
	}
	return err
}

// reprieve takes what an upload relies on off the list.
func (r *Repo) reprieve(ctx context.Context, project string, m *asset.Manifest) error {
	have, err := r.marks(ctx, project)
	if err != nil || len(have) == 0 {
		return err
	}
	n := len(have)
	for _, c := range m.Chunks {
		delete(have, c.Hash.String())
	}
	if len(have) == n {
		return nil
	}
	return r.putMarks(ctx, project, have)
}

// Collect deletes what no version of a project and no young upload names, a grace after that was first seen. versions are the manifests of all
// versions that there are, asked for when uploads were read.
func (r *Repo) Collect(ctx context.Context, project string, versions func(context.Context) ([]string, error)) (deleted int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	var chunks, manifests []string
	if err := r.each(ctx, Under+project+"/chunks/", func(o blob.Info) { chunks = append(chunks, path.Base(o.Key)) }); err != nil {
		return 0, err
	}
	if err := r.each(ctx, Under+project+"/manifests/", func(o blob.Info) {
		if now.Sub(o.Modified) > r.grace {
			manifests = append(manifests, path.Base(o.Key))
		}
	}); err != nil {
		return 0, err
	}
	live := map[string]bool{}
	if err := r.uploads(ctx, project, now, live); err != nil {
		return 0, err
	}
	named, err := versions(ctx)
	if err != nil {
		return 0, err
	}
	for _, digest := range named {
		if err := r.addNamed(ctx, manifestKey(project, digest), live); err != nil {
			return 0, err // what can't be read names nothing, and nothing goes
		}
	}
	for _, digest := range manifests {
		if !slices.Contains(named, digest) {
			if err := r.blob.Delete(ctx, manifestKey(project, digest)); err != nil {
				return 0, err
			}
		}
	}
	return r.sweep(ctx, project, now, chunks, live)
}

// uploads adds what young ones name, and drops the others.
func (r *Repo) uploads(ctx context.Context, project string, now time.Time, live map[string]bool) error {
	var all []blob.Info
	if err := r.each(ctx, Under+project+"/uploads/", func(o blob.Info) { all = append(all, o) }); err != nil {
		return err
	}
	for _, o := range all {
		if now.Sub(o.Modified) > r.grace {
			if err := r.blob.Delete(ctx, o.Key); err != nil {
				return err
			}
			continue
		}
		if err := r.addNamed(ctx, o.Key, live); err != nil && !fault.Is(err, fault.NotFound) && fault.ReasonOf(err) != "BadManifest" {
			return err
		}
	}
	return nil
}

func (r *Repo) addNamed(ctx context.Context, key string, live map[string]bool) error {
	raw, err := r.whole(ctx, key)
	if err != nil {
		return err
	}
	m, err := asset.Decode(raw)
	if err != nil {
		var elsewhere error
		if m, elsewhere = asset.DecodeListing(raw); elsewhere != nil {
			return err
		}
	}
	for _, c := range m.Chunks {
		live[c.Hash.String()] = true
	}
	return nil
}

// sweep writes down what nobody names, and deletes what has been so for a grace.
func (r *Repo) sweep(ctx context.Context, project string, now time.Time, chunks []string, live map[string]bool) (deleted int, err error) {
	had, err := r.marks(ctx, project)
	if err != nil {
		return 0, err
	}
	next := marks{}
	for _, name := range chunks {
		if live[name] {
			continue
		}
		since, marked := had[name]
		switch {
		case !marked:
			next[name] = now.UTC()
		case now.Sub(since) <= r.grace:
			next[name] = since
		default:
			if err := r.blob.Delete(ctx, Under+project+"/chunks/"+name[:2]+"/"+name); err != nil {
				return deleted, err
			}
			deleted++
		}
	}
	if maps.Equal(had, next) {
		return deleted, nil
	}
	return deleted, r.putMarks(ctx, project, next)
}
