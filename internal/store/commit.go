package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

const (
	maxOps = 100
	// maxTxnBytes stays under etcd's 1.5 MiB a request.
	maxTxnBytes = 1400 << 10
	// writeReserve is refused to ordinary writes: etcd must always find room for the next segment of its log. Deletions and
	// what is urgent are refused nothing: they are the way out, and the folder's ballast is there for them.
	writeReserve = 64 << 20
)

type urgent struct{}

// Urgent marks all commits under a context as urgent, see Txn.
func Urgent(ctx context.Context) context.Context { return context.WithValue(ctx, urgent{}, true) }

func isUrgent(ctx context.Context) bool { return ctx.Value(urgent{}) != nil }

// Commit applies all operations or none.
func (s *Store) Commit(ctx context.Context, txn Txn) (int64, error) {
	start := time.Now()
	revision, err := s.commit(ctx, txn)
	s.metrics.commit(time.Since(start).Seconds(), err)
	return revision, err
}

// plan is a transaction in etcd's words. checks[i] explains the i-th compare and reads[i] looks
// at its key where the compare failed.
type plan struct {
	compares []clientv3.Cmp
	reads    []clientv3.Op
	checks   []check
	writes   []clientv3.Op
	bytes    int
	puts     bool
}

// check knows what was expected of one key.
type check struct {
	key      api.Key
	fence    bool
	create   bool
	revision int64
}

