package store

import (
	"context"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// Reader reads from the watch cache. Objects are shared: callers never change them; take a
// private copy with Clone. Safe for concurrent use. minRevision 0 reads what the cache has; a
// larger one waits (at most a second, asking etcd for progress) until the cache has seen that
// revision, then reads etcd itself.
type Reader interface {
	// Get fails with fault NotFound.
	Get(ctx context.Context, key api.Key, minRevision int64) (api.Object, error)
	// GetByID fails with fault NotFound.
	GetByID(ctx context.Context, kind api.Kind, id string, minRevision int64) (api.Object, error)
	// List is a consistent snapshot in id order (oldest first), in O(1); project "" is all.
	List(ctx context.Context, kind api.Kind, project string, minRevision int64) (Snapshot, error)
	// Subscribe delivers every change of the kinds from now on; see Feed.
	Subscribe(kinds ...api.Kind) *Feed
	// SubscribeBrief is Subscribe that also tells, as deleted, what came and went between two reads.
	SubscribeBrief(kinds ...api.Kind) *Feed
}

// Writer commits.
type Writer interface {
	// Commit applies all operations or none and returns the store revision. Faults: Conflict
	// with reason Stale (a revision moved; the cache has what is newer by then), NameTaken (create on an existing key), NotLeader
	// (the fence is broken); Full (disk or quota; nothing was written); Unavailable (no quorum
	// within the deadline: the outcome is unknown and the caller must look again).
	// Metadata.Revision of created and updated objects is set on success.
	Commit(ctx context.Context, txn Txn) (int64, error)
}

// ReadWriter is what a controller needs.
type ReadWriter interface {
	Reader
	Writer
}

// Txn is one atomic change of at most 100 operations.
type Txn struct {
	Ops []Op
	// Fence, when not zero, must be the current leadership.
	Fence Epoch
	// Urgent is for what ends work or keeps it away: it may use the room that is kept free for that on a full disk.
	Urgent bool
}

// Epoch is one leadership: the create revision of the election key. It only grows.
type Epoch struct {
	Key      string
	Revision int64
}

// IsZero says that no leadership is meant.
func (e Epoch) IsZero() bool { return e.Revision == 0 }

// Op is one operation of a Txn; make it with Create, Update, Delete or Unchanged.
type Op struct {
	Verb     Verb
	Object   api.Object // Create, Update
	Key      api.Key    // Delete, Unchanged
	Revision int64      // Update, Delete, Unchanged: the revision it was read at; 0 in Delete: whatever
}

// Verb is what an Op does.
type Verb int

// The verbs.
const (
	VerbCreate Verb = iota
	VerbUpdate
	VerbDelete
	VerbUnchanged
)

// Create writes an object whose key must not exist.
func Create(o api.Object) Op { return Op{Verb: VerbCreate, Object: o, Key: api.KeyOf(o)} }

// Update writes an object over the revision in its metadata.
func Update(o api.Object) Op {
	return Op{Verb: VerbUpdate, Object: o, Key: api.KeyOf(o), Revision: o.GetMeta().Revision}
}

// Delete removes a key, if it is still at revision (0: at any; absent is fine then).
func Delete(key api.Key, revision int64) Op {
	return Op{Verb: VerbDelete, Key: key, Revision: revision}
}

// Unchanged only guards: the key must still be at revision.
func Unchanged(key api.Key, revision int64) Op {
	return Op{Verb: VerbUnchanged, Key: key, Revision: revision}
}

// Change is one event of a Feed. Old is nil for a new object, New is nil for a deleted one.
type Change struct {
	Key      api.Key
	Old, New api.Object
	Revision int64
}
