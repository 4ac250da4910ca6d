package port

import (
	"errors"
	"net"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// TestReservePort: rank 0 gets its port on one address and, as PyTorch does, on all of them, though
// other programs hold thousands of ports on another address and listen there.
func TestReservePort(t *testing.T) {
	for range 2000 {
		held, err := reserve(unix.AF_INET6, &unix.SockaddrInet6{Addr: [16]byte{15: 1}})
		if errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EADDRNOTAVAIL) {
			break // no IPv6 on this machine, and so nobody to hold a port there
		}
		if err != nil {
			t.Fatal(err)
		}
		defer held.Free()
		if err := unix.Listen(held.fd, 1); err != nil {
			t.Fatal(err)
		}
	}
	for range 50 {
		r, err := Reserve()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Free()
		for _, at := range []string{"127.0.0.1:", ":"} {
			l, err := net.Listen("tcp", at+strconv.Itoa(r.Port))
			if err != nil {
				t.Fatal("rank 0 does not get its port:", err)
			}
			l.Close()
		}
	}
}
