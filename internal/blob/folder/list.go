package folder

import (
	"context"
	"io/fs"
	"sort"
	"strings"

	"github.com/fermi-cluster/fermi/internal/blob"
)

// maxList bounds one page.
const maxList = 10_000

// List returns a page of objects in key order.
//
// The tree is walked in key order: a folder sorts as its name and "/", so that "a-b" comes
// before "a/b" as it does among keys. Folders that lie wholly before after are not opened.
func (s *Store) List(ctx context.Context, prefix, after string, limit int) ([]blob.Info, error) {
	if err := blob.CheckPrefix(prefix); err != nil {
		return nil, err
	}
	w := walk{ctx: ctx, store: s, after: after, limit: min(max(limit, 1), maxList)}
	err := w.dir(prefix)
	if err != nil && !absent(err) {
		return nil, sick(err, prefix, "list")
	}
	return w.found, nil
}

type walk struct {
	ctx   context.Context
	store *Store
	after string
	limit int
	found []blob.Info
}

// dir visits the folder that prefix ("" or ending in "/") names.
func (w *walk) dir(prefix string) error {
	names, err := w.names(prefix)
	if err != nil {
		if absent(err) {
			return nil // pruned while we walked
		}
		return err
	}
	for _, name := range names {
		if len(w.found) == w.limit {
			return nil
		}
		if err := w.ctx.Err(); err != nil {
			return err
		}
		key := prefix + name
		if strings.HasSuffix(name, "/") {
			if err := w.dir(key); err != nil {
				return err
			}
			continue
		}
		info, err := w.store.files.Lstat(objects + "/" + key)
		if absent(err) {
			continue
		}
		if err != nil {
			return err
		}
		w.found = append(w.found, blob.Info{Key: key, Size: info.Size(), Modified: info.ModTime()})
	}
	return nil
}

// names lists what is of interest in one folder, in key order; folders end in "/".
func (w *walk) names(prefix string) ([]string, error) {
	entries, err := w.store.entries(strings.TrimSuffix(objects+"/"+prefix, "/"))
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		name := e.Name()
		switch {
		case e.IsDir():
			name += "/"
			// All keys below start with this: they are before after unless it is a prefix of after.
			if key := prefix + name; key <= w.after && !strings.HasPrefix(w.after, key) {
				continue
			}
		case e.Type() != 0 && e.Type() != fs.ModeIrregular:
			continue // links and pipes are nobody's objects
		case prefix+name <= w.after:
			continue
		}
		if blob.CheckKey(strings.TrimSuffix(prefix+name, "/")) == nil {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	return names, nil
}
