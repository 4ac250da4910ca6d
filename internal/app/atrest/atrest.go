// Package atrest knows whether the files of a folder are those that the last server left.
//
// Place: layer 6, below the assembly. Promise: a server that ended in order leaves the hash of each file which has no
// checksums of its own (the store's and history's databases, the keys); the next one reads them before it opens anything,
// and names what was changed while nobody ran. A folder whose server was killed has no such note, and nothing is compared.
// Enemies: a disk that turns bits in a value: databases find damaged pages, and no damaged values. An operator who puts
// another key there on purpose: that is said, and not refused.
package atrest

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/zeebo/blake3"

	"github.com/fermi-cluster/fermi/internal/fault"
)

const noteFile = "rest.sums"

// databases must be as they were; keys may be changed by hand.
var (
	databases = []string{"history.db", "history.db-wal", filepath.Join("etcd", "member", "snap", "db")}
	keys      = []string{"secret.key", "link.key", "admin.token", "ssh.key"}
)

// Write leaves the note; it is called when nobody writes there any more.
func Write(dir string) error {
	sums := map[string]string{}
	for _, name := range append(slices.Clone(databases), keys...) {
		switch sum, err := sumOf(filepath.Join(dir, name)); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		default:
			sums[name] = sum
		}
	}
	raw, err := json.Marshal(sums)
	if err != nil {
		return err
	}
	sum := blake3.Sum256(raw)
	tmp := filepath.Join(dir, noteFile+".new")
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(append(raw, '\n'), hex.EncodeToString(sum[:])...))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return os.Rename(tmp, filepath.Join(dir, noteFile))
}

// Check compares, and takes the note away: from now on the files change. changed are keys that are others now.
func Check(dir string) (changed []string, err error) {
	path := filepath.Join(dir, noteFile)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	sums := map[string]string{}
	if n := len(raw) - 65; n > 0 {
		sum := blake3.Sum256(raw[:n])
		if hex.EncodeToString(sum[:]) == string(raw[n+1:]) {
			_ = json.Unmarshal(raw[:n], &sums) // it is as it was written
		}
	} // else the note itself is damaged, and there is nothing to compare with
	for _, name := range databases {
		want, known := sums[name]
		if got, err := sumOf(filepath.Join(dir, name)); known && err == nil && got != want {
			file := filepath.Join(dir, name)
			return nil, fault.New(fault.Internal, "FileDamaged", fault.T("%s is not as the last server left it: it was changed or damaged while no server ran. Nothing was changed.",
				"%s 与上次服务结束时不一致：在无服务运行期间被修改或已损坏。未做任何改动。", file)).
				WithHint(fault.T("Keep a copy of the folder, then restore the newest backup into a fresh one: fermi restore BACKUP --data NEW_DIR. If you put that file there yourself, remove %s and start again.",
					"请先保留该目录的副本，再将最近的备份恢复到新目录：fermi restore 备份 --data 新目录。若该文件是您自己放置的，请删除 %s 后重新启动。", path))
		}
	}
	for _, name := range keys {
		want, known := sums[name]
		if got, err := sumOf(filepath.Join(dir, name)); known && err == nil && got != want {
			changed = append(changed, name)
		}
	}
	return changed, os.Remove(path)
}

func sumOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := blake3.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
