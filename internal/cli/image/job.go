package image

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/image"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/cli/online"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// where is who is asked.
type where struct{ online.Where }

func dial(cmd *cobra.Command) (*where, error) {
	w, err := online.Dial(cmd)
	return &where{w}, err
}

const lookEvery = 100 * time.Millisecond

// wishes are the flags of all jobs.
type wishes struct {
	credentials       []string
	zone, cpu, memory string
	detach            bool
}

func (s *wishes) bind(c *cobra.Command) {
	f := c.Flags()
	f.StringArrayVar(&s.credentials, "credential", nil, cli.Both("secret of type registry with an account; may be repeated", "镜像仓库帐号所在的 registry 类型密钥，可重复"))
	f.StringVar(&s.zone, "zone", "", cli.Both("zone that it runs in", "可用区"))
	f.StringVar(&s.cpu, "cpu", "", cli.Both("cores, as 4 or 500m", "CPU 核数，如 4 或 500m"))
	f.StringVar(&s.memory, "memory", "", cli.Both("memory, as 4Gi", "内存，如 4Gi"))
	f.BoolVarP(&s.detach, "detach", "d", false, cli.Both("don't wait for its end", "不等待其结束"))
}

// asked is who is asked, and the image that a word of the command line means.
func (s *wishes) asked(cmd *cobra.Command, word string) (*where, string, error) {
	w, err := dial(cmd)
	if err != nil {
		return nil, "", err
	}
	reference, err := w.reference(cmd.Context(), word, s)
	return w, reference, err
}

// into puts the flags into a job.
func (s *wishes) into(j *image.ImageJob) error {
	for _, secret := range s.credentials {
		j.Spec.Credentials = append(j.Spec.Credentials, api.CredentialRef{Secret: secret})
	}
	if j.Spec.Zone == "" {
		j.Spec.Zone = s.zone
	}
	return online.All(online.Amount("cpu", s.cpu, &j.Spec.Resources.CPU), online.Amount("memory", s.memory, &j.Spec.Resources.Memory))
}

// fieldFlags are the arguments behind the fields of a job.
var fieldFlags = strings.NewReplacer(
	"spec.image", "IMAGE", "spec.build.file", "--file", "spec.build.target", "--target", "spec.build.args", "--build-arg", "spec.code", "FOLDER", "spec.node", "--node",
	"spec.zone", "--zone", "spec.resources.cpu", "--cpu", "spec.resources.memory", "--memory", "spec.credentials", "--credential", "spec.environment", "NAME",
)

// run makes a job, follows it to its end and shows what it prints; nil: it was left alone.
func (w *where) run(ctx context.Context, j *image.ImageJob, s *wishes, prints bool) (*image.ImageJob, error) {
	j.Meta.Project, j.Meta.DisplayName = w.Project, called(j)
	if err := s.into(j); err != nil {
		return nil, err
	}
	made, err := client.Create(ctx, w.Client, j)
	if err != nil {
		return nil, online.ByFlag(err, fieldFlags)
	}
	if s.detach {
		fmt.Fprintln(w.Cmd.OutOrStdout(), made.Meta.Name)
		return nil, nil
	}
	if prints {
		w.Say("job %s; its log:", "任务 %s，日志：", made.Meta.Name)
	}
	return w.follow(ctx, made, prints)
}

// called is what a job is called: what it does with which image.
func called(j *image.ImageJob) string {
	name := j.Spec.Image[strings.LastIndexByte(j.Spec.Image, '/')+1:]
	name, _, _ = strings.Cut(name, "@")
	return string(j.Spec.Do) + " " + name[:min(len(name), 40)]
}

