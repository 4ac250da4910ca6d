package restore

import (
	"os"
	"path/filepath"

	"github.com/fermi-cluster/fermi/internal/app/bundle"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Whole refuses a folder of which a part is gone while the rest is there: what would be made anew in its place would look
// as if nothing had ever happened. Whoever wants that says so by making the empty part themselves. outside says that the
// store is elsewhere.
//
// The keys are made after history was opened, and the token's file when everything was: a first start that was cut off
// is none of this.
func Whole(data, shared string, past Past, outside bool) error {
	there := func(dir string, names ...string) bool {
		for _, name := range names {
			if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
				return true
			}
		}
		return false
	}
	if etcd := filepath.Join(data, "etcd"); !outside && !there(data, "etcd") && there(data, "admin.token", "link.endpoints") {
		return fault.New(fault.Invalid, "StoreMissing", fault.T("%s is gone while the rest of the folder is there: all tasks, projects and tokens were in it. Nothing was changed.",
			"%s 已不存在，而数据目录的其余部分仍在：任务、项目和令牌都存于其中。未做任何改动。", etcd)).
			WithHint(fault.T("Put it back, or restore the newest backup into a new folder: fermi restore BACKUP --data NEW_DIR. To begin with an empty store knowingly, make the empty folder: mkdir -m 700 %s",
				"请放回该目录，或将最近的备份恢复到新目录：fermi restore 备份 --data 新目录。若确要从空存储开始，请创建空目录：mkdir -m 700 %s", etcd))
	}
	if file := filepath.Join(shared, bundle.History); past.URL == "" && !there(shared, bundle.History) && there(shared, "link.key", keyFile) && !restoredWithout(shared) {
		return fault.New(fault.Invalid, "HistoryMissing", fault.T("%s is gone while the rest of the folder is there: finished tasks, events, usage and audit were in it. Nothing was changed.",
			"%s 已不存在，而数据目录的其余部分仍在：已结束的任务、事件、用量和审计记录都存于其中。未做任何改动。", file)).
			WithHint(fault.T("Put it back, or restore the newest backup into a new folder: fermi restore BACKUP --data NEW_DIR; history in PostgreSQL needs --history-url. To begin an empty history knowingly, make the empty file: touch %s",
				"请放回该文件，或将最近的备份恢复到新目录：fermi restore 备份 --data 新目录；历史在 PostgreSQL 中时需要 --history-url。若确要从空历史开始，请创建空文件：touch %s", file))
	}
	if file := filepath.Join(shared, "link.key"); !there(shared, "link.key") {
		if n := running(filepath.Join(shared, "engine", "replicas")); n > 0 {
			return fault.New(fault.Invalid, "LinkKeyMissing", fault.T("%s is gone while %d [replica runs|replicas run] that this server knows by it: with another key none of them could attach. Nothing was changed.",
				"%s 已不存在，而仍有 %d 个副本依靠它与本服务相认：换用其他密钥后它们都无法再接入。未做任何改动。", file, n)).
				WithHint(fault.T("Put it back from a copy. To give those replicas up knowingly, make a new key: (umask 077; head -c 32 /dev/urandom > %s); then stop their tasks: fermi train stop NAME.",
					"请从副本放回。若确要放弃这些副本，请生成新密钥：(umask 077; head -c 32 /dev/urandom > %s)；然后停止其任务：fermi train stop NAME。", file))
		}
	}
	return nil
}

// restoredWithout says that somebody put the key into a folder that was restored for a history elsewhere.
func restoredWithout(shared string) bool {
	_, err := os.Lstat(filepath.Join(shared, "link.key"))
	n, bad := Read(shared)
	return err != nil && bad == nil && n != nil
}

// running is how many launchers of replicas live.
func running(dir string) (n int) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	for _, e := range entries {
		var launcher record.Process
		one := filepath.Join(dir, e.Name())
		if ok, err := record.Read(one, record.FileLauncher, &launcher); ok && err == nil && !record.Exists(one, record.FileDone) && launcher.Alive() {
			n++
		}
	}
	return n
}
