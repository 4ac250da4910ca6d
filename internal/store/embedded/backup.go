package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// leastBump is how far a restored store jumps ahead at least.
const leastBump = 1_000_000_000

// Backup writes a consistent copy of the store with its checksum. A copy that ended early is
// refused by Restore; the caller writes to a temporary name all the same.
func Backup(ctx context.Context, client *clientv3.Client, w io.Writer) error {
	rc, err := client.Snapshot(ctx)
	if err != nil {
		return backupFault(err)
	}
	defer rc.Close()
	if _, err := io.Copy(w, rc); err != nil {
		return backupFault(err)
	}
	return nil
}

func backupFault(err error) *fault.Error {
	return fault.New(fault.Unavailable, "BackupFailed", fault.T(
		"The copy of the store could not be completed.", "存储备份未能完成。")).
		WithHint(fault.T("Check that the store runs and that there is room, then try again.", "请确认存储正在运行且空间充足，然后重试。")).Because(err)
}

// Restore makes a fresh etcd folder from a backup; dir must be absent or empty. It appears whole
// or not at all.
//
// The revision jumps to the microseconds since 1970, so that whatever is restored, and however
// often, revisions and leaders' epochs are larger than any that was handed out before, and every
// watch of an older life is told to look anew.
func Restore(snapshotPath, dir string) (err error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return folderFault(dir, err)
	}
	if err := mustBeEmpty(abs); err != nil {
		return err
	}
	// The library panics on some damaged snapshots; a backup is an outside file.
	defer func() {
		if p := recover(); p != nil {
			err = badBackup(snapshotPath, fmt.Errorf("panic: %v", p))
		}
	}()
	d := newDeath()
	done := make(chan error, 1)
	tmp := filepath.Join(filepath.Dir(abs), ".fermi-restore-"+filepath.Base(abs))
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- badBackup(snapshotPath, fmt.Errorf("panic: %v", p))
			}
		}()
		done <- restoreInto(snapshotPath, tmp, newZap(discardLog(), d))
	}()
	select {
	case err = <-done:
	case <-d.happened:
		err = badBackup(snapshotPath, d.err())
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(tmp))
	}
	if err := os.Remove(abs); err != nil && !os.IsNotExist(err) {
		return folderFault(abs, err)
	}
	if err := errors.Join(os.Rename(tmp, abs), syncDir(filepath.Dir(abs))); err != nil {
		return folderFault(abs, err)
	}
	return nil
}

func mustBeEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case os.IsNotExist(err):
		if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
			return folderFault(dir, err)
		}
		return nil
	case err != nil:
		return folderFault(dir, err)
	case len(entries) > 0:
		return fault.New(fault.Conflict, "FolderNotEmpty", fault.T(
			"The folder %s already has a store in it. Nothing was changed.", "目录 %s 中已有存储数据。未做任何改动。", dir)).
			WithHint(fault.T("Restore into a fresh folder.", "请恢复到一个新目录。"))
	}
	return nil
}

// restoreInto checks the copy first: the library would only notice a wrong checksum after it has
// begun to write, and opens a damaged file without asking.
func restoreInto(snapshotPath, tmp string, lg *zap.Logger) error {
	if err := os.RemoveAll(tmp); err != nil {
		return folderFault(tmp, err)
	}
	if err := checkBackup(snapshotPath); err != nil {
		return badBackup(snapshotPath, err)
	}
	mgr := snapshot.NewV3(lg)
	status, err := mgr.Status(snapshotPath)
	if err != nil {
		return badBackup(snapshotPath, err)
	}
	bump := max(leastBump, time.Now().UnixMicro()-status.Revision)
	if err := mgr.Restore(snapshot.RestoreConfig{
		SnapshotPath: snapshotPath, Name: memberName, OutputDataDir: tmp,
		PeerURLs: []string{peerURL}, InitialCluster: memberName + "=" + peerURL,
		InitialClusterToken: clusterToken,
		RevisionBump:        uint64(bump), MarkCompacted: true,
	}); err != nil {
		if full := asFull(tmp, err); full != nil {
			return full
		}
		return badBackup(snapshotPath, err)
	}
	return os.Chmod(tmp, 0o700)
}

func badBackup(path string, cause error) *fault.Error {
	return fault.New(fault.Invalid, "BadBackup", fault.T(
		"The backup %s is incomplete or damaged. Nothing was restored.", "备份 %s 不完整或已损坏，未恢复任何内容。", path)).
		WithHint(fault.T("Use another backup.", "请改用其他备份。")).Because(cause)
}