// follow waits for a job's end.
func (w *where) follow(ctx context.Context, j *image.ImageJob, prints bool) (*image.ImageJob, error) {
	project, name := j.Meta.Project, j.Meta.Name
	if prints {
		err := client.LogsOf(ctx, w.Client, image.JobKind, project, name, client.LogOptions{Follow: true}, func(l client.LogLine) error {
			fmt.Fprintln(w.Cmd.ErrOrStderr(), fault.Unpack(l.Text).In(w.Lang))
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	told := ""
	err := online.Until(ctx, lookEvery, func() (*image.ImageJob, error) { return client.Get[*image.ImageJob](ctx, w.Client, project, name) }, func(now *image.ImageJob) (bool, error) {
		j = now
		if st := now.Status; st.Reason != told && !st.Phase.Finished() && st.Phase == api.PhasePending && told != "" {
			w.Say("%s: %s", "%s：%s", name, st.Message.In(w.Lang))
		}
		told = now.Status.Reason
		return now.Status.Phase.Finished(), nil
	})
	if err != nil {
		return nil, err
	}
	if j.Status.Phase != api.PhaseCompleted {
		return nil, fault.New(fault.Conflict, j.Status.Reason, j.Status.Message)
	}
	return j, nil
}

// show tells what a registry said.
func (w *where) show(f *image.ImageFound) error {
	t := tabwriter.NewWriter(w.Cmd.OutOrStdout(), 0, 4, 2, ' ', 0)
	line := func(en, zh, value string) {
		if value != "" {
			fmt.Fprintf(t, "%s\t%s\n", fault.Text{EN: en, ZH: zh}.In(w.Lang), value)
		}
	}
	line("Image", "镜像", f.Reference)
	line("Digest", "摘要", f.Digest)
	if f.Layers > 0 {
		line("Size", "大小", fmt.Sprintf("%s (%d)", f.Size, f.Layers))
	}
	line("Platforms", "平台", strings.Join(f.Platforms, ", "))
	if f.Created != nil {
		line("Created", "创建时间", f.Created.Local().Format(time.DateTime))
	}
	line("Entry point", "入口", quoted(f.Entrypoint))
	line("Command", "命令", quoted(f.Cmd))
	line("User", "用户", f.User)
	line("Directory", "工作目录", f.WorkingDir)
	line("Ports", "端口", strings.Join(f.Ports, ", "))
	for _, k := range sortedKeys(f.Labels) {
		line("Label "+k, "标签 "+k, oneLine(f.Labels[k]))
	}
	return t.Flush()
}

func quoted(words []string) string {
	out := make([]string, len(words))
	for i, word := range words {
		out[i] = fmt.Sprintf("%q", word)
	}
	return strings.Join(out, " ")
}

func oneLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

func inspect() *cobra.Command {
	var s wishes
	c := &cobra.Command{
		Use: "inspect IMAGE|ENTRY", Short: cli.Both("Read digest, size, platforms, labels and entry point from its registry, on a node and with the project's accounts", "从镜像仓库读取摘要、大小、平台、标签与入口（在节点上以项目帐号读取）"), Args: cobra.ExactArgs(1),
		Example: "  fermi image inspect python:3.12-slim\n  fermi image inspect registry.example.org/team/train:v3 --credential hub",
		RunE: func(cmd *cobra.Command, args []string) error {
			w, reference, err := s.asked(cmd, args[0])
			if err != nil {
				return err
			}
			j, err := w.run(cmd.Context(), &image.ImageJob{Spec: image.ImageJobSpec{Do: image.Inspect, Image: reference}}, &s, false)
			if err != nil || j == nil {
				return err
			}
			return w.answer(j.Status.Found)
		},
	}
	s.bind(c)
	return c
}

// product is an image that a job makes and pushes.
type product struct {
	wishes
	tag, entry string
}

func (p *product) bind(c *cobra.Command) {
	f := c.Flags()
	f.StringVarP(&p.tag, "tag", "t", "", cli.Both("where it is pushed: registry/name:tag", "推送位置：registry/name:tag"))
	f.StringVar(&p.entry, "entry", "", cli.Both("make it a custom entry of the catalogue with this name", "以该名称加入镜像目录（自定义）"))
	_ = c.MarkFlagRequired("tag")
	p.wishes.bind(c)
}

// make runs the job, brings what came of it into the catalogue where that is wished, and says what it is.
func (p *product) make(ctx context.Context, w *where, spec image.ImageJobSpec) error {
	spec.Image = p.tag
	j, err := w.run(ctx, &image.ImageJob{Spec: spec}, &p.wishes, true)
	if err != nil || j == nil {
		return err
	}
	if p.entry != "" {
		if err := w.enter(ctx, p.entry, j, p.credentials); err != nil {
			return err
		}
	}
	return w.answer(j.Status.Found)
}

func build() *cobra.Command {
	var p product
	var r image.ImageRecipe
	var args []string
	c := &cobra.Command{
		Use: "build [FOLDER]", Short: cli.Both("Build an image from a Dockerfile on a node, and push it", "在节点上用 Dockerfile 构建镜像并推送"), Args: cobra.MaximumNArgs(1),
		Example: "  fermi image build . --file Dockerfile --tag registry.example.org/team/train:v3 --credential hub",
		RunE: func(cmd *cobra.Command, folder []string) error {
			w, err := dial(cmd)
			if err != nil {
				return err
			}
			if err := online.Variables(args, func(k, v string) {
				if r.Args == nil {
					r.Args = map[string]string{}
				}
				r.Args[k] = v
			}); err != nil {
				return err
			}
			dir := "."
			if len(folder) > 0 {
				dir = folder[0]
			}
			digest, err := cli.Ship(cmd, w.Client, dir)
			if err != nil {
				return err
			}
			return p.make(cmd.Context(), w, image.ImageJobSpec{Do: image.Build, Build: &r, Code: &api.Code{Archive: digest}})
		},
	}
	f := c.Flags()
	f.StringVarP(&r.File, "file", "f", "", cli.Both("the Dockerfile in the folder", "目录中的 Dockerfile"))
	f.StringVar(&r.Target, "target", "", cli.Both("the stage to build; the last when absent", "要构建的阶段，默认为最后一个"))
	f.StringArrayVar(&args, "build-arg", nil, cli.Both("NAME=VALUE; may be repeated; no place for secrets", "构建参数 NAME=VALUE，可重复；请勿存放机密"))
	f.BoolVar(&r.Fresh, "no-cache", false, cli.Both("take nothing from the project's cache on the node", "不使用节点上的项目缓存"))
	p.bind(c)
	return c
}

func pull() *cobra.Command {
	var s wishes
	var node string
	c := &cobra.Command{
		Use: "pull IMAGE|ENTRY", Short: cli.Both("Bring an image to a node, or to every node of a zone, before anything needs it", "预先将镜像拉取到某个节点或可用区的所有节点"), Args: cobra.ExactArgs(1),
		Example: "  fermi image pull python:3.12-slim --zone beijing-1\n  fermi image pull python:3.12-slim --node gpu-07",
		RunE: func(cmd *cobra.Command, args []string) error {
			w, reference, err := s.asked(cmd, args[0])
			if err != nil {
				return err
			}
			nodes := []string{node}
			if node == "" && s.zone != "" {
				if nodes, err = w.nodesOf(cmd.Context(), s.zone); err != nil {
					return err
				}
			}
			return w.pull(cmd.Context(), reference, nodes, &s)
		},
	}
	c.Flags().StringVar(&node, "node", "", cli.Both("the node", "节点"))
	s.bind(c)
	return c
}

// nodesOf are the nodes of a zone where something may start.
func (w *where) nodesOf(ctx context.Context, zone string) (names []string, err error) {
	err = w.Walk(ctx, api.KindNode, client.ListOptions{Limit: 500}, func(o api.Object) bool {
		if n := o.(*api.Node); n.Spec.Zone == zone && !n.Spec.Cordoned && !n.Spec.Virtual {
			names = append(names, n.Meta.Name)
		}
		return true
	})
	if err == nil && len(names) == 0 { // virtual ones are all this machine
		names = []string{""}
	}
	return names, err
}

// pull has jobs bring it, side by side, and waits for all.
func (w *where) pull(ctx context.Context, reference string, nodes []string, s *wishes) error {
	var made []*image.ImageJob
	for _, node := range nodes {
		j := &image.ImageJob{Meta: api.Meta{Project: w.Project}, Spec: image.ImageJobSpec{Do: image.Pull, Image: reference, ImagePlace: image.ImagePlace{Node: node}}}
		j.Meta.DisplayName = called(j)
		if err := s.into(j); err != nil {
			return err
		}
		one, err := client.Create(ctx, w.Client, j)
		if err != nil {
			return online.ByFlag(err, fieldFlags)
		}
		made = append(made, one)
	}
	var failed error
	for _, j := range made {
		if s.detach {
			fmt.Fprintln(w.Cmd.OutOrStdout(), j.Meta.Name)
			continue
		}
		end, err := w.follow(ctx, j, false)
		if err != nil {
			failed = err
			continue
		}
		fmt.Fprintf(w.Cmd.OutOrStdout(), "%s\t%s\n", strings.Join(end.Status.Zones, ","), end.Status.Found.Digest)
	}
	return failed
}

// Save is `fermi env save`.
func save() *cobra.Command {
	var p product
	c := &cobra.Command{
		Use: "save NAME", Short: cli.Both("Push an environment that is stopped as an image: its image and what was written over it", "将已停止的环境保存为镜像并推送：其镜像与在其上写入的内容"), Args: cobra.ExactArgs(1),
		Example: "  fermi env save lab --tag registry.example.org/team/lab:v1 --credential hub",
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := dial(cmd)
			if err != nil {
				return err
			}
			return p.make(cmd.Context(), w, image.ImageJobSpec{Do: image.Save, Environment: args[0]})
		},
	}
	p.bind(c)
	return c
}

func jobs() *cobra.Command {
	return &cobra.Command{
		Use: "jobs", Short: cli.Both("List builds and other jobs with images", "列出构建等镜像任务"), Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			w, err := dial(cmd)
			if err != nil {
				return err
			}
			var rows [][]string
			err = w.Walk(cmd.Context(), image.JobKind, client.ListOptions{Project: w.Project, Limit: 500}, func(o api.Object) bool {
				j := o.(*image.ImageJob)
				rows = append(rows, []string{j.Meta.Name, string(j.Spec.Do), j.Spec.Image, string(j.Status.Phase), j.Meta.Owner, j.Meta.CreatedAt.Local().Format("2006-01-02 15:04")})
				return true
			})
			if err != nil {
				return err
			}
			return w.table(rows, fault.T("NAME", "名称"), fault.T("DOES", "操作"), fault.T("IMAGE", "镜像"), fault.T("STATE", "状态"), fault.T("OWNER", "所有者"), fault.T("MADE", "创建时间"))
		},
	}
}

func stop() *cobra.Command {
	return &cobra.Command{
		Use: "stop JOB", Short: cli.Both("End a job; what it has not pushed is not pushed", "停止镜像任务；尚未推送的不再推送"), Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := dial(cmd)
			if err != nil {
				return err
			}
			return client.Verb(cmd.Context(), w.Client, image.JobKind, w.Project, args[0], "stop", nil)
		},
	}
}
