package asset

import (
	"context"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/asset"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/cli/carry"
	"github.com/fermi-cluster/fermi/internal/cli/online"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Add puts `fermi data` and `fermi model` under root.
func Add(root *cobra.Command) {
	data := verbs{asset.DatasetKind, "data"}.command([]string{"dataset", "datasets"}, "Datasets: versions of data that tasks read", "数据集：任务读取的数据版本")
	model := verbs{asset.ModelKind, "model"}.command([]string{"models"}, "Models: versions that tasks make and services load", "模型：任务产出、服务加载的版本")
	model.AddCommand(alias(), stage(), optimize())
	data.AddCommand(look())
	root.AddCommand(data, model, saveHome())
}

// verbs are the commands of a kind.
type verbs struct {
	kind api.Kind
	word string
}

func (v verbs) command(aliases []string, en, zh string) *cobra.Command {
	c := &cobra.Command{
		Use: v.word, Aliases: aliases, Short: cli.Both(en, zh), GroupID: cli.GroupWork,
		Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(v.create(), v.upload(), v.bring(), v.list(), v.versions(), v.show(), v.ls(), v.cat(), v.preview(), v.download(), v.remove())
	return c
}

// where is who is asked.
type where struct {
	online.Where
	kind api.Kind
}

func (v verbs) dial(cmd *cobra.Command) (*where, error) {
	w, err := online.Dial(cmd)
	return &where{w, v.kind}, err
}

func (w *where) of(name string) *client.Asset {
	return client.AssetOf(w.kind, w.Client, w.Project, name)
}

// split reads NAME or NAME@VERSION.
func split(text string) (name, version string) {
	name, version, _ = strings.Cut(text, "@")
	if version == "" {
		version = asset.Latest
	}
	return name, version
}

// fresh is a new one with a description.
func (v verbs) fresh(project, name, description string, private bool) api.Object {
	meta := api.Meta{Name: name, Project: project}
	if v.kind == asset.ModelKind {
		return &asset.Model{Meta: meta, Spec: asset.ModelSpec{Description: description}}
	}
	return &asset.Dataset{Meta: meta, Spec: asset.DatasetSpec{Description: description, Private: private}}
}

func (v verbs) create() *cobra.Command {
	var description, checkpoint, message string
	var private bool
	c := &cobra.Command{
		Use: "create NAME", Short: cli.Both("Make one without versions", "创建（尚无版本）"), Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := v.dial(cmd)
			if err != nil {
				return err
			}
			if checkpoint != "" {
				return w.fromCheckpoint(cmd.Context(), v, args[0], description, checkpoint, message)
			}
			made, err := w.Create(cmd.Context(), v.fresh(w.Project, args[0], description, private), false)
			if err == nil {
				fmt.Fprintln(cmd.OutOrStdout(), made.GetMeta().Name)
			}
			return err
		},
	}
	c.Flags().StringVar(&description, "description", "", cli.Both("what it is, for people", "描述"))
	if v.kind == asset.DatasetKind {
		c.Flags().BoolVar(&private, "private", false, cli.Both("you alone see and use it; not changed later", "仅自己可见可用，创建后不可更改"))
	}
	if v.kind == asset.ModelKind {
		c.Short = cli.Both("Make one without versions, or a version of a task's checkpoint", "创建模型（尚无版本），或由任务的检查点创建版本")
		c.Example = "  fermi model create net\n  fermi model create net --checkpoint gpt-7x2k9@4000 -m \"before the new data\""
		c.Flags().StringVar(&checkpoint, "checkpoint", "", cli.Both("TASK or TASK@STEP: make a version of that checkpoint (the newest), and the model where there is none", "TASK 或 TASK@STEP：由该检查点（默认最新）创建版本；模型不存在时自动创建"))
		c.Flags().StringVarP(&message, "message", "m", "", cli.Both("what is new in that version", "版本说明"))
	}
	return c
}

// fromCheckpoint makes a version of a task's checkpoint; the server reads it.
func (w *where) fromCheckpoint(ctx context.Context, v verbs, name, description, checkpoint, message string) error {
	task, text, named := strings.Cut(checkpoint, "@")
	wish := client.CheckpointWish{Task: task}
	if named {
		step, err := strconv.ParseInt(text, 10, 64)
		if err != nil || step < 1 {
			return fault.New(fault.Invalid, "Usage", fault.T("--checkpoint is written TASK or TASK@STEP, such as gpt-7x2k9@4000.", "--checkpoint 应写作 TASK 或 TASK@STEP，例如 gpt-7x2k9@4000。"))
		}
		wish.Step = step
	}
	if err := w.ensureAs(ctx, v, name, description); err != nil {
		return err
	}
	made, err := w.of(name).Commit(ctx, client.VersionWish{Message: message, Checkpoint: &wish})
	if err != nil {
		return online.ByFlag(err, strings.NewReplacer("checkpoint.task", "--checkpoint", "checkpoint.step", "--checkpoint"))
	}
	fmt.Fprintf(w.Cmd.OutOrStdout(), "%s@%d\n", name, made.Spec.Number)
	return nil
}

// ensure makes it where it is not there.
func (w *where) ensure(ctx context.Context, v verbs, name string) error {
	return w.ensureAs(ctx, v, name, "")
}

// ensureAs is ensure, with a description for a new one.
func (w *where) ensureAs(ctx context.Context, v verbs, name, description string) error {
	_, err := w.Get(ctx, v.kind, w.Project, name)
	if fault.Is(err, fault.NotFound) {
		_, err = w.Create(ctx, v.fresh(w.Project, name, description, false), false)
		if fault.ReasonOf(err) == "NameTaken" {
			err = nil // somebody else just did
		}
	}
	return err
}

func (v verbs) upload() *cobra.Command {
	var message string
	var metadata []string
	c := &cobra.Command{
		Use: "upload NAME PATH", Short: cli.Both("Make a version of a folder or file; only what is new is sent, and a killed upload goes on when it is said again", "将目录或文件上传为新版本；只发送新内容，中断后重新执行即可续传"),
		Args: cobra.ExactArgs(2), Example: "  fermi " + v.word + " upload digits ./digits -m \"cleaned\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := v.dial(cmd)
			if err != nil {
				return err
			}
			pairs := map[string]string{}
			if err := online.Variables(metadata, func(k, v string) { pairs[k] = v }); err != nil {
				return err
			}
			if err := w.ensure(cmd.Context(), v, args[0]); err != nil {
				return err
			}
			made, err := w.upload(cmd.Context(), args[0], args[1], message, pairs)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s@%d\n", args[0], made.Spec.Number)
			return nil
		},
	}
	c.Flags().StringVarP(&message, "message", "m", "", cli.Both("what is new in it", "版本说明"))
	c.Flags().StringArrayVar(&metadata, "metadata", nil, cli.Both("KEY=VALUE; may be repeated", "元数据 KEY=VALUE，可重复"))
	return c
}

