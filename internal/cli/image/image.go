package image

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/image"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/cli/online"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Add puts `fermi image` under root, and `fermi env save` under env.
func Add(root *cobra.Command) {
	c := &cobra.Command{
		Use: "image", Aliases: []string{"images"}, Short: cli.Both("Images: a catalogue, builds, saved environments", "镜像：目录、构建与保存的环境"), GroupID: cli.GroupWork,
		Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(list(), show(), add(), remove(), inspect(), verify(), build(), pull(), jobs(), stop(),
		cli.Logs(image.JobKind, cli.Both("What a build or another job prints", "查看构建等任务的输出"), "  fermi image logs JOB -f"))
	root.AddCommand(c)
	if env, _, err := root.Find([]string{"env"}); err == nil && env != root {
		env.AddCommand(save())
	}
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

func (w *where) table(rows [][]string, heads ...fault.Text) error {
	var words []string
	for _, h := range heads {
		words = append(words, h.In(w.Lang))
	}
	for _, row := range rows {
		for i, cell := range row {
			if cell == "" {
				row[i] = "-"
			}
		}
	}
	return cli.Table(w.Cmd.OutOrStdout(), words, rows)
}

// answer shows what was found, or gives it to a program.
func (w *where) answer(f *image.ImageFound) error {
	if o := w.Cmd.Root().PersistentFlags().Lookup("output").Value.String(); o == "json" {
		e := json.NewEncoder(w.Cmd.OutOrStdout())
		e.SetIndent("", "  ")
		return e.Encode(f)
	}
	return w.show(f)
}

// reference is what somebody means by an image: an entry of the catalogue, with its accounts, or itself.
func (w *where) reference(ctx context.Context, text string, s *wishes) (string, error) {
	if !api.IsName(text) {
		return text, nil
	}
	e, err := client.Get[*image.Image](ctx, w.Client, "", text)
	if fault.Is(err, fault.NotFound) {
		return text, nil
	}
	if err != nil {
		return "", err
	}
	for _, c := range e.Spec.Credentials {
		s.credentials = append(s.credentials, c.Secret)
	}
	return e.Spec.Reference, nil
}

func list() *cobra.Command {
	var category, framework, use, search string
	c := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: cli.Both("List the catalogue", "列出镜像目录"), Args: cobra.NoArgs,
		Example: "  fermi image list --category official\n  fermi image list --framework pytorch --search cuda",
		RunE: func(cmd *cobra.Command, _ []string) error {
			w, err := dial(cmd)
			if err != nil {
				return err
			}
			var rows [][]string
			found := []*image.Image{}
			err = w.Walk(cmd.Context(), image.Kind, client.ListOptions{Limit: 500, Sort: "name"}, func(o api.Object) bool {
				i := o.(*image.Image)
				if !i.Matches(image.Category(category), framework, image.Use(use), search) {
					return true
				}
				found = append(found, i)
				size := i.Spec.Size
				checked := "-"
				if v := i.Status.Verified; v != nil {
					checked = v.By + " " + v.At.Local().Format("2006-01-02")
					if v.Found.Size > 0 {
						size = v.Found.Size
					}
				}
				rows = append(rows, []string{i.Meta.Name, string(i.Spec.Category), i.Spec.Framework, i.Spec.CUDA, i.Spec.Python, size.String(), checked, i.Spec.Reference})
				return true
			})
			if err != nil {
				return err
			}
			switch {
			case w.Structured():
				return w.Answer(map[string]any{"items": found})
			case !online.IsTable(cmd):
				for _, i := range found {
					fmt.Fprintf(cmd.OutOrStdout(), "image/%s\n", i.Meta.Name)
				}
				return nil
			}
			return w.table(rows, fault.T("NAME", "名称"), fault.T("CATEGORY", "分类"), fault.T("FRAMEWORK", "框架"), fault.T("CUDA", "CUDA"), fault.T("PYTHON", "Python"), fault.T("SIZE", "大小"), fault.T("CHECKED", "已检查"), fault.T("REFERENCE", "镜像"))
		},
	}
	f := c.Flags()
	f.StringVar(&category, "category", "", cli.Both("official, community or custom", "分类：official、community 或 custom"))
	f.StringVar(&framework, "framework", "", cli.Both("such as pytorch", "框架，如 pytorch"))
	f.StringVar(&use, "use", "", cli.Both("notebook, training or inference", "用途：notebook、training 或 inference"))
	f.StringVar(&search, "search", "", cli.Both("words in name, description and tags", "在名称、说明与标签中搜索"))
	return c
}

func show() *cobra.Command {
	return &cobra.Command{
		Use: "show ENTRY", Short: cli.Both("Show an entry of the catalogue, and what a check found", "查看镜像目录条目与检查结果"), Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := dial(cmd)
			if err != nil {
				return err
			}
			i, err := client.Get[*image.Image](cmd.Context(), w.Client, "", args[0])
			if err != nil {
				return err
			}
			if o := cmd.Root().PersistentFlags().Lookup("output").Value.String(); o == "json" {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				return e.Encode(i)
			}
			s := i.Spec
			out := cmd.OutOrStdout()
			for _, l := range []struct{ en, zh, value string }{
				{"Name", "名称", i.Meta.Name}, {"Image", "镜像", s.Reference}, {"Category", "分类", string(s.Category)}, {"Project", "项目", s.Project}, {"Framework", "框架", s.Framework},
				{"CUDA", "CUDA", s.CUDA}, {"Python", "Python", s.Python}, {"Description", "说明", s.Description.In(w.Lang)}, {"Tags", "标签", strings.Join(s.Tags, ", ")},
			} {
				if l.value != "" {
					fmt.Fprintf(out, "%s: %s\n", fault.Text{EN: l.en, ZH: l.zh}.In(w.Lang), l.value)
				}
			}
			v := i.Status.Verified
			if v == nil {
				w.Say("Nobody has checked it: fermi image verify %s", "尚未检查：fermi image verify %s", i.Meta.Name)
				return nil
			}
			fmt.Fprintln(out, fault.T("Checked by %s at %s (job %s):", "由 %s 于 %s 检查（任务 %s）：", v.By, v.At.Local().Format("2006-01-02 15:04:05"), v.Job).In(w.Lang))
			return w.show(&v.Found)
		},
	}
}

