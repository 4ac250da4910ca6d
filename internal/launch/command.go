package launch

import (
	"errors"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/launch/steward"
)

// The exit codes of a process that could not be started, as shells have them.
const (
	codeNotExecutable = 126
	codeNotFound      = 127
	codeStopped       = 128 + int(unix.SIGTERM) // stopped before it started
)

// startFault is a start that failed for a reason the user can mend.
type startFault struct {
	code  int
	text  fault.Text
	cause error
}

func (e *startFault) Error() string { return e.text.EN }
func (e *startFault) Unwrap() error { return e.cause }

func cantStart(code int, cause error, en, zh string, args ...any) *startFault {
	return &startFault{code, fault.T(en, zh, args...), cause}
}

// both puts the two languages into the one field that an exit record, and a line of the log, has.
func both(t fault.Text) string { return t.Pack() }

func (e *startFault) exit() engine.Exit {
	return engine.Exit{Code: e.code, Reason: engine.ReasonStartFailed, Message: both(e.text)}
}

// ownBinary is this very program, also when its file was replaced meanwhile.
const ownBinary = "/proc/self/exe"

// spot is a folder of the user's: sub lies in base, and nothing leads out of base.
type spot struct{ base, sub string }

func (p spot) at() string { return filepath.Join(p.base, p.sub) }

// codeBase is where the code lies.
func (l *launcher) codeBase() (spot, error) {
	r := l.replica
	if r.Code == nil || r.Code.Folder == "" {
		return spot{base: l.codeDir()}, nil
	}
	in, rest := api.ResolveFolder(r.Code.Folder, l.folders)
	switch {
	case in == nil && l.tenant.UID == 0 && filepath.IsAbs(r.Code.Folder): // its owner's machine
		return spot{base: r.Code.Folder}, nil
	case in == nil:
		no := api.FolderNotAllowed("", r.Code.Folder, r.Project, l.folders)
		return spot{}, &startFault{codeNotExecutable, fault.Text{EN: no.Reason + ": " + no.Message.EN + " " + no.Hint.EN, ZH: no.Reason + "：" + no.Message.ZH + no.Hint.ZH}, no}
	case in.ReadOnly && l.tenant.UID != 0 && r.CheckpointFolder != "":
		return spot{}, cantStart(codeNotExecutable, nil,
			"The task saves checkpoints to %q in its code, but the folder %s is read-only here; use another code folder, or submit the code as an archive.",
			"任务将检查点保存到代码中的 %q，但目录 %s 在此为只读；请使用其他代码目录，或以归档方式提交代码。", r.CheckpointFolder, in.Name)
	}
	return spot{in.Path, rest}, nil
}

// codeDir is the replica's own folder for code; inside another replica, and without code, it is that one's.
func (l *launcher) codeDir() string {
	if host := l.replica.Inside; host != "" && l.replica.Code == nil {
		return filepath.Join(filepath.Dir(l.dir), string(host), record.DirCode)
	}
	return filepath.Join(l.dir, record.DirCode)
}

// workDir is where the process starts: the code, or the working directory within it.
func (l *launcher) workDir(r engine.Replica) (string, error) {
	base, err := l.codeBase()
	if err != nil {
		return "", err
	}
	if filepath.IsAbs(r.WorkingDir) || !filepath.IsLocal(filepath.Clean("./"+r.WorkingDir)) {
		return "", cantStart(codeNotExecutable, nil,
			"The working directory %q leads out of the code; give one relative to it.",
			"工作目录 %q 超出代码目录；请使用相对于代码的路径。", r.WorkingDir)
	}
	dir := filepath.Join(base.at(), r.WorkingDir)
	if err := l.isFolder(dir); err == nil {
		return dir, nil
	} else if errors.Is(err, steward.ErrStuck) {
		return "", stuck(err)
	}
	if r.Code != nil && r.Code.Folder != "" {
		if err := l.isFolder(base.at()); err != nil {
			return "", noFolder(r.Code.Folder, r.Node, err)
		}
	}
	return "", noWorkDir(r.WorkingDir, nil)
}

// isFolder says why something is no folder that the user may enter.
func (l *launcher) isFolder(dir string) error {
	_, info, err := l.steward.Real(dir + "/.")
	if err == nil && !info.IsDir() {
		err = syscall.ENOTDIR
	}
	return err
}

// stuck is a file system that hangs.
func stuck(cause error) error {
	return cantStart(codeNotExecutable, cause,
		"The file system with the code or the command does not answer; see that what is mounted on the node works.",
		"存放代码或命令的文件系统没有响应；请检查节点上的挂载。")
}

func noFolder(folder, node string, cause error) error {
	return cantStart(codeNotExecutable, cause,
		"The code folder %q is not a folder on node %s that the project may enter; put it there, or submit the code as an archive.",
		"代码目录 %q 在节点 %s 上不是该项目可进入的目录；请将其放到该节点，或以归档方式提交代码。", folder, node)
}

func noWorkDir(dir string, cause error) error {
	return cantStart(codeNotExecutable, cause,
		"The working directory %q does not exist in the code; correct workingDir or add the folder.",
		"代码中不存在工作目录 %q；请修改 workingDir 或添加该目录。", dir)
}

// findProgram is what a shell does in this directory with this PATH, with the user's rights; "fermi" is always ourselves.
func (l *launcher) findProgram(name, dir, path string) (string, error) {
	if name == "fermi" {
		return ownBinary, nil
	}
	file, err := l.steward.Find(name, dir, path)
	var errno syscall.Errno
	switch {
	case err == nil:
		return file, nil
	case errors.Is(err, steward.ErrStuck):
		return "", stuck(err)
	case errors.As(err, &errno):
		return "", findFault(name, errno)
	}
	return "", err
}

// findFault says what a failed search for the command means. It names the command as the user did.
func findFault(name string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOENT):
		return cantStart(codeNotFound, err,
			"The command %q was not found; install it on the node, give its full path, or add it to the code.",
			"找不到命令 %q；请在节点上安装它、给出完整路径，或将其放入代码。", name)
	case errors.Is(err, syscall.EISDIR):
		return cantStart(codeNotExecutable, nil, "The command %q is a folder.", "命令 %q 是一个目录。", name)
	}
	return notExecutable(name, err)
}

func notExecutable(file string, cause error) error {
	return cantStart(codeNotExecutable, cause,
		"The command %q can't be executed; make it executable (chmod +x), or run it by its interpreter.",
		"命令 %q 无法执行；请赋予执行权限（chmod +x），或通过解释器运行。", file)
}

// spawnFault says what a failed exec means.
func spawnFault(file string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOENT):
		return cantStart(codeNotFound, err,
			"The command %q names an interpreter that does not exist; correct its first line or install the interpreter.",
			"命令 %q 指定的解释器不存在；请修改其首行或安装该解释器。", file)
	case errors.Is(err, syscall.ENOEXEC):
		return cantStart(codeNotExecutable, err,
			"The command %q is not a program of this machine; begin a script with #! and its interpreter.",
			"命令 %q 不是本机可执行的程序；脚本请以 #! 加解释器开头。", file)
	case errors.Is(err, syscall.E2BIG):
		return cantStart(codeNotExecutable, err,
			"The arguments and environment of %q are too long for this system; shorten them.",
			"%q 的参数和环境变量过长；请缩短。", file)
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM):
		return cantStart(codeNotExecutable, err,
			"The node has no room for another process to run %q; try again later.",
			"节点已无法再创建进程来运行 %q；请稍后重试。", file)
	}
	return notExecutable(file, err)
}
