package setup

import (
	"path/filepath"
	"slices"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/launch/process"
	"github.com/fermi-cluster/fermi/internal/recipe"
)

// withPackages has the SDK install what the code's requirements name before the program begins. It does that as the
// program's own process, behind its wall: nothing that a user named is opened here.
func (h *Home) withPackages(r engine.Replica) (engine.Replica, error) {
	if r.Code == nil || r.Code.Requirements == "" {
		return r, nil
	}
	if !recipe.Python(r.Command) {
		return r, process.CantStart(process.CodeNotExecutable, nil,
			"The packages of %s can't be installed: the command %q is not python.",
			"无法安装 %s 中的包：命令 %q 不是 python。", r.Code.Requirements, r.Command[0])
	}
	code, err := h.codeBase()
	if err != nil {
		return r, err
	}
	file := filepath.Join(code.at(), r.Code.Requirements)
	r.Command = slices.Concat(r.Command[:1], []string{"-m", "fermi.packages", file, "--"}, r.Command[1:])
	r.Standby = nil // its interpreter would be another
	return r, nil
}
