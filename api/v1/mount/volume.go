package mount

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// Volume is a folder of the machines that an operator named and the project was granted, as an environment sees it: all of the project that name it
// share what is in it.
type Volume struct {
	Name     string `json:"name" maxLength:"63" doc:"Of the folder, as the operator named it."`
	Path     string `json:"path,omitempty" maxLength:"512" doc:"Where it appears: below /data, /datasets, /models or /mnt; /mnt/NAME when absent."`
	ReadOnly bool   `json:"readOnly,omitempty" doc:"Nothing can be written there from this environment."`
}

// FillVolumes gives those that name no path their own.
func FillVolumes(list []Volume) {
	for i := range list {
		if list[i].Path == "" && list[i].Name != "" {
			list[i].Path = "/mnt/" + list[i].Name
		}
	}
}

// CheckVolumes lists what is wrong with volumes beside these datasets and models; at is their field.
func CheckVolumes(at string, list []Volume, beside []AssetRef) (bad []fault.Field) {
	if len(list) > MaxRefs {
		return []fault.Field{{Path: at, Message: fault.T("There are %d; at most %d are allowed.", "有 %d 项，最多 %d 项。", len(list), MaxRefs)}}
	}
	var taken []string
	for _, r := range beside {
		taken = append(taken, r.Path)
	}
	for i, v := range list {
		here := fmt.Sprintf("%s[%d]", at, i)
		add := func(field, en, zh string, args ...any) {
			bad = append(bad, fault.Field{Path: here + field, Message: fault.T(en, zh, args...)})
		}
		if !name.MatchString(v.Name) {
			add(".name", "%.64q is not the name of a folder of the machines.", "%.64q 不是合法的主机目录名称。", v.Name)
		}
		under := slices.ContainsFunc(Roots, func(root string) bool { return strings.HasPrefix(v.Path, root+"/") })
		if !under || path.Clean(v.Path) != v.Path || len(v.Path) > maxPath || strings.ContainsFunc(v.Path, func(c rune) bool { return c < ' ' || c == 0x7f }) {
			add(".path", "%.200q is no place for it: use a clean path below %s.", "%.200q 不能作为挂载点：请使用 %s 之下的规范路径。", v.Path, strings.Join(Roots, ", "))
			continue
		}
		if other := slices.IndexFunc(taken, func(t string) bool {
			return t == v.Path || strings.HasPrefix(t, v.Path+"/") || strings.HasPrefix(v.Path, t+"/")
		}); other >= 0 {
			add(".path", "%s and %s are in each other's way.", "%s 与 %s 相互冲突。", v.Path, taken[other])
		}
		taken = append(taken, v.Path)
	}
	return bad
}
