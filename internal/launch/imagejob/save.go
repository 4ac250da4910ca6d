package imagejob

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/fermi-cluster/fermi/api/v1/image"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/launch/layer"
)

// Digest is the variable that says which image is saved: what was written over it becomes one more layer.
const Digest = "FERMI_IMAGE_DIGEST"

func save(ctx context.Context, base, reference string) (*image.ImageFound, error) {
	from, err := parse(base)
	if err != nil {
		return nil, err
	}
	to, err := name.NewTag(reference)
	if err != nil {
		return nil, fault.New(fault.Invalid, "BadImage", fault.T("%q is not where an image can be pushed.", "%q 不是可推送的镜像名称。", reference)).Because(err)
	}
	file, err := os.CreateTemp("", "layer-*.tar")
	if err != nil {
		return nil, err
	}
	defer os.Remove(file.Name())
	changed, removed, err := layer.Diff(ctx, file)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("read what was written: %w", err)
	}
	fmt.Printf("%d changed, %d removed\n", changed, removed)
	pinned := from.Context().Digest(os.Getenv(Digest))
	var made v1.Image
	err = patiently(ctx, pinned, func() error {
		under, err := remote.Image(pinned, account(ctx)...)
		if err != nil {
			return err
		}
		written, err := tarball.LayerFromFile(file.Name())
		if err != nil {
			return err
		}
		made, err = mutate.Append(under, mutate.Addendum{Layer: written, History: v1.History{Created: v1.Time{Time: time.Now().UTC()}, CreatedBy: "fermi env save", Comment: "over " + pinned.Name()}})
		return err
	})
	if err != nil {
		return nil, err
	}
	fmt.Println("pushing", reference)
	if err := patiently(ctx, to, func() error { return remote.Write(to, made, account(ctx)...) }); err != nil {
		if fault.ReasonOf(err) == "ImageDenied" || fault.ReasonOf(err) == "NoSuchImage" {
			return nil, pushFault(to, "denied: "+err.Error(), err)
		}
		return nil, err
	}
	digest, err := made.Digest()
	if err != nil {
		return nil, err
	}
	found := &image.ImageFound{Reference: reference, Digest: digest.String()}
	return found, describe(found, made)
}
