package agent

import (
	"context"
	"net"
	"strconv"
	"time"

	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link/forward"
)

// listenAgain is the pause before a port that was taken is tried again.
const listenAgain = 5 * time.Second

// loopback is where processes on the machine's own network are reached.
const loopback = "127.0.0.1"

// listen opens the port for gateways; nil: it is taken, or none is wanted.
func (a *agent) listen() net.Listener {
	if a.cfg.Forward == 0 {
		return nil
	}
	l, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(a.cfg.Forward)))
	at := ""
	if err == nil {
		at = net.JoinHostPort(a.cfg.Address, strconv.Itoa(a.cfg.Forward))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil && a.roadProblem.IsZero() {
		a.cfg.Log.Warn("gateways can't reach services on this machine; trying again", "port", a.cfg.Forward, "error", err)
	}
	if a.road, a.roadProblem = at, (fault.Text{}); err != nil {
		a.roadProblem = fault.T("Port %d can't be listened on: services here are not reached from other machines. Free it, or choose another with --forward-port.",
			"无法监听端口 %d：其他机器无法访问本机上的服务。请释放该端口，或用 --forward-port 更换。", a.cfg.Forward)
		return nil
	}
	return l
}

func (a *agent) roadNow() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.road
}

// forward passes on what gateways send to replicas, until ctx ends.
func (a *agent) forward(ctx context.Context, l net.Listener) error {
	if a.cfg.Forward == 0 {
		<-ctx.Done()
		return nil
	}
	s := &forward.Server{Certificate: a.cfg.Member.Certificate, Trusts: a.cfg.Member.Trusts, Find: a.find, Log: a.cfg.Log.With("part", "road")}
	for ctx.Err() == nil {
		if l != nil {
			if err := s.Run(ctx, l); ctx.Err() != nil {
				return nil
			} else if err != nil {
				a.cfg.Log.Warn("the port for gateways was closed; opening it again", "error", err)
			}
		}
		select {
		case <-ctx.Done():
		case <-clock.Real.After(listenAgain):
			l = a.listen()
		}
	}
	return nil
}

// find is the address of a replica that runs here.
func (a *agent) find(replica string) (string, error) {
	a.mu.Lock()
	e := a.adapter
	a.mu.Unlock()
	o, ok := engine.Observation{}, false
	if e != nil {
		o, ok = e.Replica(engine.Name(replica))
	}
	switch {
	case !ok || o.State != engine.StateRunning:
		return "", fault.New(fault.NotFound, "NoReplica", fault.T("Replica %s does not run here.", "副本 %s 未在本机运行。", replica))
	case o.Address == "" || o.Address == a.cfg.Address:
		return loopback, nil
	}
	return o.Address, nil
}
