package store

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fermi-cluster/fermi/internal/fault"
)

const (
	contactEvery = 500 * time.Millisecond
	// contactTimeout is shorter than staleAfter, so that one lost question is asked again in time.
	contactTimeout = 1200 * time.Millisecond
	staleAfter     = 2500 * time.Millisecond
	// askNext is how long one member is waited for before the next one is asked too.
	askNext    = 250 * time.Millisecond
	askMembers = 3
)

// Now is the revision of the store at some moment during the call: everything acknowledged before
// the call is at or below it. It needs the quorum; a member that does not answer is not waited for:
// the next one is asked beside it.
func (s *Store) Now(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	type answer struct {
		revision int64
		err      error
	}
	answers := make(chan answer, askMembers)
	ask := func() {
		resp, err := s.client.Get(clientv3.WithRequireLeader(ctx), s.prefix+electionFolder, clientv3.WithCountOnly())
		if err != nil {
			answers <- answer{err: etcdFault(ctx, err, false)}
			return
		}
		answers <- answer{revision: resp.Header.Revision}
	}
	more := time.NewTimer(0)
	defer more.Stop()
	for asked, open := 0, 0; ; {
		select {
		case <-more.C:
			if asked < askMembers {
				asked, open = asked+1, open+1
				go ask()
				more.Reset(askNext)
			}
		case a := <-answers:
			if a.err == nil {
				raise(&s.known, a.revision)
				return a.revision, nil
			}
			if open--; open == 0 && asked == askMembers {
				return 0, a.err
			}
			more.Reset(askNext / 10)
		}
	}
}

// contact asks the quorum again and again, and sees that the cache has followed: what Contact says.
func (s *Store) contact(ctx context.Context) error {
	told := true // that there is none, which goes without saying before the first
	for {
		asked := time.Now()
		call, cancel := context.WithTimeout(ctx, contactTimeout)
		revision, err := s.Now(call)
		if err == nil {
			if seen, _ := s.fresh(call, revision); seen {
				s.contacted.Store(&asked)
			}
		}
		cancel()
		if lost := s.Contact() != nil; lost != told && ctx.Err() == nil {
			told = lost
			if lost {
				s.log.Warn("no contact with the store; nobody is answered until it is back", "error", err)
			} else {
				s.log.Info("in contact with the store")
			}
		}
		pause := contactEvery
		if err != nil {
			pause = firstBackoff
		}
		if !wait(ctx, pause) {
			return nil
		}
	}
}

// Contact is nil while the cache is known to be at most 2.5 seconds old. A server that is cut off
// from the quorum, or just woke from a long sleep, thereby knows it before it answers anybody.
func (s *Store) Contact() error {
	if at := s.contacted.Load(); at != nil && time.Since(*at) < staleAfter {
		return nil
	}
	return fault.New(fault.Unavailable, "CutOff", fault.T(
		"This server has no contact with the store; nothing was done.", "本服务与存储失去联系，未做任何操作。")).
		WithHint(fault.T("Ask another server; this one recovers by itself.", "请访问其他服务；本服务会自动恢复。"))
}
