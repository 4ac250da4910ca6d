package asset

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fermi-cluster/fermi/api/v1/asset"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// change reads a model, changes it and writes it, and again when somebody was faster.
func change(cmd *cobra.Command, name string, how func(*asset.ModelSpec, func(version string) (int, error)) error) error {
	w, err := verbs{asset.ModelKind, "model"}.dial(cmd)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	resolve := func(version string) (int, error) { return w.number(ctx, name, version) }
	for try := 0; ; try++ {
		m, err := client.Get[*asset.Model](ctx, w.Client, w.Project, name)
		if err == nil {
			err = how(&m.Spec, resolve)
		}
		if err == nil {
			_, err = client.Update(ctx, w.Client, m)
		}
		if fault.ReasonOf(err) != "Stale" || try == 10 {
			return err
		}
	}
}

// marks are what a model says of its versions; a dataset says nothing.
type marks struct {
	spec asset.ModelSpec
	head fault.Text // of their columns
}

func (w *where) marks(ctx context.Context, name string) (marks, error) {
	if w.kind != asset.ModelKind {
		return marks{}, nil
	}
	m, err := client.Get[*asset.Model](ctx, w.Client, w.Project, name)
	if err != nil {
		return marks{}, err
	}
	return marks{m.Spec, fault.T("\tALIASES\tSTAGE", "\t别名\t阶段")}, nil
}

func (m *marks) aliases(version int) string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(m.spec.Aliases)) {
		if m.spec.Aliases[name] == version {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

func (m *marks) stage(version int) string { return string(m.spec.Stages[strconv.Itoa(version)]) }

// cells are a version's in the columns of head.
func (m *marks) cells(version int) string {
	if m.head.EN == "" {
		return ""
	}
	return "\t" + cmp.Or(m.aliases(version), "-") + "\t" + cmp.Or(m.stage(version), "-")
}

func (w *where) number(ctx context.Context, name, version string) (int, error) {
	x, err := w.of(name).Version(ctx, version)
	if err != nil {
		return 0, err
	}
	return x.Spec.Number, nil
}

func alias() *cobra.Command {
	return &cobra.Command{
		Use: "alias NAME ALIAS [VERSION]", Short: cli.Both("Give a version another name, such as champion; without a version the alias goes", "为版本设置别名，如 champion；不指定版本则删除别名"), Args: cobra.RangeArgs(2, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			return change(cmd, args[0], func(s *asset.ModelSpec, resolve func(string) (int, error)) error {
				if len(args) == 2 {
					delete(s.Aliases, args[1])
					return nil
				}
				n, err := resolve(args[2])
				if s.Aliases == nil {
					s.Aliases = map[string]int{}
				}
				s.Aliases[args[1]] = n
				return err
			})
		},
	}
}

func stage() *cobra.Command {
	return &cobra.Command{
		Use: "stage NAME VERSION staging|production|archived|none", Short: cli.Both("Say how far a version is", "设置版本所处阶段"), Args: cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			return change(cmd, args[0], func(s *asset.ModelSpec, resolve func(string) (int, error)) error {
				n, err := resolve(args[1])
				if err != nil {
					return err
				}
				if s.Stages == nil {
					s.Stages = map[string]asset.Stage{}
				}
				if args[2] == "none" {
					delete(s.Stages, strconv.Itoa(n))
				} else {
					s.Stages[strconv.Itoa(n)] = asset.Stage(args[2])
				}
				return nil
			})
		},
	}
}
