package asset

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/asset"
	"github.com/fermi-cluster/fermi/api/v1/mount"
	"github.com/fermi-cluster/fermi/internal/bucket"
	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/preview"
)

const (
	// lookProgram is what a task runs to look at a file that lies elsewhere, and lookLeaves the output with what it saw.
	lookProgram = "look"
	lookLeaves  = "preview.json"
	// maxPreview bounds it: a picture of 4 MiB in base64 is the largest.
	maxPreview = 8 << 20
)

func (v verbs) preview() *cobra.Command {
	return &cobra.Command{
		Use: "preview NAME[@VERSION] FILE", Short: cli.Both("Show the beginning of a file: text, or the first rows of CSV and Parquet", "预览文件开头：文本，或 CSV、Parquet 的前几行"), Args: cobra.ExactArgs(2),
		Long: cli.Both("Show the beginning of a file: text, or the first rows of CSV and Parquet. Where the version is a list of what lies elsewhere, a task of yours looks at the file there, once the source was held against the list.",
			"预览文件开头：文本，或 CSV、Parquet 的前几行。对于引用版本，由您的任务在数据所在处读取，读取前会核对来源是否与清单一致。"),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := v.dial(cmd)
			if err != nil {
				return err
			}
			name, version := split(args[0])
			p, err := w.of(name).Preview(cmd.Context(), version, args[1])
			if fault.ReasonOf(err) == "ByReference" {
				p, err = w.previewThere(cmd.Context(), name, version, args[1])
			}
			if err != nil {
				return err
			}
			if w.Structured() {
				return w.Answer(p)
			}
			return show(cmd.OutOrStdout(), p, args[1], w.Lang)
		},
	}
}

// show writes it for people. What a file holds moves no cursor: its control characters are shown as what they are.
func show(to io.Writer, p *asset.AssetPreview, file string, lang string) error {
	more := ""
	if p.Cut {
		more = fault.T("… there is more", "… 还有更多内容").In(lang) + "\n"
	}
	switch p.Kind {
	case "text":
		_, err := io.WriteString(to, strings.TrimRight(printable(p.Text, "\t\r\n"), "\n")+"\n"+more)
		return err
	case "table":
		t := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
		for _, row := range slices.Concat([][]string{p.Columns}, p.Rows) {
			for i, cell := range row {
				if i > 0 {
					fmt.Fprint(t, "\t")
				}
				fmt.Fprint(t, printable(cell, ""))
			}
			fmt.Fprintln(t)
		}
		if err := t.Flush(); err != nil {
			return err
		}
		_, err := io.WriteString(to, more)
		return err
	case "image":
		_, err := fmt.Fprintf(to, "%s, %d × %d, %s\n", p.Media, p.Width, p.Height, p.Size)
		return err
	case "empty":
		_, err := fmt.Fprintln(to, fault.T("%s is empty.", "%s 是空文件。", file).In(lang))
		return err
	}
	_, err := fmt.Fprintln(to, fault.T("%s has %s that are no text.", "%s 为 %s 的二进制内容。", file, p.Size).In(lang))
	return err
}

// printable are the characters of a text that move nothing on a terminal.
func printable(text, but string) string {
	return strings.Map(func(r rune) rune {
		if strconv.IsPrint(r) || strings.ContainsRune(but, r) {
			return r
		}
		return '·'
	}, text)
}

// previewThere has a task of the project look at a file of a version that lies elsewhere. Of a bucket it reads the beginning of that object alone.
func (w *where) previewThere(ctx context.Context, name, version, file string) (*asset.AssetPreview, error) {
	if err := asset.CheckPath(file); err != nil {
		return nil, err
	}
	x, err := w.of(name).Version(ctx, version)
	if err != nil {
		return nil, err
	}
	t := lookTask(w.Project, name, x, file)
	open, err := w.task(ctx, t)
	if err != nil {
		return nil, err
	}
	var raw bytes.Buffer
	if err := open(&capped{&raw, maxPreview}, lookLeaves); err != nil {
		return nil, err
	}
	p := &asset.AssetPreview{}
	if err := json.Unmarshal(raw.Bytes(), p); err != nil {
		return nil, fault.New(fault.Conflict, "BadPreview", fault.T("What the task left is no preview.", "任务留下的内容不是预览。")).Because(err)
	}
	return p, nil
}

