package setup

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/fermi-cluster/fermi/api/v1/image"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/launch/process"
	"github.com/fermi-cluster/fermi/internal/launch/rootfs"
)

// heed has the replica do what its image says, where the replica itself says nothing: command, working directory, user. What the image says is input.
func (s *Supplies) heed(says *rootfs.Says) error {
	r := &s.at.Home.Replica
	args, own := image.OwnArgs(r.Command)
	switch {
	case own && r.Image == "":
		return process.CantStart(process.CodeNotExecutable, nil,
			"Nobody lays the image out where this replica runs, so that its own command is not known; give the command.",
			"该副本所在引擎无法读取镜像自带的启动命令；请填写 command。")
	case own && says == nil:
		return process.CantStart(process.CodeNotExecutable, nil,
			"What the image %s starts by itself is not known here while its registry is out of reach; give the command, or try again.",
			"无法访问镜像仓库，暂不知道镜像 %s 自带的启动命令；请填写 command 或稍后重试。", r.Image)
	case says == nil:
		return nil
	case own:
		if r.Command = commandOf(says, args); len(r.Command) == 0 {
			return process.CantStart(process.CodeNotExecutable, nil,
				"The image %s names no program to start; give the command.", "镜像 %s 没有自带的启动命令；请填写 command。", r.Image)
		}
		s.notes.Notice("%s", fault.T("the image starts %s", "镜像自带的启动命令为 %s", strings.Join(r.Command, " ")).Pack())
	}
	if len(says.Ports) > 0 && own {
		s.notes.Notice("%s", fault.T("the image says that it listens on %s", "镜像声明监听 %s", strings.Join(says.Ports, ", ")).Pack())
	}
	if r.Code == nil && r.WorkingDir == "" && r.Inside == "" && (r.Home == "" || own) {
		s.at.over.dir = says.Dir
	}
	return s.at.over.heed(says.User, *r, s.notes)
}

// commandOf is the program of an image: arguments that were given go in the place of its own.
func commandOf(says *rootfs.Says, args []string) []string {
	if len(args) == 0 {
		args = says.Cmd
	}
	return slices.Concat(says.Entrypoint, args)
}

// heed makes commands the image's user, where they can be one.
func (l *layers) heed(u *rootfs.User, r engine.Replica, to notes) error {
	if u == nil {
		return nil
	}
	if !l.rooted() {
		to.Notice("%s", fault.T("the image wants to run as %s; outside of environments processes are their project's own user", "镜像要求以用户 %s 运行；在环境之外，进程以项目用户身份运行", u.Named).Pack())
		return nil
	}
	if u.Unknown {
		return process.CantStart(process.CodeNotExecutable, nil,
			"The image %s wants to run as %s, whom its own /etc/passwd and /etc/group don't know; build it again.",
			"镜像 %s 要求以 %s 运行，但其 /etc/passwd 与 /etc/group 中没有该用户或组；请重新构建。", r.Image, u.Named)
	}
	for _, id := range append([]int{u.UID, u.GID}, u.Groups...) {
		if id < 0 || id >= record.IDsEach {
			return process.CantStart(process.CodeNotExecutable, nil,
				"The image %[1]s wants to run as %[2]s with the number %[3]d; a project has the numbers 0 to %[4]d.",
				"镜像 %[1]s 要求以 %[2]s（编号 %[3]d）运行；项目可用的编号为 0 到 %[4]d。", r.Image, u.Named, id, record.IDsEach-1)
		}
	}
	if err := l.as(u); err != nil {
		return err
	}
	to.Notice("%s", fault.T("its command runs as %s (%d:%d), as the image says; shells are root's", "启动命令按镜像要求以 %s（%d:%d）运行；终端为 root", u.Name, u.UID, u.GID).Pack())
	return nil
}

// heedKept reads a layer with the numbers with which it was written.
func (l *layers) heedKept(says *rootfs.Says, r engine.Replica) error {
	switch {
	case says == nil && l.kept != "":
		return process.CantStart(process.CodeNotExecutable, nil,
			"Which user the image %s has is not known here while its registry is out of reach; try again.", "无法访问镜像仓库，暂不知道镜像 %s 的用户；请稍后重试。", r.Image)
	case says == nil || says.User == nil:
		return nil
	}
	u := says.User
	if u.Unknown || min(u.UID, u.GID) < 0 || max(u.UID, u.GID) >= record.IDsEach { // nothing ever ran in it
		l.kept = ""
		return nil
	}
	return l.as(u)
}

// startDir is where processes start that have no code: the image's own folder, or the home that stays; "": where the code would be.
func (l *layers) startDir(dir string, r engine.Replica) string {
	if filepath.IsAbs(l.dir) {
		return l.dir
	}
	if home := HomeOf(dir, r); home != "" && r.Code == nil {
		return home
	}
	return ""
}

// shellEnv is the environment of shells, which are root's where commands may be the image's user.
func (l *layers) shellEnv(env []string) []string {
	if l.user == nil {
		return env
	}
	out := slices.Clone(env)
	for i, kv := range out {
		if name, _, _ := strings.Cut(kv, "="); name == "USER" || name == "LOGNAME" {
			out[i] = name + "=root"
		}
	}
	return out
}