func (s *Store) commit(ctx context.Context, txn Txn) (int64, error) {
	p, err := s.plan(txn)
	if err != nil {
		return 0, err
	}
	if p.puts && !txn.Urgent && !isUrgent(ctx) {
		if err := s.checkDisk(); err != nil {
			return 0, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := s.txn(ctx, p)
	if err != nil {
		return 0, etcdFault(ctx, err, true)
	}
	if !resp.Succeeded {
		newer, err := p.why(resp)
		s.seen(ctx, newer)
		return 0, err
	}
	revision := resp.Header.Revision
	raise(&s.known, revision)
	for _, op := range txn.Ops {
		if op.Verb == VerbCreate || op.Verb == VerbUpdate {
			op.Object.GetMeta().Revision = revision
		}
	}
	return revision, nil
}

// txn sends it. A member that has no leader says so at once and does nothing: then the next one is
// asked, until there is a leader.
func (s *Store) txn(ctx context.Context, p *plan) (*clientv3.TxnResponse, error) {
	for {
		resp, err := s.client.Txn(clientv3.WithRequireLeader(ctx)).If(p.compares...).Then(p.writes...).Else(p.reads...).Commit()
		if !errors.Is(err, rpctypes.ErrNoLeader) || !wait(ctx, firstBackoff) {
			return resp, err
		}
	}
}

func (s *Store) plan(txn Txn) (*plan, error) {
	if len(txn.Ops) > maxOps {
		return nil, invalid("TooManyOperations", fault.T(
			"A transaction has at most %d operations; this one has %d.", "单次事务最多 %d 个操作，当前为 %d 个。", maxOps, len(txn.Ops)), nil)
	}
	p := &plan{}
	if !txn.Fence.IsZero() {
		p.expect(check{fence: true, revision: txn.Fence.Revision}, txn.Fence.Key,
			clientv3.Compare(clientv3.CreateRevision(txn.Fence.Key), "=", txn.Fence.Revision))
	}
	written := map[string]bool{}
	for _, op := range txn.Ops {
		if err := s.planOp(p, op, written); err != nil {
			return nil, err
		}
	}
	if p.bytes > maxTxnBytes {
		return nil, invalid("TransactionTooLarge", fault.T(
			"A transaction has at most %d bytes; this one has %d.", "单次事务最多 %d 字节，当前为 %d 字节。", maxTxnBytes, p.bytes), nil)
	}
	return p, nil
}

func (s *Store) planOp(p *plan, op Op, written map[string]bool) error {
	key := op.Key
	if op.Verb == VerbCreate || op.Verb == VerbUpdate {
		key = api.KeyOf(op.Object) // as it is now, not as it was when the Op was made
	}
	rel, err := path(key)
	if err != nil {
		return invalid("BadKey", fault.T("%s can't be stored under this name.", "无法以该名称存储 %s。", key), err)
	}
	name := s.prefix + rel
	if op.Verb != VerbUnchanged {
		if written[name] {
			return invalid("DuplicateKey", fault.T("%s is written twice in one transaction.", "%s 在同一事务中被写入两次。", key), nil)
		}
		written[name] = true
	}
	switch op.Verb {
	case VerbCreate:
		p.expect(check{key: key, create: true}, name, clientv3.Compare(clientv3.Version(name), "=", 0))
	case VerbUpdate:
		if op.Revision == 0 {
			return invalid("RevisionMissing", fault.T("An update of %s must carry the revision it was made from.", "更新 %s 时必须携带所基于的版本号。", key), nil)
		}
		p.expectRevision(key, name, op.Revision)
	case VerbDelete:
		if op.Revision != 0 {
			p.expectRevision(key, name, op.Revision)
		}
		p.writes = append(p.writes, clientv3.OpDelete(name))
		return nil
	case VerbUnchanged:
		p.expectRevision(key, name, op.Revision)
		return nil
	default:
		return invalid("UnknownVerb", fault.T("Unknown operation.", "未知操作。"), fmt.Errorf("verb %d", op.Verb))
	}
	return p.put(key, name, op.Object)
}

func (p *plan) put(key api.Key, name string, o api.Object) error {
	value, err := encode(o)
	if err != nil {
		return invalid("NotEncodable", fault.T("%s can't be written down.", "无法序列化 %s。", key), err)
	}
	if len(value) > maxValue {
		return invalid("ObjectTooLarge", fault.T(
			"%s has %d bytes; at most %d can be stored.", "%s 共 %d 字节，最多可存储 %d 字节。", key, len(value), maxValue), nil)
	}
	p.puts = true
	p.bytes += len(value) + len(name)
	p.writes = append(p.writes, clientv3.OpPut(name, string(value)))
	return nil
}

func (p *plan) expectRevision(key api.Key, name string, revision int64) {
	p.expect(check{key: key, revision: revision}, name, clientv3.Compare(clientv3.ModRevision(name), "=", revision))
}

func (p *plan) expect(c check, name string, cmp clientv3.Cmp) {
	p.checks = append(p.checks, c)
	p.compares = append(p.compares, cmp)
	p.reads = append(p.reads, clientv3.OpGet(name, clientv3.WithKeysOnly()))
}

// seen waits until the cache has a revision, so that whoever reads again after a stale write does not read the same again.
func (s *Store) seen(ctx context.Context, revision int64) {
	select {
	case <-s.ready:
		_, _ = s.fresh(ctx, revision)
	default: // there is no cache yet: reads go to etcd
	}
}

// why finds the first expectation that was not met; the fence comes first. newer is the revision of what is there instead of what was read; 0: nothing was.
func (p *plan) why(resp *clientv3.TxnResponse) (newer int64, err error) {
	for i, c := range p.checks {
		var created, modified int64
		if kvs := resp.Responses[i].GetResponseRange().GetKvs(); len(kvs) > 0 {
			created, modified = kvs[0].CreateRevision, kvs[0].ModRevision
		}
		switch {
		case c.fence && created != c.revision:
			return 0, notLeader()
		case c.create && created != 0:
			return 0, nameTaken(c.key)
		case !c.fence && !c.create && modified != c.revision:
			return cmp.Or(modified, resp.Header.Revision), stale(c.key, modified == 0)
		}
	}
	return 0, fault.New(fault.Internal, "StoreFailed", fault.T("The store refused the change.", "存储拒绝了该更改。"))
}

// checkDisk refuses while etcd still has room: a log that can't be written is the end of it.
func (s *upkeep) checkDisk() error {
	if s.diskFree == nil {
		return nil
	}
	free, err := s.diskFree()
	if err != nil {
		return nil //nolint:nilerr // not knowing is no reason to refuse
	}
	if free < writeReserve {
		return diskLow(fmt.Errorf("%d bytes are free, %d are kept in reserve", free, writeReserve))
	}
	return nil
}
