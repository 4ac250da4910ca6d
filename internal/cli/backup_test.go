package cli

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/fermi-cluster/fermi/internal/cli/clitest"
	"github.com/fermi-cluster/fermi/internal/cli/lock"
	"github.com/fermi-cluster/fermi/internal/fault"
)

const aboutKey = "It does not hold secret.key, which opens the secrets in it: keep a copy of that file from the server's data folder in another place. Without it they must be set again.\n"

func TestEncryptedBackup(t *testing.T) {
	f := clitest.New(t)
	dir := t.TempDir()
	pair, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	other, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	identity, stranger := write("key.txt", pair.String()+"\n"), write("other.txt", "# public\n"+other.String()+"\n")
	recipients, phrase := write("keys", "# ours\n"+pair.Recipient().String()+"\n"), write("phrase", "correct horse\n")
	never := func() (string, error) { t.Error("asked for a passphrase"); return "", io.EOF }
	said := func() (string, error) { return lock.Passphrase(nil, io.Discard, phrase, false, "en") }
	for name, args := range map[string][]string{
		"recipient": {"--encrypt", "--recipient", pair.Recipient().String(), "--recipient", other.Recipient().String()},
		"file":      {"--recipients-file", recipients},
		"phrase":    {"--encrypt", "--passphrase-file", phrase},
	} {
		file := filepath.Join(dir, name+".age")
		got := fermi(f, t, "", append([]string{"backup", file}, args...)...)
		if got.code != 0 || got.err != "Saved 9 B to "+file+", encrypted.\n"+aboutKey {
			t.Fatalf("%s: %+v", name, got)
		}
		raw, err := os.ReadFile(file)
		if err != nil || bytes.Contains(raw, []byte("tar bytes")) || !strings.HasPrefix(string(raw), lock.AgeMark) {
			t.Fatalf("%s is not encrypted: %q, %v", name, raw, err)
		}
		key, ask := identity, never
		if name == "phrase" {
			key, ask = "", said
		}
		open := func(raw []byte) (string, error) {
			r, err := lock.Unlock(bytes.NewReader(raw), key, ask)
			if err != nil {
				return "", err
			}
			plain, err := io.ReadAll(r)
			return string(plain), err
		}
		if plain, err := open(raw); err != nil || plain != "tar bytes" {
			t.Errorf("%s: %q, %v", name, plain, err)
		}
		if plain, err := open(raw[:len(raw)-1]); err == nil {
			t.Errorf("%s, cut, gives %q", name, plain)
		}
		raw[len(raw)-3] ^= 1
		if plain, err := open(raw); err == nil {
			t.Errorf("%s, changed, gives %q", name, plain)
		}
		raw[len(raw)-3] ^= 1
		if name == "file" {
			if _, err := lock.Unlock(bytes.NewReader(raw), stranger, never); fault.ReasonOf(err) != "WrongKey" {
				t.Errorf("a stranger's key: %v", err)
			}
			if _, err := lock.Unlock(bytes.NewReader(raw), "", said); fault.ReasonOf(err) != "WrongKey" {
				t.Errorf("a passphrase instead of a key: %v", err)
			}
		}
	}
	if r, err := lock.Unlock(strings.NewReader("tar"), "", never); err != nil {
		t.Error(err)
	} else if raw, _ := io.ReadAll(r); string(raw) != "tar" {
		t.Errorf("%q", raw)
	}
	if _, err := lock.Unlock(strings.NewReader("tar"), identity, never); fault.ReasonOf(err) != "NotEncrypted" {
		t.Error(err)
	}
	short := write("short", "abc")
	for _, args := range [][]string{
		{"--encrypt"}, {"--recipient", "nonsense"}, {"--recipient", pair.String()}, {"--recipients-file", short}, {"--passphrase-file", short},
		{"--recipient", pair.Recipient().String(), "--passphrase-file", phrase}, {"--passphrase-file", filepath.Join(dir, "none")},
	} {
		got := fermi(f, t, "", append([]string{"backup", filepath.Join(dir, "refused")}, args...)...)
		if got.code == 0 || strings.Contains(got.err, pair.String()) {
			t.Errorf("%v: %+v", args, got)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "refused")); err == nil {
		t.Error("a refused backup was written")
	}
}
