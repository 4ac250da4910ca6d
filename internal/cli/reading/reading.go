// Package reading has the flags about datasets and models that work reads, and the model that it leaves.
//
// Place: layer 5, below cli, whose commands add them. Promise: flags that are not given change nothing; all that is wrong is said at once. Enemies: a
// path that is taken for a version.
package reading

import (
	"strings"

	"github.com/spf13/pflag"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/mount"
	"github.com/fermi-cluster/fermi/internal/cli/saving"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Flags are what is given.
type Flags struct {
	Datasets, Models []string
	Leaves           string // the model of its outputs
	LeavesData       string // the dataset of its outputs
}

// Add makes known what work reads; both joins the two languages.
func (f *Flags) Add(to *pflag.FlagSet, both func(en, zh string) string) {
	to.StringArrayVar(&f.Datasets, "dataset", nil, both("dataset that it reads: NAME, NAME@VERSION or NAME@VERSION:/data/PATH; at /data/NAME when no path is given; may be repeated", "读取的数据集：NAME、NAME@VERSION 或 NAME@VERSION:/data/PATH；默认位于 /data/NAME；可重复"))
	to.StringArrayVar(&f.Models, "model", nil, both("model that it reads, likewise; at /models/NAME when no path is given; may be repeated", "读取的模型，写法相同；默认位于 /models/NAME；可重复"))
}

// Lists are the versions; what can't be read is noted with its flag.
func (f *Flags) Lists(bad func(flag string, why fault.Text)) (l mount.Lists) {
	return mount.Lists{Datasets: refs("--dataset", f.Datasets, bad), Models: refs("--model", f.Models, bad)}
}

func refs(flag string, list []string, bad func(string, fault.Text)) (out []mount.AssetRef) {
	for _, text := range list {
		what, path, placed := strings.Cut(text, ":")
		name, version, _ := strings.Cut(what, "@")
		if name == "" || placed && !strings.HasPrefix(path, "/") {
			bad(flag, fault.T("%q is not NAME, NAME@VERSION or NAME@VERSION:/PATH.", "%q 应为 NAME、NAME@VERSION 或 NAME@VERSION:/PATH。", text))
			continue
		}
		out = append(out, mount.AssetRef{Name: name, Version: version, Path: path})
	}
	return out
}

// Keeping is what a task goes on from and saves, and what it reads and leaves.
type Keeping struct {
	saving.Flags
	Data Flags
}

// Bind makes all of them known; both joins the two languages.
func (k *Keeping) Bind(to *pflag.FlagSet, both func(en, zh string) string) {
	k.Add(to, both)
	k.Data.Add(to, both)
	to.StringVar(&k.Data.Leaves, "output-model", "", both("register the outputs as a version of this model when the task completes: NAME, or NAME:PATH for a file or folder of them", "任务完成后将产出登记为该模型的新版本：NAME，或 NAME:PATH 指定其中的文件或目录"))
	to.StringVar(&k.Data.LeavesData, "output-dataset", "", both("register the outputs of all replicas as a version of this dataset when the task completes, likewise", "任务完成后将全部副本的产出登记为该数据集的新版本，写法相同"))
}

// Into puts all of them over a task; origin reads what it begins from, bad hears what is wrong.
func (k *Keeping) Into(t *api.TrainingTask, origin func(string) *api.CheckpointFrom, bad func(flag string, why fault.Text)) {
	k.Over(t, origin)
	k.Data.Over(t, bad)
}

// Over puts what a task reads and leaves over it.
func (f *Flags) Over(t *api.TrainingTask, bad func(flag string, why fault.Text)) {
	lists := f.Lists(bad)
	t.Spec.Datasets, t.Spec.Models = append(t.Spec.Datasets, lists.Datasets...), append(t.Spec.Models, lists.Models...)
	model, dataset := output(f.Leaves), output(f.LeavesData)
	if t.Spec.Outputs == nil && (model != nil || dataset != nil) {
		t.Spec.Outputs = &api.Outputs{}
	}
	if model != nil {
		t.Spec.Outputs.Model = model
	}
	if dataset != nil {
		t.Spec.Outputs.Dataset = dataset
	}
}

// output is what a task leaves; nil: none is wished.
func output(text string) *mount.Output {
	if text == "" {
		return nil
	}
	name, path, _ := strings.Cut(text, ":")
	return &mount.Output{Name: name, Path: path}
}
