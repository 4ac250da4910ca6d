package files

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/pkg/sftp"
)

// Local is a folder of this machine; no name leads out of it.
type Local struct{ Root *os.Root }

func native(name string) string { return filepath.FromSlash(name) }

func (l Local) Stat(name string) (fs.FileInfo, error) { return l.Root.Lstat(native(name)) }

func (l Local) List(dir string) ([]fs.FileInfo, error) {
	f, err := l.Root.Open(native(dir))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdir(-1)
}

func (l Local) Open(name string) (Reader, error) { return l.Root.Open(native(name)) }

func (l Local) MakeFolder(dir string) error { return l.Root.MkdirAll(native(dir), 0o755) }

func (l Local) Write(name string) (Writer, error) {
	return l.Root.OpenFile(native(name), os.O_WRONLY|os.O_CREATE, 0o600)
}

func (l Local) Finish(part, name string, like fs.FileInfo) error {
	part = native(part)
	return errors.Join(l.Root.Chmod(part, like.Mode().Perm()), l.Root.Chtimes(part, like.ModTime(), like.ModTime()), l.Root.Rename(part, native(name)))
}

// Remote is a folder of a replica; names begin in it, or at /.
type Remote struct {
	*sftp.Client
}

func (r Remote) Stat(name string) (fs.FileInfo, error) { return r.Client.Lstat(name) }

func (r Remote) List(dir string) ([]fs.FileInfo, error) { return r.Client.ReadDir(dir) }

func (r Remote) Open(name string) (Reader, error) { return r.Client.Open(name) }

func (r Remote) MakeFolder(dir string) error { return r.Client.MkdirAll(dir) }

func (r Remote) Write(name string) (Writer, error) {
	return r.Client.OpenFile(name, os.O_WRONLY|os.O_CREATE)
}

func (r Remote) Finish(part, name string, like fs.FileInfo) error {
	return errors.Join(r.Client.Chmod(part, like.Mode().Perm()), r.Client.Chtimes(part, like.ModTime(), like.ModTime()), r.Client.PosixRename(part, name))
}

// Within is where something called name goes: into a folder that is there, or, as to itself, to that very place.
func Within(t Target, to, name string, folder bool) string {
	if info, err := t.Stat(to); err == nil && info.IsDir() || folder {
		return path.Join(to, name)
	}
	return to
}

// Options are those of a client that is far away: many requests are on their way at once.
func Options() []sftp.ClientOption {
	return []sftp.ClientOption{sftp.MaxConcurrentRequestsPerFile(128), sftp.UseConcurrentWrites(true), sftp.UseConcurrentReads(true), sftp.MaxPacketChecked(32 << 10)}
}
