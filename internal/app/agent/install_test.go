package agent

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// TestUnit: the service has what was typed, no token, and systemd can read it.
func TestUnit(t *testing.T) {
	cmd := Command("v1")
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs([]string{
		"install", "--print", "--data", "/srv/a b/50%", "--join", "10.0.0.1:7072,10.0.0.2:7072", "--token", "fermi_join-secret.pin", "--label", "rack=r1", "--label", `note=a $HOME %i \ b`, "--forward-port", "9000",
	})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, want := range []string{
		`agent "--data=/srv/a b/50%%" "--forward-port=9000" "--join=10.0.0.1:7072" "--join=10.0.0.2:7072" "--label=rack=r1" "--label=note=a $$HOME %%i \\ b"` + "\n", "KillMode=process", "Restart=always",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing:\n%s", want, text)
		}
	}
	if strings.Contains(text, "secret") {
		t.Error("the token is in the unit")
	}
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("systemd-analyze is not here; the unit was not read by systemd")
		return
	}
	file := filepath.Join(t.TempDir(), serviceName)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(tool, "verify", "--man=no", file).CombinedOutput(); err != nil || strings.Contains(string(out), serviceName+":") {
		t.Errorf("systemd: %v\n%s", err, out)
	}
}

// TestRootsOwn: root starts no program that others can change.
func TestRootsOwn(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root installs services")
	}
	dir := t.TempDir()
	exe := filepath.Join(dir, "fermi")
	if err := os.WriteFile(exe, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := rootsOwn(exe); err != nil {
		t.Error(err)
	}
	for what, spoil := range map[string]func() error{
		"a file that others write":   func() error { return os.Chmod(exe, 0o777) },
		"a folder that others write": func() error { return os.Chmod(dir, 0o777) },
		"somebody's file":            func() error { return os.Chown(exe, 1000, 1000) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if err := rootsOwn(exe); fault.From(err).Reason != "OthersProgram" {
			t.Errorf("%s: %v", what, err)
		}
		for _, back := range []error{os.Chown(exe, 0, 0), os.Chmod(exe, 0o755), os.Chmod(dir, 0o755)} {
			if back != nil {
				t.Fatal(back)
			}
		}
	}
}
