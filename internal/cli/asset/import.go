package asset

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/asset"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/bucket"
	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/cli/carry"
	"github.com/fermi-cluster/fermi/internal/cli/online"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// An import is read by a task of the project: behind its wall, on its network, with its account. What that task runs is this same command with --here.

// wish is what shall be imported, as the flags say it.
type wish struct {
	s3              asset.S3Source
	folder          string
	reference, here bool
	message         string
	zone, image     string
	cpu, memory     string
	detach          bool
}

func (v verbs) bring() *cobra.Command {
	var w wish
	c := &cobra.Command{
		Use:   "import NAME s3://BUCKET[/PREFIX] | --folder NAME[/PATH]",
		Short: cli.Both("Make a version of what lies in a bucket or in a folder of the machines; a task of yours reads it there", "将桶或主机目录中的内容导入为新版本；由您项目中的任务就地读取"),
		Args:  cobra.RangeArgs(1, 2),
		Example: "  fermi " + v.word + " import faces s3://photos/faces --secret store\n" +
			"  fermi " + v.word + " import faces --folder shared/faces",
		RunE: func(cmd *cobra.Command, args []string) error {
			at, err := v.dial(cmd)
			if err != nil {
				return err
			}
			from, err := w.source(args[1:])
			if err != nil {
				return err
			}
			if w.here {
				return at.readHere(cmd.Context(), args[0], v, from, &w)
			}
			return at.inTask(cmd.Context(), args[0], v, from, &w)
		},
	}
	f := c.Flags()
	f.StringVar(&w.folder, "folder", "", cli.Both("folder of the machines that the project was granted: NAME, or NAME/PATH in it", "已授予项目的主机目录：NAME，或其下的 NAME/PATH"))
	f.StringVar(&w.s3.Secret, "secret", "", cli.Both("secret of type s3 with the account for the bucket", "访问桶所用的 s3 类型密钥"))
	f.StringVar(&w.s3.Endpoint, "endpoint", "", cli.Both("URL of the S3 server; that of the secret when absent", "S3 服务地址；默认取密钥中的地址"))
	f.StringVar(&w.s3.Region, "region", "", cli.Both("region of the bucket; that of the secret when absent", "桶所在区域；默认取密钥中的区域"))
	f.StringVarP(&w.message, "message", "m", "", cli.Both("what is new in it", "版本说明"))
	f.StringVar(&w.zone, "zone", "", cli.Both("zone that it is read in", "在哪个可用区读取"))
	f.StringVar(&w.image, "image", "", cli.Both("image of the task, where nodes need one", "任务镜像（节点需要时）"))
	f.StringVar(&w.cpu, "cpu", "1", cli.Both("cores of the task", "任务的 CPU 核数"))
	f.StringVar(&w.memory, "memory", "1Gi", cli.Both("memory of the task", "任务的内存"))
	f.BoolVarP(&w.detach, "detach", "d", false, cli.Both("don't wait for its end", "不等待其结束"))
	f.BoolVar(&w.here, "here", false, cli.Both("read it in this process: the bucket with the account of the AWS settings, the folder NAME/PATH as the current one", "在本进程中读取：桶使用 AWS 配置中的帐号，目录即当前目录"))
	if v.kind == asset.DatasetKind {
		f.BoolVar(&w.reference, "reference", false, cli.Both("leave the bytes where they are: the version is a listing, which is held against them at each use", "数据留在原处：版本仅为清单，每次使用时与之核对"))
	}
	return c
}

// source is where it lies.
func (w *wish) source(args []string) (*asset.Source, error) {
	from := &asset.Source{Folder: w.folder}
	if len(args) > 0 {
		rest, ok := strings.CutPrefix(args[0], "s3://")
		if !ok {
			return nil, usage(args[0], fault.T("%.200q is no bucket: write s3://BUCKET/PREFIX, or --folder NAME.", "%.200q 不是桶地址：请写作 s3://BUCKET/PREFIX，或使用 --folder NAME。", args[0]))
		}
		s := w.s3
		s.Bucket, s.Prefix, _ = strings.Cut(rest, "/")
		s.Prefix = strings.Trim(s.Prefix, "/")
		from.S3 = &s
	}
	if bad := asset.CheckSource("source", from); len(bad) > 0 {
		return nil, online.ByFlag(fault.New(fault.Invalid, "Usage", fault.T("The source can't be used.", "来源不可用。")).WithFields(bad...), sourceFlags)
	}
	return from, nil
}

func usage(flag string, why fault.Text) error {
	return fault.New(fault.Invalid, "Usage", why).WithFields(fault.Field{Path: flag, Message: why})
}

var sourceFlags = strings.NewReplacer(
	"source.s3.secret", "--secret", "source.s3.endpoint", "--endpoint", "source.s3.region", "--region", "source.s3.bucket", "BUCKET", "source.s3.prefix", "PREFIX", "source.folder", "--folder",
	"spec.credentials[0].secret", "--secret", "spec.code.folder", "--folder", "spec.image", "--image", "spec.roles[0].resources.cpu", "--cpu", "spec.roles[0].resources.memory", "--memory",
)

