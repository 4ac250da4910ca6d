package inner

import (
	"os"
	"path/filepath"
	"testing"
)

// TestLeave: the token is there for a launcher of any user, whoever left it, until that one takes it.
func TestLeave(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	if err := leave(path, "secret"); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o444 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if got, err := takeToken(path); err != nil || got != "secret" {
		t.Errorf("%q %v", got, err)
	}
	if _, err := takeToken(path); err == nil {
		t.Error("it was taken twice")
	}
}
