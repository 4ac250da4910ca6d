package launch

import (
	"log/slog"
	"regexp"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/cgroup"
	"github.com/fermi-cluster/fermi/internal/launch/inside"
)

// The limit on processes. What the launcher starts for the user is born in a cgroup of its own, in which
// the kernel refuses a fork beyond the limit. That alone ends nobody; a program that gives up because of
// it says so in its last words, and then the limit is the cause that people are told.

// noFork is how programs say that they could not make a process or a thread.
var noFork = regexp.MustCompile(`(?i)resource temporarily unavailable|can't start new thread|cannot (fork|create (a )?thread)|can't fork|unable to fork|fork(ing)?( has)? failed|pthread_create|failed to create (new OS )?thread|\[errno 11\]|\bEAGAIN\b`)

func saysNoFork(words string) bool { return noFork.MatchString(words) }

// counted puts what start started under the limit. It is for those without a wall: what they fork in the
// moment before is not counted.
func counted(start starter, group *cgroup.Group, log *slog.Logger) starter {
	return func(p *processes, r engine.Replica, dir string, env []string, each [][]string, stdin uintptr, out []inside.Pipes) error {
		err := start(p, r, dir, env, each, stdin, out)
		for _, pid := range p.pids {
			if err := group.Work(pid); err != nil {
				log.Warn("a process is not under the limit on processes", "pid", pid, "error", err)
			}
		}
		return err
	}
}
