package migrant

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// maxFile bounds a job; those of people are some kilobytes.
const maxFile = 4 << 20

// Job is one that was read.
type Job struct {
	// Manifest is the task, as `fermi apply` takes it.
	Manifest []byte
	// Kept is what of the job is in the manifest, Left what is not, and why.
	Kept, Left []Line
}

// Line is one wish of a job.
type Line struct {
	What string     // as the job says it
	Why  fault.Text // what became of it
}

// Read makes tasks of a file: a script for sbatch, or manifests of Volcano Jobs, PyTorchJobs and TrainJobs.
func Read(file string, data []byte) ([]Job, error) {
	if len(data) > maxFile {
		return nil, bad(file, fault.T("It is larger than %d MiB.", "文件超过 %d MiB。", maxFile>>20))
	}
	if bytes.HasPrefix(data, []byte("#!")) || bytes.Contains(data, []byte("#SBATCH")) {
		job, err := readScript(file, string(data))
		if err != nil {
			return nil, err
		}
		return []Job{job}, nil
	}
	var out []Job
	for i, doc := range regexp.MustCompile(`(?m)^---[ \t]*$`).Split(string(data), -1) {
		if strings.TrimSpace(doc) == "" {
			continue
		}
		var tree map[string]any
		if err := yaml.Unmarshal([]byte(doc), &tree); err != nil {
			return nil, bad(file, fault.T("Document %d can't be read: %v", "第 %d 个文档无法读取：%v", i+1, err))
		}
		job, err := readManifest(file, tree)
		if err != nil {
			return nil, err
		}
		out = append(out, job)
	}
	if len(out) == 0 {
		return nil, bad(file, fault.T("There is no job in it.", "其中没有任何作业。"))
	}
	return out, nil
}

func bad(file string, why fault.Text) error {
	return fault.New(fault.Invalid, "NoJob", fault.T("Nothing was imported.", "未导入任何内容。")).WithFields(fault.Field{Path: file, Message: why}).
		WithHint(fault.T("It reads scripts for sbatch, Volcano Jobs, PyTorchJobs and TrainJobs.", "支持 sbatch 脚本、Volcano Job、PyTorchJob 与 TrainJob。"))
}

// draft is a task while a job is read.
type draft struct {
	file       string
	kind       api.Kind
	meta, spec map[string]any
	kept, left []Line
}

func newDraft(file string) *draft {
	return &draft{file: file, kind: api.KindTrainingTask, meta: map[string]any{}, spec: map[string]any{}}
}

func (d *draft) keep(what, field string) {
	d.kept = append(d.kept, Line{what, fault.Text{EN: field, ZH: field}})
}

func (d *draft) leave(what string, why fault.Text) { d.left = append(d.left, Line{what, why}) }

// name makes the task's name out of the job's.
func (d *draft) name(text string) {
	name := strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(text), "-"), "-")
	if len(name) > 40 {
		name = strings.TrimRight(name[:40], "-")
	}
	if !api.IsName(name) {
		name = "imported"
	}
	d.meta["name"] = name
	if name != text && text != "" {
		d.meta["displayName"] = text
	}
}

// job checks the manifest as the server would.
func (d *draft) job() (Job, error) {
	tree := map[string]any{"apiVersion": "fermi/v1", "kind": string(d.kind), "metadata": d.meta, "spec": d.spec}
	raw, err := json.Marshal(tree)
	if err != nil {
		return Job{}, err
	}
	if _, err := api.Decode("", raw); err != nil {
		return Job{}, fmt.Errorf("%s: %w", d.file, err)
	}
	text, err := yaml.JSONToYAML(raw)
	return Job{Manifest: text, Kept: d.kept, Left: d.left}, err
}

// Reasons that several formats share.
var (
	whyPartition = fault.T("A queue here is a share, not a set of machines: name one with spec.queue.", "此处的队列是资源份额而非机器集合：请用 spec.queue 指定队列。")
	whyNodes     = fault.T("Machines are chosen by what a task needs: types of accelerators, zones and topology rules.", "机器按任务需求选择：加速卡类型、可用区与拓扑规则。")
	whyAccount   = fault.T("Who pays is the project: --project.", "费用归属由项目决定：--project。")
	whyVolumes   = fault.T("Folders of machines are granted to projects by an operator; then they are there under their path.", "机器目录由管理员授权给项目，授权后以原路径可见。")
	whyNothing   = fault.T("Nothing here corresponds to it.", "此处没有对应的设置。")
)
