package rsh

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// ownAgain becomes a command in the environment of the replica that it runs in. horovodrun gives all
// processes the variables of the first replica, its place and its devices among them; whoever started this
// one still has those that are right.
func ownAgain(command, given []string) error {
	right, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", os.Getppid()))
	if err != nil {
		return fault.New(fault.Internal, "NoEnvironment", fault.T("The environment of the replica can't be read.", "无法读取副本的环境变量。")).Because(err)
	}
	path, err := exec.LookPath(command[0])
	if err != nil {
		return fault.New(fault.Invalid, "NoCommand", fault.T("%q is no command here.", "此处没有命令 %q。", command[0])).Because(err)
	}
	return syscall.Exec(path, command, owned(given, right))
}

// owned is the given environment with the replica's own place and devices.
func owned(given []string, right []byte) []string {
	out := slices.DeleteFunc(slices.Clone(given), ofReplica)
	for kv := range bytes.SplitSeq(right, []byte{0}) {
		if ofReplica(string(kv)) {
			out = append(out, string(kv))
		}
	}
	return out
}

// ofReplica says that a variable tells one replica's place or devices.
func ofReplica(kv string) bool {
	name, _, _ := strings.Cut(kv, "=")
	return strings.HasPrefix(name, "FERMI_") || strings.HasSuffix(name, "VISIBLE_DEVICES")
}
