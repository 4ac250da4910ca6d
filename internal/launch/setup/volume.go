package setup

import (
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/mount"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/launch/inside"
	"github.com/fermi-cluster/fermi/internal/launch/process"
)

// volumesOf are those of the granted folders that a replica sees elsewhere than they are.
func volumesOf(r engine.Replica, granted []api.NamedFolder) (out []inside.Folder, err error) {
	for _, v := range r.Volumes {
		f, err := volumeOf(r, v, granted)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

func volumeOf(r engine.Replica, v mount.Volume, granted []api.NamedFolder) (inside.Folder, error) {
	in, below := api.ResolveFolder(v.Name, granted)
	if in == nil || in.Real == "" {
		return inside.Folder{}, process.CantStart(process.CodeNotExecutable, nil,
			"The node %s has no folder %q that project %s may use; its operator names one with --folder.",
			"节点 %s 上没有项目 %[3]s 可用的目录 %[2]q；请运维人员用 --folder 命名。", r.Node, v.Name, r.Project)
	}
	return inside.Folder{Path: in.Path, Real: in.Real, Below: below, ReadOnly: in.ReadOnly || v.ReadOnly, At: v.Path}, nil
}

// volumeVariables say where each is: $FERMI_VOLUME_NAME. Where nothing is mounted, that is on the node itself.
func volumeVariables(r engine.Replica, folders []inside.Folder, walled bool) (out []string) {
	for i, v := range r.Volumes {
		at := folders[i].At
		if !walled {
			at = folders[i].Path
		}
		out = append(out, "FERMI_VOLUME_"+strings.ToUpper(strings.ReplaceAll(v.Name, "-", "_"))+"="+at)
	}
	return out
}
