package safe

import (
	"context"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fermi-cluster/fermi/internal/fault"
)

const (
	callTimeout = 8 * time.Second
	maxValue    = 64 << 10
)

// Safe is the values below one prefix of etcd. Safe for concurrent use.
type Safe struct {
	client *clientv3.Client
	prefix string
}

// New makes one below the store's prefix. No kind has this name.
func New(client *clientv3.Client, prefix string) *Safe {
	return &Safe{client, strings.TrimSuffix(prefix, "/") + "/safe/"}
}

// Read is a value and its revision; nothing and 0 where there is none.
func (s *Safe) Read(ctx context.Context, name string) (value []byte, revision int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := s.client.Get(ctx, s.prefix+name)
	if err != nil {
		return nil, 0, away(err)
	}
	if len(resp.Kvs) == 0 {
		return nil, 0, nil
	}
	return resp.Kvs[0].Value, resp.Kvs[0].ModRevision, nil
}

// Write replaces the value that was read at a revision, 0 where there was none. Fault Conflict: somebody else was faster, and nothing is changed. After any
// other fault it may stand all the same.
func (s *Safe) Write(ctx context.Context, name string, value []byte, revision int64) (now int64, err error) {
	if len(value) > maxValue {
		return 0, fault.New(fault.Invalid, "ValueTooLarge", fault.T("%s has %d bytes; at most %d are kept.", "%s 有 %d 字节，最多保存 %d 字节。", name, len(value), maxValue))
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := s.client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(s.prefix+name), "=", revision)).
		Then(clientv3.OpPut(s.prefix+name, string(value))).Commit()
	if err != nil {
		return 0, away(err)
	}
	if !resp.Succeeded {
		return 0, fault.New(fault.Conflict, "ChangedMeanwhile", fault.T("Another server changed %s at the same moment; try again.", "%s 刚被另一台服务器修改，请重试。", name))
	}
	return resp.Header.Revision, nil
}

// Next is a number that was never returned before: step beyond the last one and beyond used, and at least first.
func (s *Safe) Next(ctx context.Context, name string, first, step int, used []int) (int, error) {
	for {
		value, revision, err := s.Read(ctx, name)
		if err != nil {
			return 0, err
		}
		next := first
		if revision != 0 {
			last, err := strconv.Atoi(string(value))
			if err != nil {
				return 0, fault.New(fault.Internal, "CounterGarbled", fault.T("The counter %s in etcd can't be read.", "etcd 中的计数器 %s 无法读取。", name)).Because(err)
			}
			next = max(next, last+step)
		}
		for _, n := range used {
			for next <= n {
				next += step
			}
		}
		if _, err = s.Write(ctx, name, []byte(strconv.Itoa(next)), revision); !fault.Is(err, fault.Conflict) {
			return next, err
		}
	}
}

func away(err error) error {
	return fault.New(fault.Unavailable, "EtcdAway", fault.T("etcd does not answer.", "etcd 没有应答。")).Because(err)
}
