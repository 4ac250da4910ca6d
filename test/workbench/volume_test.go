package workbench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
)

// TestVolumes: a folder that the operator named and the project was granted is seen at its path by all environments of the project that name it, and by no others.
func TestVolumes(t *testing.T) {
	team := t.TempDir() // behind the wall of /tmp: reached by its name alone
	for dir := team; dir != "/tmp"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(team, 0o1777); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, "--folder", "team="+team)
	o, err := w.admin.Get(t.Context(), api.KindProject, "", "lab")
	if err != nil {
		t.Fatal(err)
	}
	p := o.(*api.Project)
	p.Spec.Folders = append(p.Spec.Folders, "team")
	if _, err := client.Update(t.Context(), w.admin, p); err != nil {
		t.Fatal(err)
	}
	size := []string{"--cpu", "500m", "--memory", "256Mi"}
	w.must("ann", append([]string{"env", "create", "a", "--volume", "team"}, size...)...)
	w.must("bob", append([]string{"env", "create", "b", "--volume", "team:/data/all:ro"}, size...)...)
	if out := w.must("ann", "env", "shell", "a", "--", "sh", "-c", "echo shared > /mnt/team/file; echo $FERMI_VOLUME_TEAM; ls /mnt"); out != "/mnt/team\nteam\n" {
		t.Error(out)
	}
	if out, code := w.fermi("bob", "", "env", "shell", "b", "--", "sh", "-c", "cat /data/all/file; echo x > /data/all/file"); code == 0 || !strings.HasPrefix(out, "shared\n") || !strings.Contains(out, "Read-only") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	w.must("ann", "env", "stop", "a")
	w.must("ann", "env", "start", "a")
	if out := w.must("ann", "env", "shell", "a", "--", "cat", "/mnt/team/file"); out != "shared\n" {
		t.Error(out)
	}
	for _, c := range []struct {
		who, want string
		args      []string
	}{
		{"mal", "no folder of the machine that project other may use", []string{"--volume", "team"}},
		{"ann", "--volume[0].path", []string{"--volume", "team:/etc"}},
		{"ann", "--volume[0].path", []string{"--volume", "team:/mnt/../etc"}},
		{"ann", "--volume[0].name", []string{"--volume", "../team"}},
		{"ann", "in each other's way", []string{"--volume", "team", "--volume", "team:/mnt/team/x"}},
		{"ann", "lies in no folder", []string{"--volume", "other"}},
	} {
		if out, code := w.fermi(c.who, "", append(append([]string{"env", "create", "bad"}, size...), c.args...)...); code == 0 || !strings.Contains(out, c.want) {
			t.Errorf("%v as %s: exit code %d\n%s", c.args, c.who, code, out)
		}
	}
}