func add() *cobra.Command {
	i := &image.Image{}
	var category, description, size string
	var uses, credentials []string
	c := &cobra.Command{
		Use: "add NAME --reference IMAGE", Short: cli.Both("Add an image to the catalogue", "向镜像目录添加镜像"), Args: cobra.ExactArgs(1),
		Example: "  fermi image add team-train --reference registry.example.org/team/train:v3 --framework \"PyTorch 2.9\" --project lab",
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := dial(cmd)
			if err != nil {
				return err
			}
			i.Meta.Name, i.Spec.Category = args[0], image.Category(category)
			i.Spec.Description = fault.Text{EN: description, ZH: description}
			for _, u := range uses {
				i.Spec.Uses = append(i.Spec.Uses, image.Use(u))
			}
			for _, secret := range credentials {
				i.Spec.Credentials = append(i.Spec.Credentials, api.CredentialRef{Secret: secret})
			}
			if size != "" {
				if i.Spec.Size, err = api.ParseBytes(size); err != nil {
					return err
				}
			}
			if i.Spec.Category == image.Custom {
				i.Spec.Project = w.project()
			}
			made, err := client.Create(cmd.Context(), w.Client, i)
			if err == nil {
				fmt.Fprintln(cmd.OutOrStdout(), made.Meta.Name)
			}
			return err
		},
	}
	f := c.Flags()
	f.StringVar(&i.Spec.Reference, "reference", "", cli.Both("registry/name:tag or registry/name@sha256:…", "registry/name:tag 或 registry/name@sha256:…"))
	f.StringVar(&category, "category", string(image.Custom), cli.Both("official and community are for administrators", "分类；official 与 community 由管理员维护"))
	f.StringVar(&i.Spec.Framework, "framework", "", cli.Both("such as \"PyTorch 2.9\"", "框架，如 PyTorch 2.9"))
	f.StringVar(&i.Spec.CUDA, "cuda", "", cli.Both("version of CUDA in it", "CUDA 版本"))
	f.StringVar(&i.Spec.Python, "python", "", cli.Both("version of Python in it", "Python 版本"))
	f.StringVar(&size, "size", "", cli.Both("about, as 4Gi", "大约大小，如 4Gi"))
	f.StringVar(&description, "description", "", cli.Both("what it is for", "说明"))
	f.StringArrayVar(&i.Spec.Tags, "tag", nil, cli.Both("word to find it by; may be repeated", "标签，可重复"))
	f.StringArrayVar(&uses, "use", nil, cli.Both("notebook, training or inference; may be repeated", "用途，可重复"))
	f.StringArrayVar(&credentials, "credential", nil, cli.Both("secret of type registry of the project; may be repeated", "项目的 registry 类型密钥，可重复"))
	_ = c.MarkFlagRequired("reference")
	return c
}

