package port

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/engine/network"
)

// Reservation is a TCP port that nobody in the replica's network is given by chance: bound, and not
// listening. A program that binds it by number with SO_REUSEADDR, as rank 0 of every framework
// does, gets it nevertheless.
type Reservation struct {
	fd   int
	Port int
}

// Reserve takes one that is free on every address of both families: programs bind it so.
func Reserve() (*Reservation, error) {
	r, err := reserve(unix.AF_INET6, &unix.SockaddrInet6{})
	if err != nil { // a kernel without IPv6
		r, err = reserve(unix.AF_INET, &unix.SockaddrInet4{})
	}
	if err != nil {
		return nil, fmt.Errorf("reserve a port: %w", err)
	}
	return r, nil
}

func reserve(family int, any unix.Sockaddr) (*Reservation, error) {
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
	r := &Reservation{fd: fd}
	switch a := at.(type) {
	case *unix.SockaddrInet6:
		r.Port = a.Port
	case *unix.SockaddrInet4:
		r.Port = a.Port
	}
	return r, nil
}

func (r *Reservation) Free() {
	if r != nil {
		_ = unix.Close(r.fd)
	}
}

// Set are those that a launcher keeps for its ranks, in their network.
type Set struct {
	space  *network.Space
	Serve  *Reservation   // $FERMI_PORT: it stays
	last   *Reservation   // of the running generation, should we lead it
	Next   *Reservation   // of the one after it
	number int64          // the generation that last is of
	own    []*Reservation // that the processes of a recipe are known by. They stay the same in every generation: who dies leaves them, and who comes next binds them again
}

// Open takes the ports that a launcher begins with, and as many as its recipe wants.
func Open(space *network.Space, own int) (p *Set, err error) {
	p = &Set{space: space}
	err = space.Do(func() (err error) {
		if p.Serve, err = Reserve(); err != nil {
			return err
		}
		if p.Next, err = Reserve(); err != nil {
			return err
		}
		for range own {
			r, err := Reserve()
			if err != nil {
				return err
			}
			p.own = append(p.own, r)
		}
		return nil
	})
	if err != nil {
		p.Free()
	}
	return p, err
}

// Take makes the reserved port the generation's and reserves another for the next. Of a generation
// that is begun a second time it stays.
func (p *Set) Take(generation int64) error {
	if p.number == generation {
		return nil
	}
	p.last.Free()
	p.last, p.number = p.Next, generation
	return p.space.Do(func() (err error) {
		p.Next, err = Reserve()
		return err
	})
}

// OfRecipe are the numbers of those that the recipe's processes are known by.
func (p *Set) OfRecipe() (list []int) {
	for _, r := range p.own {
		list = append(list, r.Port)
	}
	return list
}

func (p *Set) Free() {
	p.last.Free()
	p.Next.Free()
	p.Serve.Free()
	for _, r := range p.own {
		r.Free()
	}
}
