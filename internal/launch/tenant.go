package launch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/launch/inside"
	"github.com/fermi-cluster/fermi/internal/recipe"
)

// makeFolders makes what the process finds, and gives it away.
func (l *launcher) makeFolders() error {
	if l.tenant.Refused {
		return cantStart(codeNotExecutable, nil,
			"This machine can't keep projects apart, so only its owner may start processes here; run Fermi as root, or use a zone with containers.",
			"本机无法隔离项目，只有其所有者可以在此启动进程；请以 root 运行 Fermi，或使用容器可用区。")
	}
	if l.replica.Image != "" && l.tenant.UID == 0 {
		return cantStart(codeNotExecutable, nil,
			"This machine can't run the image %s: only root can build its walls; run Fermi as root, or leave the image out.",
			"本机无法运行镜像 %s：需要 root 权限进行隔离；请以 root 运行 Fermi，或不填写镜像。", l.replica.Image)
	}
	modes := map[string]os.FileMode{record.DirOutput: 0o700, record.DirTmp: 0o700, record.DirCode: 0o700}
	if l.tenant.UID != 0 {
		modes[record.DirHome] = 0o700
		modes[record.DirTmp] = os.ModeSticky | 0o777 // ours: paths of other folders may begin in it
		modes[record.DirVarTmp] = os.ModeSticky | 0o777
	}
	if l.replica.Image != "" {
		modes[dirStage] = 0o700
	}
	for name, mode := range modes {
		path := filepath.Join(l.dir, name)
		if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := os.Chmod(path, mode); err != nil {
			return err
		}
	}
	if err := errors.Join(writeHyper(l.replica, l.dir), l.giveSDK()); err != nil {
		return err
	}
	for _, name := range []string{fileHyper, record.DirOutput, record.DirHome, record.DirCode} {
		if err := l.giveOne(filepath.Join(l.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// giveOne makes one file or folder that we made, in a folder that only we can change, the tenant's.
func (l *launcher) giveOne(path string) error {
	if l.tenant.UID == 0 {
		return nil
	}
	return os.Lchown(path, l.tenant.UID, l.tenant.UID)
}

// wall is what stands around every process that is not the launcher's own: the ranks, their standby, the steward's.
// It is the one place that says so.
func (l *launcher) wall() inside.Wall {
	w := inside.Wall{
		Mark: string(l.replica.Name), UID: l.tenant.UID, GID: l.tenant.UID, Hide: l.tenant.Hide,
		Tmp: filepath.Join(l.dir, record.DirTmp), VarTmp: filepath.Join(l.dir, record.DirVarTmp),
		SharedMemory: int64(l.replica.Resources.SharedMemory), Net: l.place.space.Descriptor(), Files: l.place.files(l.dir),
	}
	for _, name := range []string{record.DirOutput, record.DirCode, record.DirHome} {
		if record.Exists(l.dir, name) { // not in the life after one that never got so far
			w.Binds = append(w.Binds, filepath.Join(l.dir, name))
		}
	}
	if l.memory != "" {
		w.Binds = append(w.Binds, l.memory)
	}
	if code := l.codeDir(); !slices.Contains(w.Binds, code) {
		w.Binds = append(w.Binds, code)
	}
	if c := l.replica.Code; c != nil && c.Folder != "" {
		if in, _ := api.ResolveFolder(c.Folder, l.folders); in != nil { // otherwise nothing starts, see codeBase
			w.Folders = []inside.Folder{{Path: in.Path, Real: in.Real, ReadOnly: in.ReadOnly}}
		}
	}
	if l.image != nil {
		w.Root, w.Stage, w.Placed = l.image.Root, filepath.Join(l.dir, dirStage), l.driver()
	}
	return w
}

// walled starts the command as the tenant, behind its wall.
func (l *launcher) walled(p *processes, r engine.Replica, dir string, env []string, each [][]string, stdin uintptr, out []inside.Pipes) error {
	wall := l.wall()
	file, err := l.findProgram(r.Command[0], dir, lookupIn(env, "PATH"))
	if err != nil {
		return err
	}
	seen := []string{fileHyper}
	if len(r.SecretFiles)+len(r.Credentials) > 0 {
		seen = append(seen, dirSecrets)
	}
	if r.Recipe != nil {
		seen = append(seen, dirRecipe)
	}
	if recipe.Python(r.Command) {
		seen = append(seen, dirSDK)
	}
	for _, name := range seen {
		wall.Binds = append(wall.Binds, filepath.Join(l.dir, name))
	}
	door, err := l.group.Door()
	if err != nil {
		return err
	}
	if door != nil {
		defer door.Close()
		wall.Door, wall.Clone = door, l.group.Version == 2
	}
	tree, err := inside.Start(l.helpers.ready, wall, inside.Command{Args: r.Command, Env: env, Each: each, Dir: dir, File: file, Orphans: p.orphans}, stdin, out)
	if err != nil {
		return wallFault(r, err)
	}
	p.tree, p.pids = tree, []int{tree.PID}
	return nil
}

// wallFault says what a failed start behind a wall means.
func wallFault(r engine.Replica, err error) error {
	var no *inside.Refused
	if !errors.As(err, &no) {
		return err
	}
	switch no.Step {
	case inside.StepExec:
		return spawnFault(r.Command[0], no.Errno)
	case inside.StepFolder:
		return noFolder(no.File, r.Node, no)
	case inside.StepBuild:
		if r.Image != "" {
			return cantStart(codeNotExecutable, err,
				"The node %s could not put together what the image %s needs (%s: %s); its kernel must have overlayfs, and root the right to mount.",
				"节点 %s 无法为镜像 %s 搭建运行环境（%s：%s）；其内核需支持 overlayfs，且 root 需有挂载权限。", r.Node, r.Image, no.File, no.Errno)
		}
	}
	return err
}

// ended is the end of one rank.
type ended struct {
	local  int
	status unix.WaitStatus
}

// hear brings process 1's word of the ranks' ends to the loop; nil without a wall.
func (l *launcher) hear(p *processes) <-chan ended {
	if p.tree == nil {
		return p.said
	}
	said := make(chan ended, p.n)
	go func() { // ends with process 1
		defer func() {
			close(said)
			poke(l.children)
		}()
		for {
			i, ws, err := p.tree.Ended()
			if err != nil || i < 0 || i >= p.n {
				return
			}
			said <- ended{p.base + i, unix.WaitStatus(ws)} // one each: never full
			poke(l.children)
		}
	}()
	return said
}
