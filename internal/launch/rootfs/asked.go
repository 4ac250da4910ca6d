package rootfs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Who asks a registry, and who keeps what it says, are two: the one is the project, on its network; the other is nobody's, and believes
// nothing that does not have the digest it should have.

// Answer is what a registry says a reference stands for.
type Answer struct {
	Digest    string // of Manifest
	MediaType string
	Manifest  []byte
	Config    []byte
}

// Registry is asked for an image: a real one, or somebody who asks it.
type Registry interface {
	// Ask finds what the reference stands for on this machine.
	Ask(ctx context.Context) (Answer, error)
	// Blob is a layer of what Ask found.
	Blob(ctx context.Context, digest string) (io.ReadCloser, error)
}

// Remote is the registry of a reference. Faults are for the user.
type Remote struct {
	Reference string
	Accounts  []api.RegistryCredential
	found     v1.Image
}

// Ask is Registry's.
func (r *Remote) Ask(ctx context.Context) (Answer, error) {
	ref, err := parse(r.Reference)
	if err != nil {
		return Answer{}, err
	}
	found, err := ask(ctx, ref, r.Accounts)
	if err != nil {
		return Answer{}, err
	}
	r.found = found.image
	a := Answer{Digest: found.digest}
	media, err := found.image.MediaType()
	if err == nil {
		a.MediaType = string(media)
		a.Manifest, err = found.image.RawManifest()
	}
	if err == nil {
		a.Config, err = found.image.RawConfigFile()
	}
	return a, err
}

// Blob is Registry's; safe for concurrent use after Ask.
func (r *Remote) Blob(_ context.Context, digest string) (io.ReadCloser, error) {
	h, err := v1.NewHash(digest)
	if err != nil {
		return nil, err
	}
	if r.found == nil {
		return nil, errors.New("nobody asked for the image")
	}
	layer, err := r.found.LayerByDigest(h)
	if err != nil {
		return nil, err
	}
	return layer.Compressed()
}

func parse(reference string) (name.Reference, error) {
	ref, err := name.ParseReference(reference)
	if err != nil {
		return nil, fault.New(fault.Invalid, "BadImage", fault.T("%q is not the name of an image.", "%q 不是镜像名称。", reference)).Because(err)
	}
	return ref, nil
}

// maxDocument bounds a manifest and a configuration.
const maxDocument = 8 << 20

// believed makes an image of an answer, if all of it has the digests that it should have.
func believed(ctx context.Context, a Answer, reg Registry, name string) (source, error) {
	bad := func(why string) (source, error) { return source{}, fmt.Errorf("the registry's answer: %s", why) }
	if len(a.Manifest) > maxDocument || len(a.Config) > maxDocument {
		return bad("it is too long")
	}
	if sum := sha256.Sum256(a.Manifest); a.Digest != "sha256:"+hex.EncodeToString(sum[:]) {
		return bad("the manifest is not what its digest says")
	}
	manifest, err := v1.ParseManifest(bytes.NewReader(a.Manifest))
	if err != nil {
		return source{}, err
	}
	if sum := sha256.Sum256(a.Config); manifest.Config.Digest.String() != "sha256:"+hex.EncodeToString(sum[:]) {
		return bad("the configuration is not what its digest says")
	}
	config, err := v1.ParseConfigFile(bytes.NewReader(a.Config))
	if err != nil {
		return source{}, err
	}
	if config.OS != platform.OS || config.Architecture != platform.Architecture {
		return bad("it is of another platform")
	}
	image, err := partial.CompressedToImage(&answered{blob: func(digest string) (io.ReadCloser, error) { return reg.Blob(ctx, digest) }, a: a, manifest: manifest})
	return source{digest: a.Digest, name: name, image: image}, err
}

// answered is an image whose parts come from somebody who asks.
type answered struct {
	blob     func(digest string) (io.ReadCloser, error) // within the whole try
	a        Answer
	manifest *v1.Manifest
}

func (i *answered) RawConfigFile() ([]byte, error)                { return i.a.Config, nil }
func (i *answered) MediaType() (types.MediaType, error)           { return types.MediaType(i.a.MediaType), nil }
func (i *answered) RawManifest() ([]byte, error)                  { return i.a.Manifest, nil }
func (i *answered) layer(d v1.Descriptor) partial.CompressedLayer { return &answeredLayer{i, d} }

// LayerByDigest is one that the manifest names.
func (i *answered) LayerByDigest(h v1.Hash) (partial.CompressedLayer, error) {
	for _, d := range i.manifest.Layers {
		if d.Digest == h {
			return i.layer(d), nil
		}
	}
	return nil, fmt.Errorf("the manifest names no layer %s", h)
}

type answeredLayer struct {
	i *answered
	d v1.Descriptor
}

func (l *answeredLayer) Digest() (v1.Hash, error)            { return l.d.Digest, nil }
func (l *answeredLayer) Size() (int64, error)                { return l.d.Size, nil }
func (l *answeredLayer) MediaType() (types.MediaType, error) { return l.d.MediaType, nil }

// Compressed is the bytes; their end is an error if they are not what the digest says.
func (l *answeredLayer) Compressed() (io.ReadCloser, error) {
	body, err := l.i.blob(l.d.Digest.String())
	if err != nil {
		return nil, err
	}
	return &checkedBody{ReadCloser: body, sum: sha256.New(), left: l.d.Size, want: l.d.Digest.Hex}, nil
}

// checkedBody ends with an error unless the bytes are what they should be.
type checkedBody struct {
	io.ReadCloser
	sum  hash.Hash
	left int64
	want string
}

func (c *checkedBody) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.sum.Write(p[:n])
	if c.left -= int64(n); c.left < 0 {
		return n, errors.New("a layer is longer than its manifest says")
	}
	if errors.Is(err, io.EOF) && (c.left != 0 || hex.EncodeToString(c.sum.Sum(nil)) != c.want) {
		return n, errors.New("a layer is not what its digest says")
	}
	return n, err
}
