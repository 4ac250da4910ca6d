package store

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	api "github.com/fermi-cluster/fermi/api/v1"
)

const (
	// Pages are cut by bytes as well as by number, because one object may have a megabyte: the
	// first is small, and each following one aims at pageBytes. Small pages are dear: for each, etcd
	// counts all keys of the range that are left.
	firstPage = 64
	maxPage   = 10_000
	pageBytes = 8 << 20
)

// keyspace is etcd, and the part of it that is ours.
type keyspace struct {
	client *clientv3.Client
	prefix string
	log    *slog.Logger
}

// scan reads a range of keys at one revision, page by page, and gives each page to visit.
func (s *keyspace) scan(ctx context.Context, from, end string, visit func([]*mvccpb.KeyValue) error) (revision int64, err error) {
	limit := int64(firstPage)
	for {
		opts := []clientv3.OpOption{clientv3.WithRange(end), clientv3.WithLimit(limit)}
		if revision > 0 {
			opts = append(opts, clientv3.WithRev(revision))
		}
		resp, err := s.page(ctx, from, opts)
		if err != nil {
			return 0, err
		}
		if revision == 0 {
			revision = resp.Header.Revision
		}
		if len(resp.Kvs) > 0 {
			if err := visit(resp.Kvs); err != nil {
				return 0, err
			}
		}
		if !resp.More || len(resp.Kvs) == 0 {
			return revision, nil
		}
		from = string(resp.Kvs[len(resp.Kvs)-1].Key) + "\x00"
		limit = nextLimit(resp.Kvs)
	}
}

func (s *keyspace) page(ctx context.Context, from string, opts []clientv3.OpOption) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return s.client.Get(ctx, from, opts...)
}

func nextLimit(kvs []*mvccpb.KeyValue) int64 {
	bytes := 1
	for _, kv := range kvs {
		bytes += len(kv.Value)
	}
	return int64(min(maxPage, max(1, len(kvs)*pageBytes/bytes)))
}

// decoded is what one stored pair turned into.
type decoded struct {
	key api.Key
	// object is nil where the pair was known at this revision, or can't be read.
	object api.Object
}

// load reads and decodes a range on all cores. known tells which revisions need no decoding; it
// may be nil. Pairs that are no objects are left out; objects that can't be read are logged and
// come without one.
func (s *keyspace) load(ctx context.Context, from, end string, known map[api.Key]int64) ([]decoded, int64, error) {
	g, ctx := errgroup.WithContext(ctx)
	pages := make(chan []*mvccpb.KeyValue, 1)
	workers := runtime.GOMAXPROCS(0)
	parts := make([][]decoded, workers)
	for i := range workers {
		g.Go(func() error {
			for kvs := range pages {
				parts[i] = slices.Grow(parts[i], len(kvs))
				for _, kv := range kvs {
					if d, ok := s.decodePair(kv, known); ok {
						parts[i] = append(parts[i], d)
					}
				}
			}
			return nil
		})
	}
	var revision int64
	g.Go(func() (err error) {
		defer close(pages)
		revision, err = s.scan(ctx, from, end, func(kvs []*mvccpb.KeyValue) error {
			select {
			case pages <- kvs:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		return err
	})
	if err := g.Wait(); err != nil {
		return nil, 0, err
	}
	return slices.Concat(parts...), revision, nil
}

func (s *keyspace) decodePair(kv *mvccpb.KeyValue, known map[api.Key]int64) (decoded, bool) {
	key, info, ok := parsePath(string(kv.Key[len(s.prefix):]))
	if !ok {
		return decoded{}, false
	}
	if rev, ok := known[key]; ok && rev == kv.ModRevision {
		return decoded{key: key}, true
	}
	o, err := decode(key, info, kv.Value, kv.ModRevision)
	if err != nil {
		s.log.Error("an object in the store can't be read; it is left alone and left out", "key", key.String(), "revision", kv.ModRevision, "error", err)
		return decoded{key: key}, true
	}
	return decoded{key: key, object: o}, true
}

// errRelist says that the watch can't be continued and everything must be read anew.
var errRelist = errors.New("the watch's past was compacted")
