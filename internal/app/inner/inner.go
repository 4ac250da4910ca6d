// Package inner are the commands of processes that the platform starts for itself, once for every replica or peer.
//
// Place: part of the assembly. Promise: such a process makes its own command alone: all others together take longer than it
// needs to begin. Enemies: a token in an environment or on a command line.
package inner

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/engine/inventory"
	"github.com/fermi-cluster/fermi/internal/launch"
	"github.com/fermi-cluster/fermi/internal/launch/editor"
	"github.com/fermi-cluster/fermi/internal/launch/imagejob"
	"github.com/fermi-cluster/fermi/internal/launch/keeper"
	"github.com/fermi-cluster/fermi/internal/launch/orderlink"
	"github.com/fermi-cluster/fermi/internal/rsh"
	"github.com/fermi-cluster/fermi/internal/sftpserver"
	"github.com/fermi-cluster/fermi/internal/sshrelay"
)

// Find is `fermi` with the one of the commands that args name, and no other; nil: they name none.
func Find(args []string, among ...*cobra.Command) *cobra.Command {
	for _, c := range among {
		if len(args) > 0 && c.Name() == args[0] {
			root := &cobra.Command{Use: "fermi", SilenceErrors: true, SilenceUsage: true}
			root.AddCommand(c)
			return root
		}
	}
	return nil
}

// All are the commands of such processes: the launcher, and programs of tenants that happen to be inside the binary.
func All(version string, stores keeper.Stores) []*cobra.Command {
	return []*cobra.Command{Launch(version, stores), rsh.Command(cli.Both), sftpserver.Command(cli.Both), sshrelay.Command(cli.Both), imagejob.Command(cli.Both), editor.Command(cli.Both)}
}

// Launch is what the engine starts; people don't. Stores is how it opens the places that checkpoints go to.
func Launch(version string, stores keeper.Stores) *cobra.Command {
	var c launch.Config
	var far orderlink.Config
	var tokenFile, words string
	cmd := &cobra.Command{
		Use: "launch", Hidden: true, Short: cli.Both("Run beside one replica (started by the engine)", "在副本旁运行（由引擎启动）"), Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if tokenFile != "" {
				c.Token, err = takeToken(tokenFile)
				err = errors.Join(err, os.MkdirAll(c.Dir, 0o700))
			} else {
				c.Token, err = tokenFromFD(3)
			}
			if err != nil {
				return err
			}
			c.Readings, c.Stores, c.Version = inventory.Read, stores, version
			if far.Replica != "" {
				far.Dir, far.Token, far.Address = c.Dir, c.Token, os.Getenv(podAddress)
				if c.Orders, err = orderlink.Open(far); err != nil {
					return err
				}
			}
			if err = launch.Run(cmd.Context(), c); words == "" {
				return err
			}
			code, ended, werr := lastWords(c.Dir, words)
			if err = errors.Join(err, werr); err == nil && ended && code != 0 {
				os.Exit(code) // the container ends as the user's process did
			}
			return err
		},
	}
	cmd.Flags().StringVar(&c.Dir, "dir", "", "the replica's folder")
	cmd.Flags().StringVar((*string)(&far.Replica), "replica", "", "the replica's name, for one whose orders come over the link")
	cmd.Flags().StringVar(&far.Endpoints, "endpoints", "", "file with the servers, likewise")
	cmd.Flags().StringVar(&far.Cache, "cache", "", "folder with versions of datasets and models that the node keeps, likewise")
	cmd.Flags().StringVar(&tokenFile, "token-file", "", "file with the token, which is taken away, for one in a pod")
	cmd.Flags().StringVar(&words, "last-words", "", "file to leave the replica's end in, likewise")
	cmd.AddCommand(enterCommand(), startedCommand())
	_ = cmd.MarkFlagRequired("dir")
	return cmd
}

// podAddress is the variable in which a pod says where it is reached.
const podAddress = "FERMI_POD_IP"

// tokenFromFD reads the link token: never from the environment or the command line, where others
// could read it.
func tokenFromFD(fd uintptr) (string, error) {
	f := os.NewFile(fd, "token")
	if f == nil {
		return "", errors.New("no token on file descriptor 3: `fermi launch` is started by the engine")
	}
	raw, err := io.ReadAll(io.LimitReader(f, 4096))
	if err = errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("no token on file descriptor 3 (`fermi launch` is started by the engine): %w", err)
	}
	if len(raw) == 0 {
		// The server was killed between starting us and handing it over; the next one starts another.
		return "", errors.New("the server ended before it handed over the token")
	}
	return string(raw), nil
}
