// Package mount says which versions of datasets and models are shown to a workload, and where.
//
// Place: layer 1, below the vocabulary, whose kinds of work have lists of it. Promise: a path that Check lets pass lies below one of four folders
// that belong to nobody else. Enemies: paths that cover the system's own, two mounts in one place.
package mount

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/pattern"
)

// AssetRef names a version of a dataset or model, and where it appears.
type AssetRef struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty" doc:"A number; latest when absent; of a model also an alias or a stage. What it means is settled when the work is submitted."`
	Path    string `json:"path,omitempty" doc:"Where it appears, read-only: below /data, /datasets, /models or /mnt; /data/NAME or /models/NAME when absent."`
	Settled
}

// Settled is what the server writes down of a ref when the work is submitted. What its user says there is overwritten.
type Settled struct {
	Digest string `json:"digest,omitempty" doc:"Written when the work is submitted: BLAKE3 of the list of the version's files, which says what bytes it is."`
	Size   int64  `json:"size,omitempty" doc:"Likewise: bytes of all its files."`
	// Source is given where the server does not have the bytes.
	Source *Source `json:"source,omitempty" doc:"Likewise: where its bytes lie, of a version by reference."`
}

// Lists are the datasets and models that one workload reads.
type Lists struct {
	Datasets []AssetRef `json:"datasets,omitempty" maxItems:"32" doc:"Versions of datasets that its processes find as folders, read-only."`
	Models   []AssetRef `json:"models,omitempty" maxItems:"32" doc:"Versions of models, likewise."`
}

// Fill gives those that name no path their own.
func (l *Lists) Fill() {
	Fill(l.Datasets, Data)
	Fill(l.Models, Models)
}

// All are the datasets, then the models.
func (l *Lists) All() []AssetRef { return slices.Concat(l.Datasets, l.Models) }

// The folders of refs that name no path.
const (
	Data   = "/data"
	Models = "/models"
)

// Roots are the folders below which refs appear.
var Roots = []string{Data, "/datasets", "/mnt", Models}

// MaxRefs bounds a list.
const MaxRefs = 32

const maxPath = 512

var name = pattern.New(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// Fill gives those that name no path their own.
func Fill(refs []AssetRef, under string) {
	for i := range refs {
		if refs[i].Path == "" && refs[i].Name != "" {
			refs[i].Path = under + "/" + refs[i].Name
		}
	}
}

// Check lists what is wrong with datasets and models that one workload names; at is where their lists are.
func Check(at string, datasets, models []AssetRef) (bad []fault.Field) {
	taken := map[string]bool{}
	for _, list := range []struct {
		path string
		refs []AssetRef
	}{{at + ".datasets", datasets}, {at + ".models", models}} {
		if len(list.refs) > MaxRefs {
			bad = append(bad, fault.Field{Path: list.path, Message: fault.T("There are %d; at most %d are allowed.", "有 %d 项，最多 %d 项。", len(list.refs), MaxRefs)})
			continue
		}
		for i, r := range list.refs {
			bad = append(bad, r.check(fmt.Sprintf("%s[%d]", list.path, i), taken)...)
		}
	}
	return bad
}

func (r AssetRef) checkName(at string) (bad []fault.Field) {
	if !name.MatchString(r.Name) {
		bad = append(bad, fault.Field{Path: at + ".name", Message: fault.T("%.64q is not the name of a dataset or model.", "%.64q 不是合法的数据集或模型名称。", r.Name)})
	}
	if r.Version != "" && !name.MatchString(r.Version) {
		bad = append(bad, fault.Field{Path: at + ".version", Message: fault.T("%.64q is no version: a number, latest, or of a model an alias.", "%.64q 不是合法的版本：应为数字、latest 或模型别名。", r.Version)})
	}
	return bad
}

// CheckHome lists what is wrong with the snapshot that a home begins with; at is its field.
func CheckHome(at string, r AssetRef) []fault.Field {
	bad := r.checkName(at)
	if r.Path != "" {
		bad = append(bad, fault.Field{Path: at + ".path", Message: fault.T("A snapshot becomes the home; leave the path out.", "快照会成为主目录，请去掉路径。")})
	}
	return bad
}

func (r AssetRef) check(at string, taken map[string]bool) (bad []fault.Field) {
	add := func(field, en, zh string, args ...any) {
		bad = append(bad, fault.Field{Path: at + field, Message: fault.T(en, zh, args...)})
	}
	bad = r.checkName(at)
	under := slices.ContainsFunc(Roots, func(root string) bool { return strings.HasPrefix(r.Path, root+"/") })
	if !under || path.Clean(r.Path) != r.Path || len(r.Path) > maxPath || strings.ContainsFunc(r.Path, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		add(".path", "%.200q is no place for it: use a clean path below %s.", "%.200q 不能作为挂载点：请使用 %s 之下的规范路径。", r.Path, strings.Join(Roots, ", "))
		return bad
	}
	for other := range taken {
		if other == r.Path || strings.HasPrefix(other, r.Path+"/") || strings.HasPrefix(r.Path, other+"/") {
			add(".path", "%s and %s are in each other's way.", "%s 与 %s 相互冲突。", r.Path, other)
			return bad
		}
	}
	taken[r.Path] = true
	return bad
}
