package rsh

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/seal"
)

// host is one replica: its name within the task, and where its serve listens.
type host struct{ name, address string }

// place is what a replica knows: its own name, the others, and their common key.
type place struct {
	self  string
	hosts []host
	tls   *tls.Config
}

// here reads it from the environment that the launcher made.
func here(env func(string) string) (*place, error) {
	dir := env("FERMI_RECIPE")
	if dir == "" {
		return nil, fault.New(fault.Invalid, "NoReplica", fault.T("`fermi rsh` works only within a task whose framework starts processes in other replicas (mpi, horovod).",
			"`fermi rsh` 只能在由框架在其他副本中启动进程的任务（mpi、horovod）内使用。"))
	}
	file, err := os.Open(filepath.Join(dir, "rsh_hosts"))
	if err != nil {
		return nil, unreadable(err)
	}
	defer file.Close()
	p := &place{self: env("FERMI_ROLE") + "-" + env("FERMI_INDEX")}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		name, address, ok := strings.Cut(lines.Text(), " ")
		if _, _, err := net.SplitHostPort(address); err != nil || !ok {
			return nil, unreadable(fmt.Errorf("line %q", lines.Text()))
		}
		p.hosts = append(p.hosts, host{name, address})
	}
	key, err := os.ReadFile(filepath.Join(dir, "task.key"))
	if err == nil && len(key) < 32 {
		err = fmt.Errorf("a key of %d bytes", len(key))
	}
	if err != nil {
		return nil, unreadable(err)
	}
	p.tls, err = seal.PairTLS(key, "fermi rsh v1")
	return p, err
}

func unreadable(err error) error {
	return fault.New(fault.Internal, "BadRecipeFiles", fault.T("What this replica should know of the others can't be read.", "无法读取本副本应知的其他副本信息。")).Because(err)
}

// addressOf finds a replica by its name.
func (p *place) addressOf(name string) (string, error) {
	known := make([]string, len(p.hosts))
	for i, h := range p.hosts {
		if h.name == name {
			return h.address, nil
		}
		known[i] = h.name
	}
	return "", fault.New(fault.NotFound, "NoSuchReplica", fault.T("%q is no replica of this task; there are %s.", "%q 不是本任务的副本；现有 %s。", name, strings.Join(known, ", ")))
}
