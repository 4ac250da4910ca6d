package cli

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// remembered is what the user chose once for all, by server.
type remembered struct {
	Projects map[string]string `json:"projects,omitempty"`
}

const maxRemembered = 1 << 20

// rememberedFile is in the user's own settings: $XDG_CONFIG_HOME/fermi/cli.json.
func rememberedFile() (string, error) {
	dir, err := os.UserConfigDir()
	return filepath.Join(dir, "fermi", "cli.json"), err
}

// recall reads it; what can't be read was never chosen.
func recall() (r remembered) {
	file, err := rememberedFile()
	if err != nil {
		return r
	}
	if info, err := os.Stat(file); err != nil || info.Size() > maxRemembered {
		return r
	}
	if data, err := os.ReadFile(file); err != nil || json.Unmarshal(data, &r) != nil {
		return remembered{}
	}
	return r
}

func (r remembered) keep() error {
	file, err := rememberedFile()
	if err != nil {
		return fault.From(err)
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fault.From(err)
	}
	return replaceFile(file, append(data, '\n'))
}

// replaceFile writes a small file of the user's own, whole or not at all.
func replaceFile(file string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return badFile(file, err)
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".new-*")
	if err != nil {
		return badFile(file, err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return badFile(file, err)
	}
	return nil
}

// server is the address asked for.
func (s *session) server() string {
	return first(s.flags.server, os.Getenv("FERMI_SERVER"), defaultServer)
}

// projectUseCommand remembers the project that is meant where none is named.
func (a *app) projectUseCommand() *cobra.Command {
	var none bool
	cmd := &cobra.Command{
		Use: "use [NAME]", Short: Both("Choose the project that is meant where none is named; without a name, show it", "选择未指明时使用的项目；不带名称则显示当前选择"),
		Args: needArgs(0, 1, "[NAME]"), Example: "  fermi project use lab",
	}
	cmd.Flags().BoolVar(&none, "none", false, Both("forget the choice", "取消选择"))
	cmd.RunE = a.online(func(ctx context.Context, s *session, args []string) error {
		r := recall()
		if len(args) == 0 && !none {
			if name := r.Projects[s.server()]; name != "" {
				putLine(s.out, clean(name))
				return nil
			}
			s.say("None is chosen: your only project is meant, or default.", "尚未选择：使用您唯一的项目，或 default。")
			return nil
		}
		if r.Projects == nil {
			r.Projects = map[string]string{}
		}
		delete(r.Projects, s.server())
		if !none {
			if _, err := s.client.Get(ctx, api.KindProject, "", args[0]); err != nil {
				return err
			}
			r.Projects[s.server()] = args[0]
		}
		if err := r.keep(); err != nil {
			return err
		}
		if none {
			s.say("No project is chosen any more.", "已取消选择。")
			return nil
		}
		putLine(s.out, "project/"+args[0]+" "+s.t("is used from now on where none is named", "将在未指明项目时使用"))
		return nil
	})
	return cmd
}