// lookTask is the task that looks at a file where it lies.
func lookTask(project, name string, x *asset.AssetVersion, file string) *api.TrainingTask {
	t := &api.TrainingTask{Meta: api.Meta{Project: project, DisplayName: "look at " + name}}
	version := strconv.Itoa(x.Spec.Number)
	t.Spec.Roles = []api.Role{{
		Name: "worker", Replicas: 1, Command: []string{"fermi", "data", lookProgram, name + "@" + version, file}, Resources: api.Resources{CPU: 500, Memory: 256 << 20},
	}}
	if s := x.Spec.Source; s != nil && s.S3 != nil {
		t.Spec.Credentials = []api.CredentialRef{{Secret: s.S3.Secret}}
	} else {
		t.Spec.Datasets = []api.AssetRef{{Name: name, Version: version, Path: mount.Data + "/" + name}}
	}
	return t
}

// look is what such a task runs; people don't run it.
func look() *cobra.Command {
	return &cobra.Command{
		Use: lookProgram + " NAME@VERSION FILE", Hidden: true, Short: cli.Both("Look at a file that lies elsewhere (started by the platform)", "读取位于别处的文件开头（由平台启动）"), Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := (verbs{asset.DatasetKind, "data"}).dial(cmd)
			if err != nil {
				return err
			}
			name, version := split(args[0])
			p, err := w.look(cmd.Context(), name, version, args[1])
			if err != nil {
				return fault.From(err)
			}
			raw, err := json.Marshal(p)
			if err == nil {
				err = os.WriteFile(filepath.Join(os.Getenv("FERMI_OUTPUT"), lookLeaves), raw, 0o644)
			}
			if err != nil {
				return fault.From(err)
			}
			return nil
		},
	}
}

// look reads the beginning of a file that a version lists, from the bucket or from the folder that is mounted.
func (w *where) look(ctx context.Context, name, version, file string) (p asset.AssetPreview, err error) {
	x, err := w.of(name).Version(ctx, version)
	if err != nil {
		return p, err
	}
	raw, err := w.of(name).Manifest(ctx, version)
	if err != nil {
		return p, err
	}
	list, err := asset.DecodeListing(raw)
	if err != nil {
		return p, err
	}
	i := slices.IndexFunc(list.Files, func(f asset.File) bool { return f.Path == file })
	if i < 0 {
		return p, fault.New(fault.NotFound, "NoSuchFile", fault.T("There is no file %.200q in this version.", "该版本中没有文件 %.200q。", file))
	}
	f := list.Files[i]
	if s := x.Spec.Source; s != nil && s.S3 != nil {
		account, err := bucket.Account(ctx)
		if err != nil {
			return p, err
		}
		in := bucket.Open(*s.S3, account).Open(ctx, f)
		defer in.Close()
		return preview.Of(in, f)
	}
	root, err := os.OpenRoot(os.Getenv("FERMI_DATASET"))
	if err != nil {
		return p, err
	}
	defer root.Close()
	in, err := root.Open(file)
	if err != nil {
		return p, err
	}
	defer in.Close()
	return preview.Of(in, f)
}

// capped takes so many bytes, and no more.
type capped struct {
	to   io.Writer
	left int
}

func (c *capped) Write(p []byte) (int, error) {
	if len(p) > c.left {
		return 0, fault.New(fault.TooLarge, "BadPreview", fault.T("What the task left is no preview.", "任务留下的内容不是预览。"))
	}
	c.left -= len(p)
	return c.to.Write(p)
}