// upload sends what is new and makes the version.
func (w *where) upload(ctx context.Context, name, at, message string, metadata map[string]string) (*asset.AssetVersion, error) {
	found, err := carry.Scan(at)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	return w.send(ctx, name, found, client.VersionWish{Message: message, Metadata: metadata})
}

// send sends what is new of what was found, and makes the version.
func (w *where) send(ctx context.Context, name string, found *carry.Found, wish client.VersionWish) (*asset.AssetVersion, error) {
	w.skipped(found)
	to := w.of(name)
	var p carry.Progress
	defer w.watch(&p)()
	m, err := carry.Up(ctx, to, found, &p)
	if err != nil {
		return nil, err
	}
	raw, _ := m.Encode()
	for tries := 0; ; tries++ {
		begun, err := to.Begin(ctx, raw)
		if err != nil {
			return nil, err
		}
		if err := carry.Rest(ctx, to, found, m, begun.Missing, &p); err != nil {
			return nil, err
		}
		wish.Upload = begun.Upload
		made, err := to.Commit(ctx, wish)
		if fault.ReasonOf(err) == "ChunksMissing" && tries < 3 {
			continue
		}
		if err == nil {
			w.Say("%d files, %s; %s in %d chunks were sent", "%d 个文件，共 %s；已发送 %s（%d 个数据块）", len(m.Files), api.Bytes(m.Size()), api.Bytes(p.Sent.Load()), p.Chunks.Load())
		}
		return made, err
	}
}

