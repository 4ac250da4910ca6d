package env

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// after gives a spec what a template has and its flags do not say.
func (w *where) after(ctx context.Context, template string, s *devenv.Spec) error {
	t, err := client.Get[*devenv.EnvironmentTemplate](ctx, w.Client, "", template)
	if fault.Is(err, fault.NotFound) {
		return fault.From(err).WithHint(fault.T("fermi env templates lists those that there are.", "可用 fermi env templates 查看现有模板。"))
	}
	if err == nil {
		err = t.Into(s)
	}
	return err
}

func templates() *cobra.Command {
	return &cobra.Command{
		Use: "templates", Aliases: []string{"template"}, Short: cli.Both("List what environments can be made after", "列出可用的环境模板"), Args: cobra.NoArgs,
		Long: cli.Both("List what environments can be made after: fermi env create NAME --template TEMPLATE.\n\nAdministrators and operators write those for everybody, members those of their project: fermi apply -f FILE with kind EnvironmentTemplate.",
			"列出可用的环境模板：fermi env create 环境 --template 模板。\n\n面向所有人的模板由管理员与运维人员编写，项目模板由项目成员编写：fermi apply -f 文件，其中 kind 为 EnvironmentTemplate。"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o := output(cmd); o != "table" && o != "wide" {
				get, _, err := cmd.Root().Find([]string{"get"})
				if err != nil {
					return err
				}
				get.SetContext(cmd.Context())
				return get.RunE(get, []string{"environment-template"})
			}
			w, err := dial(cmd)
			if err != nil {
				return err
			}
			rows := [][]string{}
			err = w.Walk(cmd.Context(), devenv.TemplateKind, client.ListOptions{Limit: 500, Sort: "name"}, func(o api.Object) bool {
				t := o.(*devenv.EnvironmentTemplate)
				rows = append(rows, w.row(t))
				return true
			})
			if err != nil {
				return err
			}
			var words []string
			for _, h := range []fault.Text{fault.T("NAME", "名称"), fault.T("TYPE", "类型"), fault.T("IMAGE", "镜像"), fault.T("DEVICES", "加速卡"), fault.T("CPU", "CPU"), fault.T("MEMORY", "内存"), fault.T("PROJECT", "项目"), fault.T("FOR", "用途")} {
				words = append(words, h.In(w.Lang))
			}
			return cli.Table(cmd.OutOrStdout(), words, rows)
		},
	}
}

// row is a template for people.
func (w *where) row(t *devenv.EnvironmentTemplate) []string {
	e, devices, kind := &t.Spec.Environment, "", ""
	if n := e.Resources.Accelerators.Count; n > 0 {
		devices = strings.TrimSpace(fmt.Sprintf("%d %s", n, e.Resources.Accelerators.Type))
	}
	if e.Type != "" {
		kind = devenv.TypeText(e.Type).In(w.Lang)
	}
	amount := func(said bool, text string) string {
		if !said {
			return ""
		}
		return text
	}
	row := []string{t.Meta.Name, kind, e.Image, devices, amount(e.Resources.CPU > 0, e.Resources.CPU.String()), amount(e.Resources.Memory > 0, e.Resources.Memory.String()), t.Spec.Project, oneLine(t.Spec.Description.In(w.Lang))}
	for i, cell := range row {
		if cell == "" {
			row[i] = "-"
		}
	}
	return row
}

func oneLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	if r := []rune(s); len(r) > 60 {
		s = string(r[:60]) + "…"
	}
	return s
}