// project is the one that a custom entry belongs to.
func (w *where) project() string {
	if w.Project == "" {
		return api.DefaultProject
	}
	return w.Project
}

func remove() *cobra.Command {
	return &cobra.Command{
		Use: "delete ENTRY", Short: cli.Both("Delete an entry of the catalogue; the image stays where it is", "删除镜像目录条目，镜像本身不受影响"), Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := dial(cmd)
			if err != nil {
				return err
			}
			return w.Delete(cmd.Context(), image.Kind, "", args[0])
		},
	}
}

func verify() *cobra.Command {
	var s wishes
	c := &cobra.Command{
		Use: "verify ENTRY", Short: cli.Both("Look at the registry of an entry, and write down who checked which digest when", "检查条目的镜像仓库，并记录何人何时检查了哪个摘要"), Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := dial(cmd)
			if err != nil {
				return err
			}
			e, err := client.Get[*image.Image](cmd.Context(), w.Client, "", args[0])
			if err != nil {
				return err
			}
			if e.Spec.Project != "" {
				w.Project = e.Spec.Project
			}
			for _, c := range e.Spec.Credentials {
				s.credentials = append(s.credentials, c.Secret)
			}
			j, err := w.run(cmd.Context(), &image.ImageJob{Spec: image.ImageJobSpec{Do: image.Inspect, Image: e.Spec.Reference}}, &s, false)
			if err != nil || j == nil {
				return err
			}
			if err := w.verified(cmd.Context(), args[0], j); err != nil {
				return err
			}
			return w.answer(j.Status.Found)
		},
	}
	s.bind(c)
	return c
}

// verified writes down what a job found.
func (w *where) verified(ctx context.Context, entry string, j *image.ImageJob) error {
	return client.VerbWith(ctx, w.Client, image.Kind, "", entry, "verify", map[string]string{"job": j.Meta.Name, "project": j.Meta.Project}, nil)
}

// enter makes what a job pushed an entry, or looks at the one that is there again.
func (w *where) enter(ctx context.Context, name string, j *image.ImageJob, credentials []string) error {
	e := &image.Image{Meta: api.Meta{Name: name}, Spec: image.ImageSpec{Reference: j.Spec.Image, Category: image.Custom, Project: j.Meta.Project}}
	for _, secret := range credentials {
		e.Spec.Credentials = append(e.Spec.Credentials, api.CredentialRef{Secret: secret})
	}
	if _, err := client.Create(ctx, w.Client, e); err != nil && fault.ReasonOf(err) != "NameTaken" {
		return err
	}
	return w.verified(ctx, name, j)
}