// task is what reads a source for a version of an asset.
func (w *wish) task(project, name string, v verbs, from *asset.Source) (*api.TrainingTask, error) {
	t := &api.TrainingTask{Meta: api.Meta{Project: project, DisplayName: "import " + name}}
	command := []string{"fermi", v.word, "import", name}
	if s := from.S3; s != nil {
		command = append(command, "s3://"+strings.TrimSuffix(s.Bucket+"/"+s.Prefix, "/"), "--secret", s.Secret)
		if s.Endpoint != "" {
			command = append(command, "--endpoint", s.Endpoint)
		}
		if s.Region != "" {
			command = append(command, "--region", s.Region)
		}
		t.Spec.Credentials = []api.CredentialRef{{Secret: s.Secret}}
	} else {
		command = append(command, "--folder", from.Folder)
		t.Spec.Code = &api.Code{Folder: from.Folder}
	}
	if w.reference {
		command = append(command, "--reference")
	}
	if w.message != "" {
		command = append(command, "--message", w.message)
	}
	role := api.Role{Name: "worker", Replicas: 1, Command: append(command, "--here"), Image: w.image}
	t.Spec.Roles = []api.Role{role}
	if w.zone != "" {
		t.Spec.Zones = &api.ZoneRules{Allow: []string{w.zone}}
	}
	r := &t.Spec.Roles[0].Resources
	return t, online.All(online.Amount("cpu", w.cpu, &r.CPU), online.Amount("memory", w.memory, &r.Memory))
}

// inTask has a task read it, and follows that to its end.
func (w *where) inTask(ctx context.Context, name string, v verbs, from *asset.Source, what *wish) error {
	if err := w.ensure(ctx, v, name); err != nil {
		return err
	}
	t, err := what.task(w.Project, name, v, from)
	if err != nil {
		return err
	}
	made, err := client.Create(ctx, w.Client, t)
	if err != nil {
		return online.ByFlag(err, sourceFlags)
	}
	if what.detach {
		fmt.Fprintln(w.Cmd.OutOrStdout(), made.Meta.Name)
		return nil
	}
	w.Say("task %s reads it; its log:", "由任务 %s 读取，日志：", made.Meta.Name)
	if err := w.follow(ctx, made); err != nil {
		return err
	}
	x, err := w.of(name).Version(ctx, asset.Latest)
	if err == nil {
		fmt.Fprintf(w.Cmd.OutOrStdout(), "%s@%d\n", name, x.Spec.Number)
	}
	return err
}

// follow shows the log of a task until it has ended, which must be well.
func (w *where) follow(ctx context.Context, made *api.TrainingTask) error {
	err := client.LogsOf(ctx, w.Client, api.KindTrainingTask, made.Meta.Project, made.Meta.Name, client.LogOptions{Follow: true}, func(l client.LogLine) error {
		fmt.Fprintln(w.Cmd.ErrOrStderr(), fault.Unpack(l.Text).In(w.Lang))
		return nil
	})
	if err != nil {
		return err
	}
	const lookEvery = 100 * time.Millisecond
	err = online.Until(ctx, lookEvery, func() (*api.TrainingTask, error) {
		return client.Get[*api.TrainingTask](ctx, w.Client, made.Meta.Project, made.Meta.Name)
	}, func(now *api.TrainingTask) (bool, error) {
		made = now
		return now.Status.Phase.Finished(), nil
	})
	if err != nil {
		return err
	}
	if made.Status.Phase != api.PhaseCompleted {
		return fault.New(fault.Conflict, made.Status.Reason, made.Status.Message)
	}
	return nil
}

// readHere reads it in this process.
func (w *where) readHere(ctx context.Context, name string, v verbs, from *asset.Source, what *wish) error {
	if err := w.ensure(ctx, v, name); err != nil {
		return err
	}
	found, err := w.find(ctx, from)
	if err != nil {
		return err
	}
	defer found.Close()
	var made *asset.AssetVersion
	if what.reference {
		made, err = w.refer(ctx, name, found, client.VersionWish{Message: what.message, Source: from})
	} else {
		made, err = w.send(ctx, name, found, client.VersionWish{Message: what.message, Imported: from})
	}
	if err == nil {
		fmt.Fprintf(w.Cmd.OutOrStdout(), "%s@%d\n", name, made.Spec.Number)
	}
	return err
}

// find lists what lies there.
func (w *where) find(ctx context.Context, from *asset.Source) (*carry.Found, error) {
	if from.S3 == nil {
		return carry.Scan(".")
	}
	began := time.Now()
	account, err := bucket.Account(ctx)
	if err != nil {
		return nil, fault.New(fault.Invalid, "NoAccount", fault.T("There is no account for the bucket here.", "此处没有访问桶的帐号。")).
			WithHint(fault.T("Name a secret of type s3 (--secret), or leave --here out.", "请用 --secret 指定 s3 类型的密钥，或去掉 --here。")).Because(err)
	}
	b := bucket.Open(*from.S3, account)
	files, skipped, err := b.List(ctx)
	if err != nil {
		return nil, fault.From(err)
	}
	w.Say("%d objects were listed in %.1f s", "已列出 %d 个对象，用时 %.1f 秒", len(files), time.Since(began).Seconds())
	return carry.Elsewhere(files, skipped, func(f asset.File) (io.ReadCloser, error) { return b.Open(ctx, f), nil }), nil
}

// refer makes a version of a listing.
func (w *where) refer(ctx context.Context, name string, found *carry.Found, wish client.VersionWish) (*asset.AssetVersion, error) {
	w.skipped(found)
	if len(found.Listing) == 0 {
		return nil, usage("--folder", fault.T("A version by reference is of a folder, not of one file.", "引用版本须为目录，而非单个文件。"))
	}
	raw, err := json.Marshal(&asset.Manifest{Version: asset.Format, Files: found.Listing})
	if err != nil {
		return nil, fault.From(err)
	}
	to := w.of(name)
	begun, err := to.BeginListing(ctx, raw)
	if err != nil {
		return nil, err
	}
	wish.Upload = begun.Upload
	made, err := to.Commit(ctx, wish)
	if err == nil {
		w.Say("%d files, %s, were listed; they stay where they are", "已列出 %d 个文件，共 %s；数据留在原处", made.Spec.Files, made.Spec.Size)
	}
	return made, err
}
