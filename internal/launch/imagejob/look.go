package imagejob

import (
	"context"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/image"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/launch/rootfs"
)

const (
	tries     = 4
	firstWait = 500 * time.Millisecond
	maxLabels = 64
	maxLabel  = 512
)

// account is how a registry is asked: with what the launcher left in $DOCKER_CONFIG.
func account(ctx context.Context) []remote.Option {
	return []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain), remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH})}
}

func parse(reference string) (name.Reference, error) {
	ref, err := name.ParseReference(reference)
	if err != nil {
		return nil, fault.New(fault.Invalid, "BadImage", fault.T("%q is not the name of an image.", "%q 不是镜像名称。", reference)).Because(err)
	}
	return ref, nil
}

// patiently tries again what may pass.
func patiently(ctx context.Context, ref name.Reference, try func() error) error {
	wait := firstWait
	for n := 1; ; n++ {
		err := try()
		if err == nil {
			return nil
		}
		if said := rootfs.Explain(ref, err); fault.ReasonOf(said) != "" {
			return said
		}
		if n == tries || ctx.Err() != nil {
			return fault.New(fault.Unavailable, "RegistryUnreachable", fault.T("The registry of %s is out of reach: %v.", "无法访问 %s 的镜像仓库：%v。", ref, err)).
				WithHint(fault.T("Check its name, and that nodes reach it.", "请检查名称以及节点能否访问该仓库。")).Because(err)
		}
		fmt.Fprintln(os.Stderr, "trying again:", err)
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		wait *= 2
	}
}

// look reads what a registry says of an image.
func look(ctx context.Context, reference string) (*image.ImageFound, error) {
	ref, err := parse(reference)
	if err != nil {
		return nil, err
	}
	var found *image.ImageFound
	err = patiently(ctx, ref, func() (err error) {
		found, err = ask(ctx, ref)
		return err
	})
	if err != nil {
		return nil, err
	}
	found.Reference = reference
	return found, nil
}

func ask(ctx context.Context, ref name.Reference) (*image.ImageFound, error) {
	desc, err := remote.Get(ref, account(ctx)...)
	if err != nil {
		return nil, err
	}
	found := &image.ImageFound{Digest: desc.Digest.String()}
	if desc.MediaType.IsIndex() {
		index, err := desc.ImageIndex()
		if err != nil {
			return nil, err
		}
		list, err := index.IndexManifest()
		if err != nil {
			return nil, err
		}
		for _, m := range list.Manifests {
			if p := m.Platform; p != nil && p.OS != "unknown" && len(found.Platforms) < maxLabels {
				found.Platforms = append(found.Platforms, short(p.String()))
			}
		}
		if !slices.ContainsFunc(list.Manifests, func(m v1.Descriptor) bool {
			return m.Platform != nil && m.Platform.OS == "linux" && m.Platform.Architecture == runtime.GOARCH
		}) {
			return found, nil // nothing here can run it, and that is what there is to say
		}
	}
	img, err := desc.Image()
	if err != nil {
		return nil, err
	}
	return found, describe(found, img)
}

// describe reads what an image says of itself.
func describe(found *image.ImageFound, img v1.Image) error {
	m, err := img.Manifest()
	if err != nil {
		return err
	}
	c, err := img.ConfigFile()
	if err != nil {
		return err
	}
	if len(found.Platforms) == 0 {
		found.Platforms = []string{short(c.OS + "/" + c.Architecture)}
	}
	for _, l := range m.Layers {
		found.Size += api.Bytes(max(l.Size, 0))
	}
	found.Layers = len(m.Layers)
	if at := c.Created.UTC(); !at.IsZero() && at.Year() > 1 {
		found.Created = &at
	}
	for _, k := range slices.Sorted(maps.Keys(c.Config.Labels)) {
		if len(found.Labels) == maxLabels || len(k) > maxLabel {
			break
		}
		if found.Labels == nil {
			found.Labels = map[string]string{}
		}
		found.Labels[k] = short(c.Config.Labels[k])
	}
	found.Entrypoint, found.Cmd = words(c.Config.Entrypoint), words(c.Config.Cmd)
	found.User, found.WorkingDir = short(c.Config.User), short(c.Config.WorkingDir)
	for _, p := range slices.Sorted(maps.Keys(c.Config.ExposedPorts)) {
		if len(found.Ports) < maxLabels {
			found.Ports = append(found.Ports, short(p))
		}
	}
	return nil
}

func short(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxLabel)], "") }

func words(list []string) (out []string) {
	for _, w := range list[:min(len(list), maxLabels)] {
		out = append(out, short(w))
	}
	return out
}
