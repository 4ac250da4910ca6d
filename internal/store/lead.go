package store

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

const (
	// electionFolder can't be a kind: plurals are words.
	electionFolder = "_leader"
	leaseSeconds   = 5
	resignTimeout  = 2 * time.Second
	// maxMembers bounds how many servers are listed; more than a handful is no cluster of servers.
	maxMembers = 64
)

// election is who leads, and who would.
type election struct {
	keyspace
	lease int // seconds
	// caughtUp waits until what was written before an election is known here.
	caughtUp func(context.Context) error
}

// Campaign blocks until ctx ends. Whenever this server is the leader it runs lead, whose context
// ends when leadership is lost or ctx ends; then it stands again. An error of lead while it was
// still the leader ends the campaign, after resigning; a NotLeader fault does not, it is only
// the loss seen early.
func (s *election) Campaign(ctx context.Context, name string, lead func(ctx context.Context, epoch Epoch) error) error {
	var b backoff
	for {
		led, err := s.candidate(ctx, name, lead)
		switch {
		case ctx.Err() != nil:
			return nil
		case led && err != nil:
			return err
		case led:
			b.reset()
		default:
			s.log.Warn("could not stand for election; trying again", "error", err)
		}
		if !b.wait(ctx) {
			return nil
		}
	}
}

// candidate is one candidacy: a lease, the wait for our turn, and lead. led says that lead ran;
// err is then its own error.
func (s *election) candidate(ctx context.Context, name string, lead func(context.Context, Epoch) error) (led bool, err error) {
	grant, cancelGrant := context.WithTimeout(ctx, callTimeout)
	lease, err := s.client.Grant(grant, int64(s.lease))
	cancelGrant()
	if err != nil {
		return false, etcdFault(ctx, err, false)
	}
	// The session outlives ctx by the moment that resigning takes.
	sctx, endSession := context.WithCancel(context.WithoutCancel(ctx))
	defer endSession()
	defer s.resign(sctx, lease.ID)
	session, err := concurrency.NewSession(s.client, concurrency.WithLease(lease.ID), concurrency.WithContext(sctx))
	if err != nil {
		return false, etcdFault(ctx, err, false)
	}
	defer session.Orphan()
	cctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(session.Ctx(), func() { cancel(errors.New("the lease ended")) })
	defer stop()
	election := concurrency.NewElection(session, s.prefix+electionFolder)
	if err := election.Campaign(cctx, name); err != nil {
		return false, etcdFault(ctx, err, false)
	}
	if err := s.caughtUp(cctx); err != nil {
		return false, err
	}
	epoch := Epoch{Key: election.Key(), Revision: election.Rev()}
	s.log.Info("this server leads", "name", name, "epoch", epoch.Revision)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		s.watchDeposed(cctx, epoch, cancel)
	}()
	err = lead(cctx, epoch)
	deposed := cctx.Err() != nil
	s.log.Info("this server leads no more", "name", name, "epoch", epoch.Revision, "cause", context.Cause(cctx), "error", err)
	cancel(nil)
	<-watched
	if deposed || fault.ReasonOf(err) == "NotLeader" {
		err = nil
	}
	return true, err
}

// watchDeposed ends leadership when its key is gone although the lease lives, as after
// ForgetLeaders.
func (s *election) watchDeposed(ctx context.Context, epoch Epoch, cancel context.CancelCauseFunc) {
	for resp := range s.client.Watch(ctx, epoch.Key, clientv3.WithRev(epoch.Revision+1), clientv3.WithFilterPut()) {
		for range resp.Events {
			cancel(errors.New("the election key is gone"))
			return
		}
		if resp.Err() != nil {
			break // compacted or cut off: the lease and the fence still guard
		}
	}
}

// resign gives the lease back, and the key with it, so that the next one need not wait.
func (s *election) resign(ctx context.Context, lease clientv3.LeaseID) {
	ctx, cancel := context.WithTimeout(ctx, resignTimeout)
	defer cancel()
	if _, err := s.client.Revoke(ctx, lease); err != nil {
		s.log.Debug("the lease was not given back; it will run out", "error", err)
	}
}

// Leader is who leads now; NotFound when nobody does.
func (s *election) Leader(ctx context.Context) (name string, epoch Epoch, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := s.client.Get(ctx, s.prefix+electionFolder+"/", clientv3.WithFirstCreate()...)
	if err != nil {
		return "", Epoch{}, etcdFault(ctx, err, false)
	}
	if len(resp.Kvs) == 0 {
		return "", Epoch{}, fault.New(fault.NotFound, "NoLeader", fault.T("No server leads at the moment.", "当前没有主节点。")).
			WithHint(fault.T("One is elected within seconds; try again.", "几秒内会选出主节点，请稍后重试。"))
	}
	kv := resp.Kvs[0]
	return string(kv.Value), Epoch{Key: string(kv.Key), Revision: kv.CreateRevision}, nil
}

// Member is a server that stands for election.
type Member struct {
	Name  string
	Epoch Epoch // that it leads with, or would
}

// Members are the servers that live, the leader first; none at all is possible.
func (s *election) Members(ctx context.Context) ([]Member, error) {
	list, _, err := s.members(ctx)
	return list, err
}

func (s *election) members(ctx context.Context) ([]Member, int64, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := s.client.Get(ctx, s.prefix+electionFolder+"/", clientv3.WithPrefix(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend), clientv3.WithLimit(maxMembers))
	if err != nil {
		return nil, 0, etcdFault(ctx, err, false)
	}
	var out []Member
	for _, kv := range resp.Kvs {
		out = append(out, Member{string(kv.Value), Epoch{string(kv.Key), kv.CreateRevision}})
	}
	return out, resp.Header.Revision, nil
}

// WatchMembers tells who lives, the leader first, now and after every change, until ctx ends.
func (s *election) WatchMembers(ctx context.Context, tell func([]Member)) {
	var b backoff
	for ctx.Err() == nil {
		list, revision, err := s.members(ctx)
		if err != nil {
			b.wait(ctx)
			continue
		}
		b.reset()
		tell(list)
		wctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
		for resp := range s.client.Watch(wctx, s.prefix+electionFolder+"/", clientv3.WithPrefix(), clientv3.WithRev(revision+1)) {
			if len(resp.Events) > 0 || resp.Err() != nil {
				break
			}
		}
		cancel()
	}
}

// ForgetLeaders removes every candidate, so that a server that died does not cost its
// successor the lease's time. Only for a caller who knows that no other server lives: with the
// lock of the data folder held.
func (s *election) ForgetLeaders(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	folder := s.prefix + electionFolder + "/"
	resp, err := s.client.Get(ctx, folder, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return etcdFault(ctx, err, false)
	}
	if len(resp.Kvs) == 0 {
		return nil
	}
	for _, kv := range resp.Kvs {
		if kv.Lease != 0 {
			if _, err := s.client.Revoke(ctx, clientv3.LeaseID(kv.Lease)); err != nil {
				s.log.Debug("a lease of a former leader was already gone", "error", err)
			}
		}
	}
	_, err = s.client.Delete(ctx, folder, clientv3.WithPrefix())
	return etcdFault(ctx, err, true)
}

// StillLeading is a fenced write that changes nothing: it fails when somebody else leads, and gives
// a revision that is at least as new as everything that was written before.
func StillLeading(ctx context.Context, s Writer, e Epoch) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	nothing := api.Key{Kind: api.KindPlacement, Project: api.DefaultProject, Name: "LEADER"} // no name: names are lower case
	return s.Commit(ctx, Txn{Ops: []Op{Delete(nothing, 0)}, Fence: e})
}
