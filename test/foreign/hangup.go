package foreign

import (
	"net"
	"testing"
)

// HangUp accepts on a listener and closes at once, until the test ends. It gives the port.
func HangUp(t testing.TB, l net.Listener) (port string) {
	t.Helper()
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return port
}