func (w *where) skipped(found *carry.Found) {
	if n := len(found.Skipped); n > 0 {
		w.Say("%d links and special files are left out, such as %s", "已跳过 %d 个链接或特殊文件，例如 %s", n, found.Skipped[0])
	}
}

// watch shows how far a transfer is, now and then; the answer ends it.
func (w *where) watch(p *carry.Progress) (end func()) {
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(3 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				w.Say("%s of %s", "已完成 %s / %s", api.Bytes(p.Done.Load()), api.Bytes(p.Total.Load()))
			}
		}
	}()
	return func() { close(stop); <-done }
}

func (v verbs) list() *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls-all"}, Short: cli.Both("List them", "列出"), Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !online.IsTable(cmd) {
				return online.Plainly(cmd, v.word)
			}
			w, err := v.dial(cmd)
			if err != nil {
				return err
			}
			t := w.table("NAME\tVERSIONS\tLATEST\tSIZE\tOWNER", "名称\t版本数\t最新\t大小\t所有者")
			err = w.Walk(cmd.Context(), v.kind, client.ListOptions{Project: w.Project, Limit: 500}, func(o api.Object) bool {
				st := o.(asset.Asset).State()
				fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\n", o.GetMeta().Name, st.Versions, number(st.Latest), st.Size, o.GetMeta().Owner)
				return true
			})
			if err != nil {
				return err
			}
			return t.Flush()
		},
	}
}

func number(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

func (w *where) table(en, zh string) *tabwriter.Writer {
	t := tabwriter.NewWriter(w.Cmd.OutOrStdout(), 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, fault.Text{EN: en, ZH: zh}.In(w.Lang))
	return t
}

func (v verbs) versions() *cobra.Command {
	return &cobra.Command{
		Use: "versions NAME", Short: cli.Both("List its versions, newest first", "列出版本（从新到旧）"), Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := v.dial(cmd)
			if err != nil {
				return err
			}
			all, err := w.of(args[0]).Versions(cmd.Context())
			if err != nil {
				return err
			}
			switch {
			case w.Structured():
				return w.Answer(map[string]any{"items": all})
			case !online.IsTable(cmd):
				for _, x := range all {
					fmt.Fprintf(cmd.OutOrStdout(), "%s@%d\n", x.Spec.Asset, x.Spec.Number)
				}
				return nil
			}
			known, err := w.marks(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			t := w.table("VERSION\tFILES\tSIZE\tNEW\tMADE\tFROM"+known.head.EN+"\tMESSAGE", "版本\t文件\t大小\t新增\t创建时间\t来源"+known.head.ZH+"\t说明")
			for _, x := range all {
				fmt.Fprintf(t, "%d\t%d\t%s\t%s\t%s\t%s%s\t%s\n", x.Spec.Number, x.Spec.Files, x.Spec.Size, x.Spec.New, x.Meta.CreatedAt.Local().Format("2006-01-02 15:04"), from(x), known.cells(x.Spec.Number), oneLine(x.Spec.Message))
			}
			return t.Flush()
		},
	}
}

// from says in a word what a version was made from.
func from(x *asset.AssetVersion) string {
	source := x.Spec.Source
	if o := x.Spec.Origin; o != nil {
		if o.Checkpoint > 0 {
			return fmt.Sprintf("checkpoint %s@%d", o.Task, o.Checkpoint)
		}
		if o.Task != "" {
			return "task " + o.Task
		}
		source = o.Imported
	}
	switch {
	case source == nil:
		return "upload"
	case source.S3 != nil:
		return "s3://" + path.Join(source.S3.Bucket, source.S3.Prefix)
	}
	return "folder " + source.Folder
}

func oneLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s[:min(len(s), 60)]
}

