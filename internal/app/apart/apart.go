package apart

import (
	"context"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine/hostengine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/link/endpoint"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/internal/store/safe"
)

// NoNodes is the inventory of a server that runs nothing on its machine.
func NoNodes(context.Context) ([]api.Node, error) { return nil, nil }

// NoEngine is what a replica on a node gets that no machine joined as.
func NoEngine(node string) error {
	return fault.New(fault.NotFound, "NoAgent", fault.T("No machine joined as node %s.", "没有机器以节点 %s 的身份加入。", node))
}

// TakeUID gives projects their numbers: the next leader must know what this one gave, also to projects that are gone. used are those that projects have.
func TakeUID(s *safe.Safe, used []int) (int, error) {
	uid, err := s.Next(context.Background(), "uids", hostengine.FirstAuto, hostengine.UIDsEach, used)
	if err == nil && uid > hostengine.LastAuto {
		err = fault.New(fault.Full, "UIDsUsedUp", fault.T("All uids were given to projects.", "所有 uid 均已分配给项目。"))
	}
	return uid, err
}

// Name is what a server is called in the election: its name, where agents reach it, and where its peers do. link is "" where agents don't, or where it is nobody
// else's business.
func Name(name, link, peer string) string {
	if _, port, err := net.SplitHostPort(link); err == nil && port != "0" {
		name += "!" + link
	}
	return name + "@" + peer
}

// Roster is who the servers are.
type Roster struct {
	links  atomic.Pointer[[]string]
	change chan struct{} // has one when they may be others
}

// NewRoster makes one that knows nobody.
func NewRoster() *Roster { return &Roster{change: make(chan struct{}, 1)} }

// Read takes the names of the election apart.
func (r *Roster) Read(list []store.Member) []link.Server {
	servers, links := make([]link.Server, 0, len(list)), []string{}
	for _, m := range list {
		name, peer, _ := strings.Cut(m.Name, "@")
		name, at, _ := strings.Cut(name, "!")
		servers = append(servers, link.Server{Name: name, Address: peer, Epoch: m.Epoch.Revision})
		if at != "" {
			links = append(links, at)
		}
	}
	r.links.Store(&links)
	select {
	case r.change <- struct{}{}:
	default:
	}
	return servers
}

const lookEvery = time.Second

// Tell keeps the file of targets, from which agents are told where servers are: all that live, with the key of now. It runs until ctx ends.
func (r *Roster) Tell(ctx context.Context, file string, keys func() [][]byte, log *slog.Logger) error {
	var told []string
	for {
		targets := r.targets(keys()[0])
		if len(targets) > 0 && !slices.Equal(targets, told) {
			if err := endpoint.Set(file, targets); err != nil {
				log.Warn("the addresses of the servers could not be written; trying again", "error", err)
			} else {
				told = targets
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-r.change:
		case <-clock.Real.After(lookEvery): // the key may be another
		}
	}
}

func (r *Roster) targets(key []byte) (out []string) {
	links := r.links.Load()
	if links == nil {
		return nil
	}
	for _, at := range *links {
		if t, err := endpoint.Target(at, key); err == nil {
			out = append(out, t)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
