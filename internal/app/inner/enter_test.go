package inner

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// TestLeave: the token is there for a launcher of any user, whoever left it, until that one takes it.
func TestLeave(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	if err := leave(path, "secret"); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o666 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if got, err := takeToken(path); err != nil || got != "secret" {
		t.Errorf("%q %v", got, err)
	}
	if _, err := takeToken(path); err == nil {
		t.Error("it was taken twice")
	}
}

// TestLeaveInMemory: so it is where files of others can't be removed.
func TestLeaveInMemory(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be somebody else")
	}
	dir, err := os.MkdirTemp("/tmp", "leave") // whose folders above are everybody's
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "token")
	if err := leave(path, "secret"); err != nil {
		t.Fatal(err)
	}
	type taken struct {
		token string
		err   error
	}
	got := make(chan taken)
	go func() {
		runtime.LockOSThread() // for good
		_ = syscall.Setfsuid(1000)
		token, err := takeToken(path)
		got <- taken{token, err}
	}()
	if x := <-got; x.err != nil || x.token != "secret" {
		t.Errorf("%+v", x)
	}
	if _, err := takeToken(path); err == nil {
		t.Error("it was taken twice")
	}
}