func (v verbs) show() *cobra.Command {
	return &cobra.Command{
		Use: "show NAME[@VERSION]", Short: cli.Both("Show a version", "查看版本"), Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := v.dial(cmd)
			if err != nil {
				return err
			}
			name, version := split(args[0])
			x, err := w.of(name).Version(cmd.Context(), version)
			if err != nil {
				return err
			}
			switch {
			case w.Structured():
				return w.Answer(x)
			case !online.IsTable(cmd):
				fmt.Fprintf(cmd.OutOrStdout(), "%s@%d\n", x.Spec.Asset, x.Spec.Number)
				return nil
			}
			known, err := w.marks(cmd.Context(), name)
			if err != nil {
				return err
			}
			t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 4, 2, ' ', 0)
			line := func(en, zh string, value any) {
				fmt.Fprintf(t, "%s\t%v\n", fault.Text{EN: en, ZH: zh}.In(w.Lang), value)
			}
			line("Name", "名称", x.Spec.Asset)
			line("Version", "版本", x.Spec.Number)
			if names := known.aliases(x.Spec.Number); names != "" {
				line("Aliases", "别名", names)
			}
			if stage := known.stage(x.Spec.Number); stage != "" {
				line("Stage", "阶段", stage)
			}
			line("Files", "文件", x.Spec.Files)
			line("Size", "大小", x.Spec.Size)
			line("New", "新增", x.Spec.New)
			if x.Spec.Format != "" {
				line("Format", "格式", x.Spec.Format)
			}
			line("Made", "创建时间", x.Meta.CreatedAt.Local().Format(time.DateTime)+" "+x.Meta.Owner)
			line("From", "来源", from(x))
			if o := x.Spec.Origin; o != nil {
				for _, d := range o.Datasets {
					line("Made from", "来源数据", fmt.Sprintf("%s@%d", d.Name, d.Version))
				}
				for _, m := range o.Models {
					line("Made with", "来源模型", fmt.Sprintf("%s@%d", m.Name, m.Version))
				}
			}
			line("Manifest", "清单", x.Spec.Manifest)
			if x.Spec.Message != "" {
				line("Message", "说明", x.Spec.Message)
			}
			if err := w.lines(cmd.Context(), x, line); err != nil {
				return err
			}
			for _, k := range slices.Sorted(maps.Keys(x.Spec.Metadata)) {
				line(k, k, x.Spec.Metadata[k])
			}
			return t.Flush()
		},
	}
}

// lines say what a version went into.
func (w *where) lines(ctx context.Context, x *asset.AssetVersion, line func(en, zh string, value any)) error {
	all, err := w.of(x.Spec.Asset).Lineage(ctx)
	if err != nil {
		return err
	}
	for _, v := range all.Versions {
		if v.Number != x.Spec.Number {
			continue
		}
		for _, u := range v.UsedBy {
			line("Used by", "使用者", fmt.Sprintf("%s %s %s", api.MustInfo(u.Kind).Singular, u.Name, u.Phase))
		}
		for _, m := range v.Models {
			line("Went into", "产出", fmt.Sprintf("%s@%d (%s)", m.Model+m.Dataset, m.Version, m.Task)) // it is the one or the other
		}
	}
	return nil
}

