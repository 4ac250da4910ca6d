package setup

import (
	"errors"
	"path/filepath"
	"syscall"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/launch/process"
	"github.com/fermi-cluster/fermi/internal/launch/steward"
)

// Home is where a replica lives on its node: its folder, and who it belongs to.
type Home struct {
	Dir     string
	Replica engine.Replica
	Tenant  record.Tenant     // zero: its processes are who we are
	Folders []api.NamedFolder // of the node, that its project was granted
	// Steward touches whatever the tenant named, or can change.
	Steward *steward.Steward
	// Memory is $FERMI_SHM; "": there is none yet.
	Memory string
}

// spot is a folder of the user's: sub lies in base, and nothing leads out of base.
type spot struct{ base, sub string }

func (p spot) at() string { return filepath.Join(p.base, p.sub) }

// codeBase is where the code lies.
func (h *Home) codeBase() (spot, error) {
	r := h.Replica
	if r.Code == nil || r.Code.Folder == "" {
		return spot{base: h.codeDir()}, nil
	}
	in, rest := api.ResolveFolder(r.Code.Folder, h.Folders)
	switch {
	case in == nil && h.Tenant.UID == 0 && filepath.IsAbs(r.Code.Folder): // its owner's machine
		return spot{base: r.Code.Folder}, nil
	case in == nil:
		no := api.FolderNotAllowed("", r.Code.Folder, r.Project, h.Folders)
		return spot{}, &process.StartFault{Code: process.CodeNotExecutable, Cause: no, Text: fault.Text{EN: no.Reason + ": " + no.Message.EN + " " + no.Hint.EN, ZH: no.Reason + "：" + no.Message.ZH + no.Hint.ZH}}
	case in.ReadOnly && h.Tenant.UID != 0 && r.CheckpointFolder != "":
		return spot{}, process.CantStart(process.CodeNotExecutable, nil,
			"The task saves checkpoints to %q in its code, but the folder %s is read-only here; use another code folder, or submit the code as an archive.",
			"任务将检查点保存到代码中的 %q，但目录 %s 在此为只读；请使用其他代码目录，或以归档方式提交代码。", r.CheckpointFolder, in.Name)
	}
	return spot{in.Path, rest}, nil
}

// Code is where the code lies: sub in base, and nothing leads out of base.
func (h *Home) Code() (base, sub string, err error) {
	s, err := h.codeBase()
	return s.base, s.sub, err
}

// codeDir is the replica's own folder for code; inside another replica, and without code, it is that one's.
func (h *Home) codeDir() string {
	if host := h.Replica.Inside; host != "" && h.Replica.Code == nil {
		return filepath.Join(filepath.Dir(h.Dir), string(host), record.DirCode)
	}
	return filepath.Join(h.Dir, record.DirCode)
}

// WorkDir is where the process starts: the code, or the working directory within it.
func (h *Home) WorkDir(r engine.Replica) (string, error) {
	base, err := h.codeBase()
	if err != nil {
		return "", err
	}
	if filepath.IsAbs(r.WorkingDir) || !filepath.IsLocal(filepath.Clean("./"+r.WorkingDir)) {
		return "", process.CantStart(process.CodeNotExecutable, nil,
			"The working directory %q leads out of the code; give one relative to it.",
			"工作目录 %q 超出代码目录；请使用相对于代码的路径。", r.WorkingDir)
	}
	dir := filepath.Join(base.at(), r.WorkingDir)
	if err := h.isFolder(dir); err == nil {
		return dir, nil
	} else if errors.Is(err, steward.ErrStuck) {
		return "", stuck(err)
	}
	if r.Code != nil && r.Code.Folder != "" {
		if err := h.isFolder(base.at()); err != nil {
			return "", noFolder(r.Code.Folder, r.Node, err)
		}
	}
	return "", noWorkDir(r.WorkingDir, nil)
}

// isFolder says why something is no folder that the user may enter.
func (h *Home) isFolder(dir string) error {
	_, info, err := h.Steward.Real(dir + "/.")
	if err == nil && !info.IsDir() {
		err = syscall.ENOTDIR
	}
	return err
}

// stuck is a file system that hangs.
func stuck(cause error) error {
	return process.CantStart(process.CodeNotExecutable, cause,
		"The file system with the code or the command does not answer; see that what is mounted on the node works.",
		"存放代码或命令的文件系统没有响应；请检查节点上的挂载。")
}

func noFolder(folder, node string, cause error) error {
	return process.CantStart(process.CodeNotExecutable, cause,
		"The code folder %q is not a folder on node %s that the project may enter; put it there, or submit the code as an archive.",
		"代码目录 %q 在节点 %s 上不是该项目可进入的目录；请将其放到该节点，或以归档方式提交代码。", folder, node)
}

func noWorkDir(dir string, cause error) error {
	return process.CantStart(process.CodeNotExecutable, cause,
		"The working directory %q does not exist in the code; correct workingDir or add the folder.",
		"代码中不存在工作目录 %q；请修改 workingDir 或添加该目录。", dir)
}

// Find is what a shell does in this directory with this PATH, with the user's rights; "fermi" is always ourselves.
func (h *Home) Find(name, dir, path string) (string, error) {
	if name == "fermi" {
		return process.OwnBinary, nil
	}
	file, err := h.Steward.Find(name, dir, path)
	var errno syscall.Errno
	switch {
	case err == nil:
		return file, nil
	case errors.Is(err, steward.ErrStuck):
		return "", stuck(err)
	case errors.As(err, &errno):
		return "", process.FindFault(name, errno)
	}
	return "", err
}
