package launch

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// reservation is a TCP port that nobody on this machine is given by chance: bound, and not
// listening. A program that binds it by number with SO_REUSEADDR, as rank 0 of every framework
// does, gets it nevertheless.
type reservation struct {
	fd   int
	port int
}

// reservePort takes any free one.
func reservePort() (*reservation, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("reserve a port: %w", err)
	}
	err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrInet4{})
	}
	var at unix.Sockaddr
	if err == nil {
		at, err = unix.Getsockname(fd)
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("reserve a port: %w", err)
	}
	return &reservation{fd, at.(*unix.SockaddrInet4).Port}, nil
}

func (r *reservation) free() {
	if r != nil {
		_ = unix.Close(r.fd)
	}
}
