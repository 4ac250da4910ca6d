package process

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Sever cuts the connections of a process to others: each end of each sees the other one gone, as when a
// cable or a switch drops them. Its sockets are borrowed for that, so the network of the machine, which the
// process shares, stays as it is. What it listens on stays open: who comes again is let in.
func Sever(pid int) (cut int, err error) {
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(pidfd)
	dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		name, err := os.Readlink(filepath.Join(dir, e.Name()))
		if err != nil || !strings.HasPrefix(name, "socket:") {
			continue // it has closed it, or it is no socket
		}
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			return cut, err
		}
		done, err := severOne(pidfd, fd)
		if err != nil {
			return cut, err
		}
		if done {
			cut++
		}
	}
	return cut, nil
}

// severOne cuts a socket if it is one end of a TCP connection that stands.
func severOne(pidfd, fd int) (bool, error) {
	own, err := unix.PidfdGetfd(pidfd, fd, 0)
	if errors.Is(err, unix.EBADF) {
		return false, nil // closed meanwhile
	}
	if err != nil {
		return false, err
	}
	defer unix.Close(own)
	protocol, err := unix.GetsockoptInt(own, unix.SOL_SOCKET, unix.SO_PROTOCOL)
	if err != nil || protocol != unix.IPPROTO_TCP {
		return false, nil
	}
	info, err := unix.GetsockoptTCPInfo(own, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil || info.State != unix.BPF_TCP_ESTABLISHED {
		return false, err
	}
	err = unix.Shutdown(own, unix.SHUT_RDWR)
	if errors.Is(err, unix.ENOTCONN) {
		return false, nil
	}
	return err == nil, err
}
