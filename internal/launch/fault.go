package launch

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
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

func (e *startFault) exit() engine.Exit {
	return engine.Exit{Code: e.code, Reason: engine.ReasonStartFailed, Message: e.text.Pack()}
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
