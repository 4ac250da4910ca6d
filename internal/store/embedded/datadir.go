package embedded

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/fault"
)

const (
	// Format is the layout this version writes. It grows when an older version could not read the
	// folder any more, or would do harm there: of objects it would write back only what it knows.
	//
	//	2: queues name their projects, launchers report where they are, audit is a chain
	//	3: placements bear their owners' ids: an older version would not find them, and start what runs again
	//	4: a replica's records have times by the machine's own clock, and say what its launcher hears: an older version refuses them
	Format = 4

	lockFile   = "lock"
	formatFile = "format"
	etcdFolder = "etcd"
	// maxFormatBytes bounds what is read of a file that anybody may have put there.
	maxFormatBytes = 4096
)

// DataDir is a data folder that this process alone uses, until Close or its end: the lock is the
// kernel's and does not survive the process.
type DataDir struct {
	path string
	lock *os.File
	note formatNote // as found, or as written in a new folder
}

// formatNote is the content of the format file.
type formatNote struct {
	Format  int    `json:"format"`
	Version string `json:"version"`
}

// OpenDataDir makes the folder if needed and takes it. Faults: Conflict FolderInUse (another
// process has it), Invalid NewerFormat, FormatUnreadable, NotADataFolder, FolderNotWritable,
// Full. In each case nothing was changed, beyond the lock file.
func OpenDataDir(dir string) (*DataDir, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, folderFault(dir, err)
	}
	if err := os.MkdirAll(abs, 0o700); err != nil {
		return nil, folderFault(abs, err)
	}
	known, err := checkOwnership(abs)
	if err != nil {
		return nil, err
	}
	if known {
		MakeRoom(abs)
	}
	lock, err := takeLock(abs)
	if err != nil {
		return nil, err
	}
	d := &DataDir{path: abs, lock: lock}
	if err := d.prepare(known); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// startRoom is what a start needs, beside what the store has of its own.
const startRoom, startNames = 24 << 20, 16

// MakeRoom throws ballast away where the disk is so full that nothing could start: a server that does not run ends no task.
func MakeRoom(dir string) {
	room, err := RoomOf(dir)
	if err != nil {
		return
	}
	b := BallastOf(dir)
	if room.Free < startRoom {
		b.release(startRoom-room.Free, 0)
	}
	if room.Names > 0 && room.FreeNames < startNames {
		b.ReleaseNames(startNames)
	}
}

// Path is the folder, absolute.
func (d *DataDir) Path() string { return d.path }

// Etcd is where the embedded store lives.
func (d *DataDir) Etcd() string { return filepath.Join(d.path, etcdFolder) }

// Free is how many bytes this user can still write there; the store asks before each write. Where the file system has
// hardly a name left for another file it is 0: the store's next log is a file.
func (d *DataDir) Free() (uint64, error) {
	room, err := RoomOf(d.path)
	if err == nil && room.Names > 0 && room.FreeNames < min(fewNames, room.Names/16) {
		return 0, nil
	}
	return uint64(room.Free), err
}

// fewNames is where ordinary writes are refused.
const fewNames = 256

// Close gives the folder back.
func (d *DataDir) Close() error { return d.lock.Close() }

// DiskFree is how many bytes this user can still write under a path.
func DiskFree(path string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", path, err)
	}
	return st.Bavail * uint64(st.Bsize), nil
}

// checkOwnership refuses a folder with other things in it, such as a home folder, before
// anything in it is touched. known says that it is already ours.
func checkOwnership(dir string) (known bool, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false, folderFault(dir, err)
	}
	strangers := false
	for _, e := range entries {
		switch name := e.Name(); {
		case name == formatFile, name == etcdFolder:
			known = true
		case name == lockFile, name == "lost+found", strings.HasPrefix(name, ".fermi-"):
		default:
			strangers = true
		}
	}
	if strangers && !known {
		return false, fault.New(fault.Invalid, "NotADataFolder", fault.T(
			"The folder %s has other things in it and was not made by Fermi. Nothing was changed.",
			"目录 %s 中已有其他内容，且并非由 Fermi 创建。未做任何改动。", dir)).
			WithHint(fault.T("Choose an empty or new folder with --data.", "请用 --data 选择一个空目录或新目录。"))
	}
	return known, nil
}

func takeLock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, folderFault(dir, err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	for wait := time.Duration(0); errors.Is(err, syscall.EWOULDBLOCK) && wait < orphanPatience && !alive(holder(f)); wait += orphanPause {
		time.Sleep(orphanPause)
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err != nil {
		defer f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, inUse(dir, holder(f))
		}
		return nil, folderFault(dir, err)
	}
	pid := strconv.Itoa(os.Getpid()) + "\n"
	if err := errors.Join(f.Truncate(0), writeAt(f, pid)); err != nil {
		f.Close()
		return nil, folderFault(dir, err)
	}
	return f, nil
}

