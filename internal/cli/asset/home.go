package asset

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/fermi-cluster/fermi/api/v1/asset"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/cli/carry"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/homecopy"
)

// saveHome is what runs in the place of an environment while a snapshot of its home is made, as its owner; people don't run it.
func saveHome() *cobra.Command {
	var shared bool
	c := &cobra.Command{
		Use: devenv.SaveHome + " -- DATASET", Hidden: true, Short: cli.Both("Keep a home (started by the platform)", "保存主目录（由平台启动）"), Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			v := verbs{asset.DatasetKind, "data"}
			w, err := v.dial(cmd)
			if err != nil {
				return err
			}
			home, err := os.UserHomeDir()
			if err != nil {
				return err
			}
			c, err := homecopy.Scan(home)
			if err != nil {
				return fault.From(err)
			}
			defer c.Close()
			if file := os.Getenv(devenv.LayerFile); file != "" {
				if err := c.With(homecopy.Layer{Image: os.Getenv(devenv.LayerImage), Archive: file}); err != nil {
					return fault.From(err)
				}
			}
			found := carry.Elsewhere(c.Files, c.Skipped, func(f asset.File) (io.ReadCloser, error) { return c.Open(f) })
			wish := client.VersionWish{Message: os.Getenv("FERMI_TASK"), Metadata: map[string]string{devenv.HomeMark: devenv.HomeFormat}}
			return patiently(cmd.Context(), homePatience, func() error {
				if err := w.keeper(cmd.Context(), v, args[0], !shared); err != nil {
					return err
				}
				made, err := w.send(cmd.Context(), args[0], found, wish)
				if err == nil {
					fmt.Fprintf(cmd.OutOrStdout(), "%s@%d\n", args[0], made.Spec.Number)
				}
				return err
			})
		},
	}
	c.Flags().BoolVar(&shared, "shared", false, "members of the project may enter the environment, and see what is kept of it")
	return c
}

// homePatience is how long servers may be away while a home is kept: nobody stands beside it to say it again.
const homePatience = 15 * time.Minute

// patiently does something until it works, or for so long; what no second try helps ends it at once. What a server has is not sent again.
func patiently(ctx context.Context, most time.Duration, do func() error) error {
	const pause = 2 * time.Second
	for begin := time.Now(); ; {
		err := do()
		if err == nil || !fault.CodeOf(err).Retry() || time.Since(begin) > most {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// keeper sees that the dataset is there, and that nobody sees in it who may not see the home.
func (w *where) keeper(ctx context.Context, v verbs, name string, private bool) error {
	for range 2 {
		o, err := w.Get(ctx, v.kind, w.Project, name)
		switch {
		case fault.Is(err, fault.NotFound):
			_, err = w.Create(ctx, v.fresh(w.Project, name, "", private), false)
			if fault.ReasonOf(err) == "NameTaken" {
				continue // a try of before, or somebody else's that is hidden from us
			}
			return err
		case err != nil:
			return err
		case private && !asset.IsPrivate(o):
			return notKept(name)
		}
		return nil
	}
	return notKept(name)
}

func notKept(name string) error {
	return fault.New(fault.Conflict, "NotKept", fault.T("The dataset %s is not one in which this home may be kept: others could read it, or it is somebody else's.", "数据集 %s 不能用于保存该主目录：其他人可以读取，或属于他人。", name)).
		WithHint(fault.T("Rename or delete that dataset.", "请重命名或删除该数据集。"))
}
