package setup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/launch/process"
)

// MakeFolders makes what the process finds, and gives it away.
func (h *Home) MakeFolders() error {
	if h.Tenant.Refused {
		return process.CantStart(process.CodeNotExecutable, nil,
			"This machine can't keep projects apart, so only its owner may start processes here; run Fermi as root, or use a zone with containers.",
			"本机无法隔离项目，只有其所有者可以在此启动进程；请以 root 运行 Fermi，或使用容器可用区。")
	}
	if h.Replica.Image != "" && h.Tenant.UID == 0 {
		return process.CantStart(process.CodeNotExecutable, nil,
			"This machine can't run the image %s: only root can build its walls; run Fermi as root, or leave the image out.",
			"本机无法运行镜像 %s：需要 root 权限进行隔离；请以 root 运行 Fermi，或不填写镜像。", h.Replica.Image)
	}
	if h.Replica.Images == engine.ImageBuild && h.Tenant.IDs == 0 {
		return process.CantStart(process.CodeNotExecutable, nil,
			"This machine can't build images: only root can give a build the numbers that it needs; run Fermi as root, or build in another zone.",
			"本机无法构建镜像：需要 root 权限为构建分配用户编号；请以 root 运行 Fermi，或在其他可用区构建。")
	}
	modes := map[string]os.FileMode{record.DirOutput: 0o700, record.DirTmp: 0o700, record.DirCode: 0o700}
	if h.Tenant.UID != 0 {
		modes[record.DirHome] = 0o700
		modes[record.DirTmp] = os.ModeSticky | 0o777 // ours: paths of other folders may begin in it
		modes[record.DirVarTmp] = os.ModeSticky | 0o777
	}
	if h.Replica.Image != "" || len(h.Replica.Mounts.All())+len(h.Replica.Volumes) > 0 {
		modes[dirStage] = 0o700
	}
	if home := HomeOf(h.Dir, h.Replica); home != "" {
		// Both lie in folders that no tenant can write to; what is in a home nobody but its owner touches.
		for _, dir := range []string{filepath.Dir(home), home} {
			if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
		}
		if err := errors.Join(h.Give(home), layersOf(h.Dir, h.Replica, h.Tenant).open()); err != nil {
			return err
		}
	}
	for name, mode := range modes {
		path := filepath.Join(h.Dir, name)
		if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := os.Chmod(path, mode); err != nil {
			return err
		}
	}
	if err := errors.Join(writeHyper(h.Replica, h.Dir), h.giveSDK()); err != nil {
		return err
	}
	for _, name := range []string{fileHyper, record.DirOutput, record.DirHome, record.DirCode} {
		if err := h.Give(filepath.Join(h.Dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// HomeOf is the home that outlives the replica with this folder; "": it has none.
func HomeOf(dir string, r engine.Replica) string {
	switch {
	case r.Images == engine.ImageBuild && r.UID != 0:
		r.Home = "builds-" + strconv.Itoa(r.UID) // one builds after the other there
	case r.Home == "" || !api.IsName(r.Home) || r.Images == engine.ImageSave:
		return ""
	}
	return filepath.Join(filepath.Dir(filepath.Dir(dir)), record.DirHomes, r.Home)
}

// Give makes one file or folder that we made, in a folder that only we can change, the tenant's.
func (h *Home) Give(path string) error {
	if h.Tenant.UID == 0 {
		return nil
	}
	return os.Lchown(path, h.Tenant.UID, h.Tenant.UID)
}