func writeAt(f *os.File, text string) error {
	_, err := f.WriteAt([]byte(text), 0)
	return err
}

// A server that was killed while it forked leaves its lock to the child, until that has become
// another program.
const (
	orphanPatience = 10 * time.Second
	orphanPause    = 10 * time.Millisecond
)

// holder is who wrote its pid into the lock file, 0 when nobody is known.
func holder(f *os.File) int {
	who, _ := io.ReadAll(io.NewSectionReader(f, 0, 32))
	pid, err := strconv.Atoi(strings.TrimSpace(string(who)))
	if err != nil || pid <= 0 {
		return 0
	}
	return pid
}

// alive is false for one that ended, also where its parent has not noticed yet.
func alive(pid int) bool {
	if pid == 0 {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := strings.Cut(string(stat), ") ")
	return err == nil && !strings.HasPrefix(state, "Z")
}

func inUse(dir string, who int) *fault.Error {
	pid := "?"
	if who > 0 {
		pid = strconv.Itoa(who)
	}
	return fault.New(fault.Conflict, "FolderInUse", fault.T(
		"Another fermi (pid %s) uses the folder %s.", "另一个 fermi 进程（pid %s）正在使用目录 %s。", pid, dir)).
		WithHint(fault.T("Stop it first, or choose another folder with --data.", "请先停止该进程，或用 --data 另选目录。"))
}

// prepare checks the format, or writes it down in a new folder.
func (d *DataDir) prepare(known bool) error {
	path := filepath.Join(d.path, formatFile)
	raw, err := readBounded(path, maxFormatBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return d.writeFormat(path)
	case err != nil:
		return folderFault(d.path, err)
	}
	note, err := parseFormat(raw)
	if err != nil {
		return fault.New(fault.Invalid, "FormatUnreadable", fault.T(
			"The file %s can't be read. Nothing was changed.", "无法读取文件 %s。未做任何改动。", path)).
			WithHint(restoreHint()).Because(err)
	}
	if note.Format > Format {
		return fault.New(fault.Invalid, "NewerFormat", fault.T(
			"The folder %s was written by a newer Fermi (version %s, format %d; this one reads up to %d). Nothing was changed.",
			"目录 %s 由更新版本的 Fermi 写入（版本 %s，格式 %d；当前程序最高支持 %d）。未做任何改动。",
			d.path, note.Version, note.Format, Format)).
			WithHint(fault.T("Run that version or a later one.", "请使用该版本或更高版本的程序。"))
	}
	d.note = note
	if known {
		if err := os.Chmod(d.path, 0o700); err != nil {
			return folderFault(d.path, err)
		}
	}
	return d.checkWritable()
}

// Raise writes down that this version serves the folder now; from then on a version that knows only
// lower formats refuses it. It is called once everything in the folder could be opened: who fails
// before has changed nothing, and the version before can go on.
func (d *DataDir) Raise(version string) error {
	if d.note == (formatNote{Format, version}) {
		return nil
	}
	return d.write(filepath.Join(d.path, formatFile), version)
}

func (d *DataDir) writeFormat(path string) error {
	if err := os.Chmod(d.path, 0o700); err != nil {
		return folderFault(d.path, err)
	}
	return d.write(path, buildVersion())
}

func (d *DataDir) write(path, version string) error {
	d.note = formatNote{Format: Format, Version: version}
	raw, err := json.Marshal(d.note)
	if err != nil {
		return err
	}
	if err := writeFile(path, append(raw, '\n')); err != nil {
		return folderFault(d.path, err)
	}
	return nil
}

// checkWritable writes and removes a small file: permissions, read-only mounts and a full disk
// are told apart here, where it is cheap, rather than inside etcd.
func (d *DataDir) checkWritable() error {
	f, err := os.CreateTemp(d.path, ".fermi-probe-*")
	if err != nil {
		return folderFault(d.path, err)
	}
	_, err = f.WriteString("probe")
	if err = errors.Join(err, f.Close(), os.Remove(f.Name())); err != nil {
		return folderFault(d.path, err)
	}
	return nil
}

// parseFormat reads the format file.
func parseFormat(raw []byte) (formatNote, error) {
	var note formatNote
	dec := json.NewDecoder(bytes.NewReader(raw))
	if err := dec.Decode(&note); err != nil {
		return formatNote{}, fmt.Errorf("format file: %w", err)
	}
	if note.Format < 1 {
		return formatNote{}, fmt.Errorf("format file: format %d does not exist", note.Format)
	}
	if len(note.Version) > 64 {
		note.Version = note.Version[:64]
	}
	return note, nil
}

func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}

// writeFile makes a file that is whole or absent, also after a power cut.
func writeFile(path string, content []byte) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, ".fermi-new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func buildVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