func (v verbs) ls() *cobra.Command {
	return &cobra.Command{
		Use: "ls NAME[@VERSION] [FOLDER]", Short: cli.Both("List what lies in a folder of a version", "列出版本中某目录的内容"), Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := v.dial(cmd)
			if err != nil {
				return err
			}
			dir := ""
			if len(args) > 1 {
				dir = args[1]
			}
			name, version := split(args[0])
			all, err := w.of(name).Files(cmd.Context(), version, dir)
			if err != nil {
				return err
			}
			t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 4, 2, ' ', 0)
			for _, e := range all {
				if e.Dir {
					fmt.Fprintf(t, "%s/\t%s\t%d\n", e.Name, e.Size, e.Files)
				} else {
					fmt.Fprintf(t, "%s\t%s\t\n", e.Name, e.Size)
				}
			}
			return t.Flush()
		},
	}
}

func (v verbs) cat() *cobra.Command {
	return &cobra.Command{
		Use: "cat NAME[@VERSION] FILE", Short: cli.Both("Write the bytes of a file", "输出文件内容"), Args: cobra.ExactArgs(2),
		Long: cli.Both("Write the bytes of a file. Where the version is a list of what lies elsewhere, a task of yours reads the file there, once the source was held against the list.",
			"输出文件内容。对于引用版本，由您的任务在数据所在处读取，读取前会核对来源是否与清单一致。"),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := v.dial(cmd)
			if err != nil {
				return err
			}
			name, version := split(args[0])
			in, err := w.of(name).Open(cmd.Context(), version, args[1], 0)
			if fault.ReasonOf(err) == "ByReference" {
				return w.catThere(cmd.Context(), name, version, args[1])
			}
			if err != nil {
				return err
			}
			defer in.Close()
			if _, err := io.Copy(cmd.OutOrStdout(), in); err != nil {
				return fault.New(fault.Unavailable, "CutShort", fault.T("The transfer broke off before its end; try again.", "传输中断，请重试。")).Because(err)
			}
			return nil
		},
	}
}

func (v verbs) download() *cobra.Command {
	return &cobra.Command{
		Use: "download NAME[@VERSION] [FOLDER]", Short: cli.Both("Lay a version out in a folder; what is there whole is not fetched again", "下载版本到目录；已完整的文件不再下载"), Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := v.dial(cmd)
			if err != nil {
				return err
			}
			name, version := split(args[0])
			dir := name
			if len(args) > 1 {
				dir = args[1]
			}
			return w.down(cmd.Context(), name, version, dir)
		},
	}
}

func (w *where) down(ctx context.Context, name, version, dir string) error {
	at := w.of(name)
	x, err := at.Version(ctx, version)
	if err != nil {
		return err
	}
	if x.Spec.Source != nil {
		return w.downThere(ctx, name, x, dir)
	}
	version = strconv.Itoa(x.Spec.Number)
	raw, err := at.Manifest(ctx, version)
	if err != nil {
		return err
	}
	if asset.Sum(raw).String() != x.Spec.Manifest {
		return fault.New(fault.Unavailable, "CutShort", fault.T("The list of files came damaged; try again.", "文件清单在传输中损坏，请重试。"))
	}
	m, err := asset.Decode(raw)
	if err != nil {
		return err
	}
	var p carry.Progress
	defer w.watch(&p)()
	err = carry.Down(ctx, func(ctx context.Context, h asset.Hash) ([]byte, error) { return at.Chunk(ctx, version, h) }, m, dir, &p)
	if err == nil {
		w.Say("%d files in %s; %s were fetched", "%d 个文件已位于 %s；下载了 %s", len(m.Files), dir, api.Bytes(p.Sent.Load()))
	}
	return err
}

func (v verbs) remove() *cobra.Command {
	return &cobra.Command{
		Use: "delete NAME[@VERSION]", Short: cli.Both("Delete a version, or with no version all of it; what is in use stays", "删除某个版本；不指定版本则全部删除；使用中的不会删除"), Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := v.dial(cmd)
			if err != nil {
				return err
			}
			name, version, one := strings.Cut(args[0], "@")
			if one {
				return w.of(name).DeleteVersion(cmd.Context(), version)
			}
			return w.Delete(cmd.Context(), v.kind, w.Project, name)
		},
	}
}
