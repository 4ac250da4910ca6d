package embedded

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/fermi-cluster/fermi/internal/fault"
)

func discardLog() *slog.Logger { return slog.New(slog.DiscardHandler) }

// Check reads the files of a store that does not run and says which one can't be trusted. It
// changes nothing.
//
// The simple story: every record of the log has a checksum, every page of the database knows its
// own number, and the log must reach at least as far as the database. The last one matters most:
// a log cut short looks like an interrupted write, and etcd would go on and silently ignore new
// entries until their numbers pass what the database has already seen.
func Check(dir string) error {
	walDir := filepath.Join(dir, "member", "wal")
	dbPath := filepath.Join(dir, "member", "snap", "db")
	seen, err := checkDB(dbPath)
	if err != nil {
		return checkFault(dbPath, err)
	}
	last, file, err := checkWAL(walDir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// The database is made before the log: an interrupted first start leaves an empty one.
		if seen > 0 {
			return checkFault(walDir, errors.New("the log is missing while the database has entries"))
		}
		return nil
	case err != nil:
		return checkFault(file, err)
	case last < seen:
		return checkFault(file, fmt.Errorf("the log ends at entry %d, but the database has seen %d", last, seen))
	}
	return nil
}

func checkFault(file string, err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return folderFault(filepath.Dir(file), err)
	}
	var f *fault.Error
	if errors.As(err, &f) {
		return err
	}
	return damaged(file, err)
}

// checkWAL reads all segments and gives the number of the last entry; on error, the segment.
func checkWAL(dir string) (last uint64, file string, err error) {
	names, err := walFiles(dir)
	if err != nil {
		return 0, dir, err
	}
	if len(names) == 0 {
		return 0, dir, errors.New("the log folder is empty")
	}
	log := walReader{}
	for i, name := range names {
		file = filepath.Join(dir, name)
		if err := log.segment(file, i == len(names)-1); err != nil {
			return 0, file, err
		}
	}
	return max(log.last, log.snapshot), file, nil
}

func walFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".wal") {
			names = append(names, e.Name())
		}
	}
	sort.Strings(names)
	return names, nil
}

// walReader carries what must fit together across segments.
type walReader struct {
	crc            uint32
	begun          bool
	last, snapshot uint64
}

func (w *walReader) segment(path string, newest bool) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	dec := wal.NewDecoder(fileutil.NewFileReader(f))
	if w.begun {
		dec.UpdateCRC(w.crc)
	}
	var rec walpb.Record
	records := 0
	for ; ; records++ {
		if err = dec.Decode(&rec); err != nil {
			break
		}
		if err := w.record(dec, &rec); err != nil {
			return err
		}
	}
	w.crc = dec.LastCRC()
	switch {
	case errors.Is(err, io.EOF) && records > 0:
		return nil
	case errors.Is(err, io.ErrUnexpectedEOF) && newest && records > 0:
		return nil // a write that was cut off by a crash; it was never acknowledged
	case errors.Is(err, io.EOF):
		return errors.New("the segment is empty")
	}
	return err
}

func (w *walReader) record(dec wal.Decoder, rec *walpb.Record) error {
	switch rec.GetType() {
	case wal.CrcType:
		if crc := dec.LastCRC(); w.begun && crc != 0 && rec.GetCrc() != crc {
			return wal.ErrCRCMismatch
		}
		w.begun = true
		dec.UpdateCRC(rec.GetCrc())
	case wal.EntryType:
		var e raftpb.Entry
		if err := proto.Unmarshal(rec.GetData(), &e); err != nil {
			return err
		}
		if w.last != 0 && e.GetIndex() > w.last+1 {
			return fmt.Errorf("entry %d follows entry %d", e.GetIndex(), w.last)
		}
		w.last = e.GetIndex()
	case wal.SnapshotType:
		var s walpb.Snapshot
		if err := proto.Unmarshal(rec.GetData(), &s); err != nil {
			return err
		}
		w.snapshot = max(w.snapshot, s.GetIndex())
	case wal.MetadataType, wal.StateType:
	default:
		return fmt.Errorf("record of unknown type %d", rec.GetType())
	}
	return nil
}

// checkBackup verifies the checksum at the end of a backup, and its pages.
func checkBackup(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	size := st.Size() - sha256.Size
	if size <= 0 || size%512 != 0 {
		return fmt.Errorf("%d bytes is not the length of a backup", st.Size())
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.LimitReader(f, size)); err != nil {
		return err
	}
	want := make([]byte, sha256.Size)
	if _, err := io.ReadFull(f, want); err != nil {
		return err
	}
	if !bytes.Equal(want, sum.Sum(nil)) {
		return errors.New("the checksum does not fit")
	}
	_, err = readDB(f, size)
	return err
}

// beUint64 reads etcd's big-endian counters.
func beUint64(b []byte) (uint64, error) {
	if len(b) != 8 {
		return 0, fmt.Errorf("a counter of %d bytes", len(b))
	}
	return binary.BigEndian.Uint64(b), nil
}
