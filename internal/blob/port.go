package blob

import (
	"context"
	"io"
	"time"
)

// Info describes an object.
type Info struct {
	Key      string    `json:"key"`
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
}

// Store keeps objects by key. Keys are '/'-separated segments of printable Unicode without
// ".", ".." or empty segments, at most 1,024 bytes: CheckKey. Safe for concurrent use.
type Store interface {
	// Put writes or replaces an object; on error nothing is changed. A full disk is fault Full.
	Put(ctx context.Context, key string, r io.Reader) (Info, error)
	// Open fails with fault NotFound. The caller closes.
	Open(ctx context.Context, key string) (io.ReadSeekCloser, Info, error)
	// List returns up to limit objects under prefix (a whole folder: "logs/task-1/"), in key
	// order, with keys greater than after.
	List(ctx context.Context, prefix, after string, limit int) ([]Info, error)
	// Delete removes an object; absent is fine. A key ending in "/" removes all under it.
	Delete(ctx context.Context, key string) error
}

// Creator is a Store that can put an object only where there is none.
type Creator interface {
	// Create is Put, but fails with fault Conflict, and changes nothing, where the key has an
	// object. Of several at once one succeeds. When it fails in another way the object may stand
	// all the same, whole: the caller looks.
	Create(ctx context.Context, key string, r io.Reader) (Info, error)
}
