package inner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fermi-cluster/fermi/internal/app/keyfile"
	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/launch/depot"
	"github.com/fermi-cluster/fermi/internal/launch/orderlink"
	"github.com/fermi-cluster/fermi/internal/launch/retry"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/link/exchange"
	"github.com/fermi-cluster/fermi/internal/link/lend"
)

// enterFor is how long servers are looked for from a pod before its node is given up.
const enterFor = 5 * time.Minute

// enterCommand is what the first container of a pod runs.
func enterCommand() *cobra.Command {
	var program, identity, token, cache string
	var most int64
	cfg := exchange.Config{Clock: clock.Real}
	cmd := &cobra.Command{
		Use: "enter", Hidden: true, Short: cli.Both("Bring the launcher into a pod (started by the engine)", "将启动器带入 Pod（由引擎启动）"), Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.Log = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
			cfg.Proof = func() (string, error) {
				raw, err := os.ReadFile(identity)
				return strings.TrimSpace(string(raw)), err
			}
			if err := install(program); err != nil {
				return fmt.Errorf("copy the program: %w", err)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), enterFor)
			defer cancel()
			secret, err := exchange.Fetch(ctx, cfg)
			if err != nil {
				return err
			}
			if cache != "" {
				if err := fill(cmd.Context(), depot.Depot{Dir: cache, Most: most, Drop: dropHere}, cfg, secret); err != nil {
					cfg.Log.Warn("the node's cache is not filled", "error", err)
				}
			}
			return leave(token, secret)
		},
	}
	cmd.Flags().StringVar(&program, "program", "", "where to copy this program")
	cmd.Flags().StringVar((*string)(&cfg.Replica), "replica", "", "the replica's name")
	cmd.Flags().StringVar(&cfg.Zone, "zone", "", "the zone whose cluster the pod is in")
	cmd.Flags().StringVar(&cfg.Endpoints, "endpoints", "", "file with the servers")
	cmd.Flags().StringVar(&identity, "identity", "", "file with the pod's own token")
	cmd.Flags().StringVar(&token, "token-file", "", "where to leave the replica's token")
	cmd.Flags().StringVar(&cache, "cache", "", "folder of the node's with versions of datasets and models, where there is one")
	cmd.Flags().Int64Var(&most, "cache-most", 0, "bytes that they may take; half of the disk when 0")
	return cmd
}

// leave leaves the token to the launcher, which takes it away before anything of the user's runs. The pod is the replica's alone, and its image may have any
// user: one that is not root can't remove a file of root's from a folder in memory, whose sticky bit is set, but can empty it.
func leave(path, token string) error {
	if err := keyfile.Make(path, []byte(token)); err != nil {
		return err
	}
	return os.Chmod(path, 0o666)
}

// fillTries is how often a version is asked for; the launcher tries on, for its own pod alone.
const fillTries = 8

// fill has the versions that a replica names be in the node's cache, as far as that goes: one that is not there is fetched by its launcher, which has the words for it.
func fill(ctx context.Context, d depot.Depot, cfg exchange.Config, token string) error {
	orders, err := orderlink.Open(orderlink.Config{Replica: cfg.Replica, Token: token, Endpoints: cfg.Endpoints, Log: cfg.Log, Clock: cfg.Clock})
	if err != nil {
		return err
	}
	spec, err := orders.Ask()
	if err != nil {
		return err
	}
	client, err := link.NewClient(link.ClientConfig{Name: cfg.Replica, Token: token, Endpoints: cfg.Endpoints, Log: cfg.Log, Clock: cfg.Clock})
	if err != nil {
		return err
	}
	from := lend.Source{Client: client}
	for _, ref := range slices.Concat(spec.Replica.Mounts.Datasets, spec.Replica.Mounts.Models) {
		if ref.Source != nil {
			continue
		}
		for tries, pause := 1, retry.First; ; tries, pause = tries+1, min(2*pause, retry.Most) {
			err := d.Keep(ctx, depot.Version{Digest: ref.Digest, Bytes: ref.Size}, func(ctx context.Context, first, count int, w io.Writer) error {
				return from.FetchAsset(ctx, ref.Digest, first, count, w)
			}, func(int64, int64) {})
			if err == nil {
				break
			}
			cfg.Log.Warn("a version is not in the node's cache", "name", ref.Name, "error", err)
			if tries == fillTries || ctx.Err() != nil || link.Permanent(err) || fault.Is(err, fault.Full) {
				break
			}
			<-cfg.Clock.After(pause)
		}
	}
	return nil
}

func dropHere(_ context.Context, _ int, place, digest string) error { return depot.Drop(place, digest) }

// install copies this program; it appears whole.
func install(path string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	in, err := os.Open(self)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	out, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// startedCommand is what the kubelet asks: whether the ranks of a replica were started.
func startedCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use: "started", Hidden: true, Short: cli.Both("Say whether a replica's processes were started (asked by the kubelet)", "副本的进程是否已启动（由 kubelet 询问）"), Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if !record.Exists(dir, record.FileStart) {
				return errors.New("not yet")
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "the replica's folder")
	return cmd
}

// takeToken reads the token of a launcher in a pod and removes it, before anything of the user's runs.
func takeToken(path string) (string, error) {
	raw, err := os.ReadFile(path)
	if err == nil && len(raw) == 0 {
		err = fs.ErrNotExist
	}
	if err != nil {
		return "", fmt.Errorf("no token was left for this launcher: %w", err)
	}
	return string(raw), os.Truncate(path, 0)
}

// lastWords leaves how the replica in dir ended where the kubelet reads it, and gives the code to end with; false: the end is not known.
func lastWords(dir, path string) (code int, ok bool, err error) {
	var w record.LastWords
	if ok, err = record.Read(dir, record.FileExit, &w.Exit); !ok || err != nil {
		return 0, false, err
	}
	if _, err := record.Read(dir, record.FileDone, &w.Done); err != nil {
		return 0, false, err
	}
	raw, err := w.Pack()
	if err == nil {
		err = os.WriteFile(path, raw, 0o600)
	}
	if w.Exit.Code < 0 || w.Exit.Reason != engine.ReasonSucceeded && w.Exit.Code == 0 {
		return 1, true, err
	}
	return w.Exit.Code & 0xff, true, err
}
