package cgroup

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// setting is one file to write below root/fermi/<name>.
type setting struct {
	root, file, value string
	// optional files do not exist everywhere (swap accounting), and their absence breaks nothing.
	optional bool
}

const (
	cpuPeriod   = 100_000 // µs; the kernel's own default
	minCPUQuota = 1_000   // µs; less is refused by the kernel
)

// behind lets everything else of the machine go first where processors are short: the server, an agent, a shell of its owner. All replicas
// together weigh what one process of nice 10 does; between each other they stay equal.
func (s Support) behind() error {
	root := s.Roots["cpu"]
	if root == "" {
		return nil
	}
	if s.Version == 1 {
		return writeFile(filepath.Join(root, folder, "cpu.shares"), "110") // of 1,024
	}
	return writeFile(filepath.Join(root, folder, "cpu.weight"), "11") // of 100
}

// settings turns limits into files. The memory limit covers swap too: a replica over its limit is
// killed and says so; it does not slow the machine down by swapping.
func settings(s Support, l Limits) []setting {
	var out []setting
	add := func(controller string, optional bool, file, value string) {
		if root := s.Roots[controller]; root != "" {
			out = append(out, setting{root, file, value, optional})
		}
	}
	quota := strconv.FormatInt(max(int64(l.CPU)*cpuPeriod/1000, minCPUQuota), 10)
	memory := strconv.FormatInt(int64(l.Memory), 10)
	if l.CPU > 0 && s.Version == 1 {
		add("cpu", true, "cpu.cfs_period_us", strconv.Itoa(cpuPeriod))
		add("cpu", false, "cpu.cfs_quota_us", quota)
	} else if l.CPU > 0 {
		add("cpu", false, "cpu.max", quota+" "+strconv.Itoa(cpuPeriod))
	}
	if l.Memory > 0 && s.Version == 1 {
		add("memory", false, "memory.limit_in_bytes", memory)
		add("memory", true, "memory.memsw.limit_in_bytes", memory)
	} else if l.Memory > 0 {
		add("memory", false, "memory.max", memory)
		add("memory", true, "memory.swap.max", "0")
	}
	return out
}

func makeFolder(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// writeFile writes a kernel file in one call, which is how the kernel wants it.
func writeFile(file, value string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	err = errors.Join(err, f.Close())
	// Version 1 refuses a CPU quota above an ancestor's. The ancestor's is stricter and holds.
	if errors.Is(err, unix.EINVAL) && strings.HasSuffix(file, "/cpu.cfs_quota_us") {
		return nil
	}
	return err
}

// readFile reads a small kernel file without the newline.
func readFile(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 1<<16))
	return strings.TrimSpace(string(data)), err
}

func readInt(file string) (int64, error) {
	s, err := readFile(file)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(s, 10, 64)
}

// readKey finds "key 123" in a file of such lines.
func readKey(file, key string) (int64, error) {
	s, err := readFile(file)
	if err != nil {
		return 0, err
	}
	return findKey(s, key)
}

func findKey(text, key string) (int64, error) {
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), " "); ok && k == key {
			return strconv.ParseInt(strings.TrimSpace(v), 10, 64)
		}
	}
	return 0, fmt.Errorf("no %s", key)
}
