package store

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Get reads one object.
func (s *Store) Get(ctx context.Context, key api.Key, minRevision int64) (api.Object, error) {
	cached, err := s.fresh(ctx, minRevision)
	if err != nil {
		return nil, err
	}
	if !cached {
		return s.getDirect(ctx, key)
	}
	if o, ok := s.cache.get(key); ok {
		return o, nil
	}
	return nil, notFound(key.String())
}

// GetByID reads one object by its id.
func (s *Store) GetByID(ctx context.Context, kind api.Kind, id string, minRevision int64) (api.Object, error) {
	cached, err := s.fresh(ctx, minRevision)
	if err != nil {
		return nil, err
	}
	if cached {
		if o, ok := s.cache.getByID(kind, id); ok {
			return o, nil
		}
		return nil, notFound(string(kind) + " " + id)
	}
	// etcd knows no ids: go through the kind.
	list, err := s.listDirect(ctx, kind, "")
	if err != nil {
		return nil, err
	}
	var found api.Object
	list.tree.AscendGreaterOrEqual(pivot{&api.Meta{ID: id}}, func(o api.Object) bool {
		if o.GetMeta().ID == id {
			found = o
		}
		return false
	})
	if found == nil {
		return nil, notFound(string(kind) + " " + id)
	}
	return found, nil
}

// List is all objects of a kind and project ("": of all projects).
func (s *Store) List(ctx context.Context, kind api.Kind, project string, minRevision int64) (Snapshot, error) {
	if tables().plurals[kind] == "" {
		return Snapshot{}, unknownKind(kind)
	}
	cached, err := s.fresh(ctx, minRevision)
	if err != nil {
		return Snapshot{}, err
	}
	if !cached {
		return s.listDirect(ctx, kind, project)
	}
	return s.cache.list(kind, project), nil
}

func (s *Store) getDirect(ctx context.Context, key api.Key) (api.Object, error) {
	p, err := path(key)
	if err != nil {
		return nil, notFound(key.String()).Because(err)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := s.client.Get(ctx, s.prefix+p)
	if err != nil {
		return nil, etcdFault(ctx, err, false)
	}
	if len(resp.Kvs) == 0 {
		return nil, notFound(key.String())
	}
	o, err := decode(key, api.MustInfo(key.Kind), resp.Kvs[0].Value, resp.Kvs[0].ModRevision)
	if err != nil {
		return nil, fault.New(fault.Internal, "ObjectUnreadable", fault.T(
			"%s is stored in a form that this version can't read.", "当前版本无法读取 %s 的存储内容。", key)).
			WithHint(fault.T("Nothing was changed; use the version that wrote it.", "未做任何改动；请使用写入它的版本。")).Because(err)
	}
	return o, nil
}

func (s *Store) listDirect(ctx context.Context, kind api.Kind, project string) (Snapshot, error) {
	plural := tables().plurals[kind]
	if plural == "" {
		return Snapshot{}, unknownKind(kind)
	}
	from := s.prefix + plural + "/"
	if project != "" {
		if err := segment("project", project); err != nil {
			return Snapshot{tree: newTree().live}, nil
		}
		from += project + "/"
	}
	found, revision, err := s.load(ctx, from, clientv3.GetPrefixRangeEnd(from), nil)
	if err != nil {
		return Snapshot{}, etcdFault(ctx, err, false)
	}
	t := newTree()
	for _, d := range found {
		if d.object != nil {
			t.put(d.object)
		}
	}
	return Snapshot{Revision: revision, tree: t.live}, nil
}

func unknownKind(kind api.Kind) *fault.Error {
	return fault.New(fault.Invalid, "UnknownKind", fault.T("There is no kind %q.", "不存在类型 %q。", kind))
}
