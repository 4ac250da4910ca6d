package client

import (
	"errors"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
)

const (
	maxServers = 64
	// quickTry is how long one of several servers may take for a read before the next is asked.
	quickTry = 1500 * time.Millisecond
)

// parseServers reads one address, or several with commas between them.
func parseServers(list string) ([]*url.URL, error) {
	var out []*url.URL
	for server := range strings.SplitSeq(list, ",") {
		server = strings.Trim(server, " ")
		full := server
		if !strings.Contains(full, "://") {
			full = "http://" + full
		}
		u, err := url.Parse(full)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || len(out) == maxServers {
			return nil, fault.New(fault.Invalid, "BadServer", fault.T(
				"%q is not the address of a server; it looks like http://127.0.0.1:7070.",
				"%q 不是有效的服务器地址，应形如 http://127.0.0.1:7070。", server))
		}
		u.Path = strings.TrimSuffix(u.Path, "/")
		u.RawQuery, u.Fragment, u.User = "", "", nil
		out = append(out, u)
	}
	return out, nil
}

func (c *wire) base() *url.URL { return c.bases[c.current.Load()] }

// moveOn makes the next server the current one, if the one that failed still is.
func (c *wire) moveOn(failed int32) {
	if n := int32(len(c.bases)); n > 1 {
		c.current.CompareAndSwap(failed, (failed+1)%n)
	}
}

// didNothing says that a failed write was surely not carried out: nobody was there to hear it, or
// the server said so.
func didNothing(err error) bool {
	switch fault.ReasonOf(err) {
	case "CutOff", "Starting":
		return true
	case ReasonUnreachable:
		var op *net.OpError
		return errors.As(err, &op) && op.Op == "dial"
	}
	return false
}
