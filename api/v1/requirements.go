package v1

import (
	"path"
	"slices"

	"github.com/fermi-cluster/fermi/internal/pattern"
)

// pythonName is a command that the SDK can install packages for.
var pythonName = pattern.New(`^python(3(\.[0-9]+)?)?$`)

// requirements refuses packages that nobody would install.
func (f *faults) requirements(s *TrainingTaskSpec) {
	if s.Code == nil || s.Code.Requirements == "" {
		return
	}
	const at = "spec.code.requirements"
	f.relative(at, s.Code.Requirements)
	if s.Image != "" {
		f.add(at, "Packages are installed on the node's own system only; build them into the image.", "仅支持在节点自身系统上安装；请将包构建到镜像中。")
	}
	if !slices.ContainsFunc(s.Roles, func(r Role) bool { return len(r.Command) > 0 && pythonName.MatchString(path.Base(r.Command[0])) }) {
		f.add(at, "Packages are installed for commands that begin with python; no role has one.", "仅为以 python 开头的命令安装；没有这样的角色。")
	}
}
