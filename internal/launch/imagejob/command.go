package imagejob

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/fermi-cluster/fermi/api/v1/image"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// order is what a job was told.
type order struct {
	do    image.Do
	ref   string // what is looked at, or where the result goes
	build build
	base  string // of what is saved: the image under it
}

// Command is what the replica of an image job runs; people don't.
func Command(both func(en, zh string) string) *cobra.Command {
	var o order
	c := &cobra.Command{
		Use: image.Program + " DO -- IMAGE", Hidden: true, Short: both("Do something with an image (started by the platform)", "处理镜像（由平台启动）"), Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.do, o.ref = image.Do(args[0]), args[1]
			found, err := o.run(cmd.Context())
			if kept := leave(found, err); kept != nil {
				return errors.Join(err, kept)
			}
			return err
		},
	}
	f := c.Flags()
	f.StringVar(&o.build.file, "file", "Dockerfile", "the Dockerfile")
	f.StringVar(&o.build.target, "target", "", "the stage to build")
	f.StringArrayVar(&o.build.args, "arg", nil, "NAME=VALUE")
	f.BoolVar(&o.build.fresh, "fresh", false, "take nothing from the cache")
	f.StringArrayVar(&o.build.allowed, "allow", nil, "the beginning of the name of an image to begin from; any when absent")
	f.StringVar(&o.base, "base", "", "the image under what is saved")
	return c
}

func (o *order) run(ctx context.Context) (*image.ImageFound, error) {
	switch o.do {
	case image.Inspect, image.Pull:
		return look(ctx, o.ref)
	case image.Build:
		o.build.ref = o.ref
		return o.build.run(ctx)
	case image.Save:
		return save(ctx, o.base, o.ref)
	}
	return nil, fmt.Errorf("no job: %q", o.do)
}

// leave writes down what was found, or why nothing was, where the server reads it.
func leave(found *image.ImageFound, err error) error {
	r := image.Result{Found: found}
	var f *fault.Error
	if errors.As(err, &f) {
		r.Refused = &image.Refusal{Reason: f.Reason, Message: f.Message, Hint: f.Hint}
	}
	data, merr := json.Marshal(r)
	if merr != nil {
		return merr
	}
	at := filepath.Join(os.Getenv("FERMI_OUTPUT"), image.ResultFile)
	if err := os.WriteFile(at+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(at+".new", at)
}
