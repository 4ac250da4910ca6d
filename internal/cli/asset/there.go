package asset

import (
	"context"
	"errors"
	"io"
	"os"
	"path"
	"strconv"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/asset"
	"github.com/fermi-cluster/fermi/api/v1/mount"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli/download"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// What a task does that reads a version by reference, which is mounted for it: it leaves one file, or all, as outputs.
const (
	handOne = `exec cp -- "$FERMI_DATASET/$1" "$FERMI_OUTPUT/$2"`
	handAll = `exec cp -r -- "$FERMI_DATASET/." "$FERMI_OUTPUT"`
	handed  = "file"
)

// there has a task of the project read a version that lies elsewhere: behind its wall, on its network and with its account, once the source was held
// against the list. open reads one of the files that it left.
func (w *where) there(ctx context.Context, name, version string, script ...string) (open func(to io.Writer, file string) error, err error) {
	t := &api.TrainingTask{Meta: api.Meta{Project: w.Project, DisplayName: "read " + name}}
	t.Spec.Datasets = []api.AssetRef{{Name: name, Version: version, Path: mount.Data + "/" + name}}
	t.Spec.Roles = []api.Role{{
		Name: "worker", Replicas: 1, Command: append([]string{"/bin/sh", "-c"}, script...), Resources: api.Resources{CPU: 1000, Memory: 256 << 20},
	}}
	return w.task(ctx, t)
}

// task has a task do it, and shows its log. open reads one of the files that it left.
func (w *where) task(ctx context.Context, t *api.TrainingTask) (open func(to io.Writer, file string) error, err error) {
	made, err := client.Create(ctx, w.Client, t)
	if err != nil {
		return nil, err
	}
	w.Say("its bytes lie elsewhere; task %s reads them:", "数据位于别处，由任务 %s 读取：", made.Meta.Name)
	if err := w.follow(ctx, made); err != nil {
		return nil, err
	}
	left, err := w.Client.Outputs(ctx, made.Meta.Project, made.Meta.Name)
	if err != nil {
		return nil, err
	}
	by := map[string]client.Output{}
	for _, o := range left {
		_, file, _ := strings.Cut(o.Path, "/") // of its only replica
		by[file] = o
	}
	return func(to io.Writer, file string) error {
		o, ok := by[file]
		if !ok {
			return fault.New(fault.Conflict, "NoOutput", fault.T("The task %s did not leave %.200q; its log says more: fermi logs %[1]s.", "任务 %s 未留下 %.200q，详见日志：fermi logs %[1]s。", made.Meta.Name, file))
		}
		return download.File(ctx, to, o, false, func(part client.OutputPart) (io.ReadCloser, int64, error) {
			return w.Client.OpenOutput(ctx, made.Meta.Project, made.Meta.Name, o.Path, part)
		}, func(r io.Reader) io.Reader { return r })
	}, nil
}

// catThere writes the bytes of a file that lies elsewhere.
func (w *where) catThere(ctx context.Context, name, version, file string) error {
	if err := asset.CheckPath(file); err != nil {
		return err
	}
	open, err := w.there(ctx, name, version, handOne, "sh", file, handed)
	if err != nil {
		return err
	}
	return open(w.Cmd.OutOrStdout(), handed)
}

// downThere lays a version out whose bytes lie elsewhere. Nothing is written outside dir.
func (w *where) downThere(ctx context.Context, name string, x *asset.AssetVersion, dir string) error {
	version := strconv.Itoa(x.Spec.Number)
	raw, err := w.of(name).Manifest(ctx, version)
	if err != nil {
		return err
	}
	m, err := asset.DecodeListing(raw)
	if err != nil {
		return err
	}
	open, err := w.there(ctx, name, version, handAll)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fault.From(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fault.From(err)
	}
	defer root.Close()
	for _, f := range m.Files {
		if err := lay(root, f, open); err != nil {
			return err
		}
	}
	w.Say("%d files in %s", "%d 个文件已位于 %s", len(m.Files), dir)
	return nil
}

// lay writes one file, which is in its place only once it is whole.
func lay(root *os.Root, f asset.File, open func(to io.Writer, file string) error) error {
	mode := os.FileMode(0o644)
	if f.Exec {
		mode = 0o755
	}
	partial := f.Path + ".part"
	if err := root.MkdirAll(path.Dir(f.Path), 0o755); err != nil {
		return fault.From(err)
	}
	out, err := root.OpenFile(partial, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, mode)
	if err != nil {
		return fault.From(err)
	}
	if err = errors.Join(open(out, f.Path), out.Close()); err != nil {
		return errors.Join(err, root.Remove(partial))
	}
	return root.Rename(partial, f.Path)
}
