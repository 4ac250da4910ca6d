package launch

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/engine/network"
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

// ports are those that a launcher keeps for its ranks, in their network.
type ports struct {
	space  *network.Space
	serve  *reservation   // $FERMI_PORT: it stays
	last   *reservation   // of the running generation, should we lead it
	next   *reservation   // of the one after it
	number int64          // the generation that last is of
	own    []*reservation // that the processes of a recipe are known by. They stay the same in every generation: who dies leaves them, and who comes next binds them again
}

// openPorts takes the ports that a launcher begins with, and as many as its recipe wants.
func openPorts(space *network.Space, own int) (p *ports, err error) {
	p = &ports{space: space}
	err = space.Do(func() (err error) {
		if p.serve, err = reservePort(); err != nil {
			return err
		}
		if p.next, err = reservePort(); err != nil {
			return err
		}
		for range own {
			r, err := reservePort()
			if err != nil {
				return err
			}
			p.own = append(p.own, r)
		}
		return nil
	})
	if err != nil {
		p.free()
	}
	return p, err
}

// take makes the reserved port the generation's and reserves another for the next. Of a generation
// that is begun a second time it stays.
func (p *ports) take(generation int64) error {
	if p.number == generation {
		return nil
	}
	p.last.free()
	p.last, p.number = p.next, generation
	return p.space.Do(func() (err error) {
		p.next, err = reservePort()
		return err
	})
}

// ofRecipe are the numbers of those that the recipe's processes are known by.
func (p *ports) ofRecipe() (list []int) {
	for _, r := range p.own {
		list = append(list, r.port)
	}
	return list
}

func (p *ports) free() {
	p.last.free()
	p.next.free()
	p.serve.free()
	for _, r := range p.own {
		r.free()
	}
}
