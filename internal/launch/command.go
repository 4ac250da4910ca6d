package launch

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/launch/inside"
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

// codeBase is where the code lies.
func codeBase(r engine.Replica, codeDir string) string {
	if r.Code != nil && r.Code.Folder != "" {
		return r.Code.Folder
	}
	return codeDir
}

// codeDir is the replica's own folder for code; inside another replica, and without code, it is that one's.
func (l *launcher) codeDir() string {
	if host := l.replica.Inside; host != "" && l.replica.Code == nil {
		return filepath.Join(filepath.Dir(l.dir), string(host), record.DirCode)
	}
	return filepath.Join(l.dir, record.DirCode)
}

// workDir is where the process starts: the code, or the working directory within it. Behind a wall
// only the user's own rights say what is there, and process 1 looks.
func workDir(r engine.Replica, codeDir string) (string, error) {
	base := codeBase(r, codeDir)
	if base != codeDir && r.UID == 0 {
		if info, err := os.Stat(base); err != nil || !info.IsDir() {
			return "", noFolder(base, r.Node, err)
		}
	}
	dir := filepath.Join(base, r.WorkingDir)
	if filepath.IsAbs(r.WorkingDir) || !filepath.IsLocal(filepath.Clean("./"+r.WorkingDir)) {
		return "", cantStart(codeNotExecutable, nil,
			"The working directory %q leads out of the code; give one relative to it.",
			"工作目录 %q 超出代码目录；请使用相对于代码的路径。", r.WorkingDir)
	}
	if r.UID != 0 {
		return dir, nil
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", noWorkDir(r.WorkingDir, err)
	}
	return dir, nil
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

// findProgram is what a shell does in this directory with this PATH; "fermi" is always ourselves.
func findProgram(name, dir, path string) (string, error) {
	if name == "fermi" {
		return ownBinary, nil
	}
	file, err := inside.Find(name, dir, path)
	if err != nil {
		return "", findFault(name, err)
	}
	return file, nil
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
