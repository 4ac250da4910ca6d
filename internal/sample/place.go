package sample

import (
	"errors"
	"fmt"
	"net"
	"strconv"
)

// Place is where a rank stands among others; zero: it is alone.
type Place struct {
	Rank, World, Local int
	Generation         int64
	Master             string // host:port of rank 0; only with others
	Socket, Memory     string // of the launcher; "": there is none
	Slots              int    // in its memory; 0: three
}

// maxWorld bounds the ring.
const maxWorld = 1024

func (p Place) alone() bool { return p.World <= 1 }

// placeFrom reads what torch's launchers set, and where Fermi's own listens.
func placeFrom(getenv func(string) string) (p Place, err error) {
	var errs []error
	number := func(name string, dst *int) {
		if v := getenv(name); v != "" {
			n, err := strconv.Atoi(v)
			if err != nil || n < 0 {
				errs = append(errs, fmt.Errorf("%s: %q is no number", name, v))
			}
			*dst = n
		}
	}
	number("RANK", &p.Rank)
	number("WORLD_SIZE", &p.World)
	number("LOCAL_RANK", &p.Local)
	number("FERMI_SLOTS", &p.Slots)
	if v := getenv("FERMI_GENERATION"); v != "" {
		if p.Generation, err = strconv.ParseInt(v, 10, 64); err != nil {
			errs = append(errs, fmt.Errorf("FERMI_GENERATION: %q is no number", v))
		}
	}
	p.Socket, p.Memory = getenv("FERMI_SOCKET"), getenv("FERMI_SHM")
	if p.alone() {
		p.Rank, p.World = 0, 1
	} else {
		p.Master = net.JoinHostPort(getenv("MASTER_ADDR"), getenv("MASTER_PORT"))
	}
	return p, errors.Join(errs...)
}

// Validate says what is wrong.
func (p Place) Validate() error {
	switch {
	case p.World > maxWorld:
		return fmt.Errorf("at most %d ranks, not %d", maxWorld, p.World)
	case p.Rank < 0 || p.Rank > 0 && p.Rank >= p.World:
		return fmt.Errorf("rank %d is none of %d", p.Rank, p.World)
	}
	return nil
}
