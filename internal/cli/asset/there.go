package asset

import (
	"context"
	"io"
	"path"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/asset"
	"github.com/fermi-cluster/fermi/api/v1/mount"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli/download"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// handOver is what a task does that reads one file of a version by reference, which is mounted for it: it leaves the file as an output.
const (
	handOver = `exec cp -- "$FERMI_DATASET/$1" "$FERMI_OUTPUT/file"`
	handed   = "file"
)

// catThere writes the bytes of a file that lies elsewhere. A task of the project reads it: behind its wall, on its network and with its account, once the
// source was held against the list.
func (w *where) catThere(ctx context.Context, name, version, file string) error {
	if err := asset.CheckPath(file); err != nil {
		return err
	}
	t := &api.TrainingTask{Meta: api.Meta{Project: w.Project, DisplayName: "read " + name}}
	t.Spec.Datasets = []api.AssetRef{{Name: name, Version: version, Path: mount.Data + "/" + name}}
	t.Spec.Roles = []api.Role{{
		Name: "worker", Replicas: 1, Command: []string{"/bin/sh", "-c", handOver, "sh", file}, Resources: api.Resources{CPU: 1000, Memory: 256 << 20},
	}}
	made, err := client.Create(ctx, w.Client, t)
	if err != nil {
		return err
	}
	w.Say("its bytes lie elsewhere; task %s reads them:", "数据位于别处，由任务 %s 读取：", made.Meta.Name)
	if err := w.follow(ctx, made); err != nil {
		return err
	}
	left, err := w.Client.Outputs(ctx, made.Meta.Project, made.Meta.Name)
	if err != nil {
		return err
	}
	for _, o := range left {
		if path.Base(o.Path) == handed {
			return download.File(ctx, w.Cmd.OutOrStdout(), o, false, func(part client.OutputPart) (io.ReadCloser, int64, error) {
				return w.Client.OpenOutput(ctx, made.Meta.Project, made.Meta.Name, o.Path, part)
			}, func(r io.Reader) io.Reader { return r })
		}
	}
	return fault.New(fault.Conflict, "NoOutput", fault.T("The task %s left no file; its log says more: fermi logs %[1]s.", "任务 %s 未留下文件，详见日志：fermi logs %[1]s。", made.Meta.Name))
}
