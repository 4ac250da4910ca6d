package process

import (
	"errors"
	"log/slog"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/cgroup"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/launch/inside"
	"github.com/fermi-cluster/fermi/internal/pattern"
)

// The exit codes of a process that could not be started, as shells have them.
const (
	CodeNotExecutable = 126
	CodeNotFound      = 127
	CodeStopped       = 128 + int(unix.SIGTERM) // stopped before it started
)

// StartFault is a start that failed for a reason the user can mend.
type StartFault struct {
	Code  int
	Text  fault.Text
	Cause error
}

func (e *StartFault) Error() string { return e.Text.EN }
func (e *StartFault) Unwrap() error { return e.Cause }

func CantStart(code int, cause error, en, zh string, args ...any) *StartFault {
	return &StartFault{code, fault.T(en, zh, args...), cause}
}

func (e *StartFault) Exit() engine.Exit {
	return engine.Exit{Code: e.Code, Reason: engine.ReasonStartFailed, Message: e.Text.Pack()}
}

// FindFault says what a failed search for the command means. It names the command as the user did.
func FindFault(name string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOENT):
		return CantStart(CodeNotFound, err,
			"The command %q was not found; install it on the node, give its full path, or add it to the code.",
			"找不到命令 %q；请在节点上安装它、给出完整路径，或将其放入代码。", name)
	case errors.Is(err, syscall.EISDIR):
		return CantStart(CodeNotExecutable, nil, "The command %q is a folder.", "命令 %q 是一个目录。", name)
	}
	return notExecutable(name, err)
}

func notExecutable(file string, cause error) error {
	return CantStart(CodeNotExecutable, cause,
		"The command %q can't be executed; make it executable (chmod +x) and its folders open to others, or run it by its interpreter.",
		"命令 %q 无法执行；请赋予执行权限（chmod +x）并允许他人进入其所在目录，或通过解释器运行。", file)
}

// SpawnFault says what a failed exec means.
func SpawnFault(file string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOENT):
		return CantStart(CodeNotFound, err,
			"The command %q names an interpreter that does not exist; correct its first line or install the interpreter.",
			"命令 %q 指定的解释器不存在；请修改其首行或安装该解释器。", file)
	case errors.Is(err, syscall.ENOEXEC):
		return CantStart(CodeNotExecutable, err,
			"The command %q is not a program of this machine; begin a script with #! and its interpreter.",
			"命令 %q 不是本机可执行的程序；脚本请以 #! 加解释器开头。", file)
	case errors.Is(err, syscall.E2BIG):
		return CantStart(CodeNotExecutable, err,
			"The arguments and environment of %q are too long for this system; shorten them.",
			"%q 的参数和环境变量过长；请缩短。", file)
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM):
		return CantStart(CodeNotExecutable, err,
			"The node has no room for another process to run %q; try again later.",
			"节点已无法再创建进程来运行 %q；请稍后重试。", file)
	}
	return notExecutable(file, err)
}

// The limit on processes. What the launcher starts for the user is born in a cgroup of its own, in which
// the kernel refuses a fork beyond the limit. That alone ends nobody; a program that gives up because of
// it says so in its last words, and then the limit is the cause that people are told.

// noFork is how programs say that they could not make a process or a thread.
var noFork = pattern.New(`(?i)resource temporarily unavailable|can't start new thread|cannot (fork|create (a )?thread)|can't fork|unable to fork|fork(ing)?( has)? failed|pthread_create|failed to create (new OS )?thread|\[errno 11\]|\bEAGAIN\b`)

func SaysNoFork(words string) bool { return noFork.MatchString(words) }

// Counted puts what start started under the limit. It is for those without a wall: what they fork in the
// moment before is not counted.
func Counted(start Starter, group *cgroup.Group, log *slog.Logger) Starter {
	return func(p *Set, r engine.Replica, dir string, env []string, each [][]string, stdin uintptr, out []inside.Pipes) error {
		err := start(p, r, dir, env, each, stdin, out)
		for _, pid := range p.PIDs {
			if err := group.Work(pid); err != nil {
				log.Warn("a process is not under the limit on processes", "pid", pid, "error", err)
			}
		}
		return err
	}
}
