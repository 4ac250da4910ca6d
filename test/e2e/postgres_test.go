package e2e

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/history/pgstore/pgtest"
	"github.com/fermi-cluster/fermi/test/harness"
)

// cutConnections ends every connection to the database, as a restart of it does.
const cutConnections = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`

// TestPostgresLife: submit, finish, archive, lose the connections, kill -9, restart, back up and
// restore into another database; nothing of the past is in the data folder.
func TestPostgresLife(t *testing.T) {
	past := pgtest.New(t)
	w := up(t, "--demo", "--archive-after", "1ms", "--history-url", past)
	task := shell("old", 1, "echo remembered; echo kept > $FERMI_OUTPUT/f")
	task.Meta.DisplayName = "全球翻译推理服务"
	w.submit(task)
	w.phase("old", api.PhaseCompleted)
	w.archived()
	pgtest.Exec(t, past, cutConnections)
	w.submit(shell("cut", 1, "true"))
	w.phase("cut", api.PhaseCompleted)
	w.archived()
	w.Kill()
	w.start()
	check := func() {
		t.Helper()
		contains(t, w.must("get", "task", "old"), "Completed", "全球翻译推理服务")
		contains(t, w.must("get", "tasks", "--search", "翻译"), "old")
		contains(t, w.must("get", "tasks"), "old", "cut")
		contains(t, w.must("logs", "old"), "remembered")
		contains(t, w.must("events", "task/old"), "Completed")
	}
	check()
	if files, err := filepath.Glob(filepath.Join(w.Dir, "history.*")); err != nil || len(files) > 0 {
		t.Errorf("history in the data folder: %v, %v", files, err)
	}

	file := filepath.Join(t.TempDir(), "backup.tar")
	w.must("backup", file)
	fresh := filepath.Join(filepath.Dir(w.Dir), "restored")
	if r := w.fermi("restore", file, "--data", fresh); r.code == 0 || !strings.Contains(r.err, "--history-url") {
		t.Errorf("restored without a database: %d %s", r.code, r.err)
	}
	if r := w.fermi("restore", file, "--data", fresh, "--history-url", past); r.code != 6 {
		t.Errorf("restored over a history: %d %s", r.code, r.err)
	}
	if _, err := os.Lstat(fresh); err == nil {
		t.Error("a folder of a restore that failed is there")
	}
	other := pgtest.New(t)
	w.must("restore", file, "--data", fresh, "--history-url", other)
	if err := w.Stop(); err != nil {
		t.Fatal(err)
	}
	w.Dir, w.Args[len(w.Args)-1] = fresh, other
	w.start()
	check()
	w.submit(shell("after", 1, "true"))
	w.phase("after", api.PhaseCompleted)
}

// archived waits until no replica's folder is left: what finished is in history.
func (w *world) archived() {
	w.t.Helper()
	deadline := time.Now().Add(harness.Patience)
	for {
		dirs, err := filepath.Glob(filepath.Join(w.Dir, "engine", "replicas", "task-*"))
		if err == nil && len(dirs) == 0 {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatal("folders are still there:", dirs, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// TestPostgresRefusals: what is wrong is said in a sentence, and no password with it.
func TestPostgresRefusals(t *testing.T) {
	past, err := url.Parse(pgtest.New(t))
	if err != nil {
		t.Fatal(err)
	}
	bin, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	stranger, absent, far, told := *past, *past, *past, *past
	stranger.User = url.User("stranger")
	absent.Path = "/nobody_made_this"
	far.RawQuery = "host=" + url.QueryEscape(t.TempDir())
	told.User = url.UserPassword("fermi", "hunter2")
	for _, tt := range []struct {
		url  url.URL
		want string
	}{
		{stranger, "refused the user or the password"}, {absent, "no such database"}, {far, "can't be reached"}, {told, "password in the URL"},
	} {
		for _, verb := range []string{"up", "config"} {
			cmd := exec.Command(bin, verb, "--data", filepath.Join(t.TempDir(), "d"), "--listen", "127.0.0.1:0", "--history-url", tt.url.String())
			cmd.Env = append(os.Environ(), "FERMI_LANG=en")
			out, err := cmd.CombinedOutput()
			if refused := verb == "up" || tt.want == "password in the URL"; refused && (err == nil || !strings.Contains(string(out), tt.want)) {
				t.Errorf("%s, %s: %v\n%s", verb, tt.want, err, out)
			}
			if strings.Contains(string(out), "hunter2") {
				t.Errorf("the password is shown:\n%s", out)
			}
		}
	}
}
