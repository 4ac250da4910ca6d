package embedded

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
)

func FuzzReadDB(f *testing.F) {
	path := filepath.Join(f.TempDir(), "db")
	db, err := bolt.Open(path, 0o600, &bolt.Options{PageSize: 1024, NoFreelistSync: true})
	if err != nil {
		f.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		meta, err := tx.CreateBucket([]byte("meta"))
		if err != nil {
			return err
		}
		keys, err := tx.CreateBucket([]byte("key"))
		if err != nil {
			return err
		}
		for i := range 40 {
			if err := keys.Put(fmt.Appendf(nil, "%03d", i), make([]byte, 60)); err != nil {
				return err
			}
		}
		return meta.Put([]byte("consistent_index"), binary.BigEndian.AppendUint64(nil, 77))
	})
	if err != nil || db.Close() != nil {
		f.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	if seen, err := readDB(bytes.NewReader(raw), int64(len(raw))); err != nil || seen != 77 {
		f.Fatalf("%d, %v", seen, err)
	}
	f.Add(raw)
	f.Add(raw[:2048])
	f.Add([]byte{})
	f.Fuzz(func(_ *testing.T, raw []byte) {
		readDB(bytes.NewReader(raw), int64(len(raw))) // must neither crash nor hang
	})
}

func FuzzWALSegment(f *testing.F) {
	dir := filepath.Join(f.TempDir(), "wal")
	w, err := wal.Create(zap.NewNop(), dir, []byte("meta"))
	if err != nil {
		f.Fatal(err)
	}
	var entries []*raftpb.Entry
	for i := range uint64(5) {
		entries = append(entries, &raftpb.Entry{Term: new(uint64(1)), Index: new(i + 1), Data: []byte("data")})
	}
	if err := w.Save(&raftpb.HardState{Term: new(uint64(1)), Commit: new(uint64(5))}, entries); err != nil {
		f.Fatal(err)
	}
	if err := w.Close(); err != nil {
		f.Fatal(err)
	}
	names, err := walFiles(dir)
	if err != nil {
		f.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, names[0]))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw[:1024])
	f.Add([]byte{})
	path := filepath.Join(f.TempDir(), "0.wal")
	f.Fuzz(func(t *testing.T, raw []byte) {
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		var w walReader
		if err := w.segment(path, true); err != nil {
			_ = err.Error()
		}
	})
}
