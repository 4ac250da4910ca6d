package launch

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// reservation is a TCP port that nobody in the replica's network is given by chance: bound, and not
// listening. A program that binds it by number with SO_REUSEADDR, as rank 0 of every framework
// does, gets it nevertheless.
type reservation struct {
	fd   int
	port int
}

// reservePort takes one that is free on every address of both families: programs bind it so.
func reservePort() (*reservation, error) {
	r, err := reserve(unix.AF_INET6, &unix.SockaddrInet6{})
	if err != nil { // a kernel without IPv6
		r, err = reserve(unix.AF_INET, &unix.SockaddrInet4{})
	}
	if err != nil {
		return nil, fmt.Errorf("reserve a port: %w", err)
	}
	return r, nil
}

func reserve(family int, any unix.Sockaddr) (*reservation, error) {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	if err == nil && family == unix.AF_INET6 {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0)
	}
	if err == nil {
		err = unix.Bind(fd, any)
	}
	var at unix.Sockaddr
	if err == nil {
		at, err = unix.Getsockname(fd)
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	r := &reservation{fd: fd}
	switch a := at.(type) {
	case *unix.SockaddrInet6:
		r.port = a.Port
	case *unix.SockaddrInet4:
		r.port = a.Port
	}
	return r, nil
}

func (r *reservation) free() {
	if r != nil {
		_ = unix.Close(r.fd)
	}
}
