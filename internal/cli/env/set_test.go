package env

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
)

// TestSet: what is not named stays as it is.
func TestSet(t *testing.T) {
	before := func() devenv.Spec {
		s := devenv.Spec{Image: "a:1", Storage: 1 << 30, Env: []api.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}}}
		s.Ports, s.Shared, s.VSCode = []devenv.Port{{Port: 6006, Name: "board"}, {Port: 80}}, true, true
		s.Resources.CPU, s.Resources.Accelerators = 1000, api.Accelerators{Count: 2, Type: "A100"}
		s.Idle = &devenv.Idle{Never: true}
		return s
	}
	for name, c := range map[string]struct {
		args []string
		want func(*devenv.Spec)
	}{
		"resources": {[]string{"--cpu", "8", "--memory", "1Gi"}, func(s *devenv.Spec) { s.Resources.CPU, s.Resources.Memory = 8000, 1<<30 }},
		"variables": {[]string{"--env", "B=3", "--env", "A=", "--env", "C=4"}, func(s *devenv.Spec) {
			s.Env = []api.EnvVar{{Name: "B", Value: "3"}, {Name: "C", Value: "4"}}
		}},
		"ports":           {[]string{"--port", "6006", "--port", "9000"}, func(s *devenv.Spec) { s.Ports = []devenv.Port{{Port: 6006, Name: "board"}, {Port: 9000}} }},
		"no accelerators": {[]string{"--accelerators", "0"}, func(s *devenv.Spec) { s.Resources.Accelerators = api.Accelerators{} }},
		"doors":           {[]string{"--shared=false", "--vscode=false", "--image", "host"}, func(s *devenv.Spec) { s.Shared, s.VSCode, s.Image = false, false, "host" }},
		"idle":            {[]string{"--idle", "2h"}, func(s *devenv.Spec) { s.Idle = &devenv.Idle{After: api.Duration(2 * 3600e9)} }},
		"credentials":     {[]string{"--credential", "hub"}, func(s *devenv.Spec) { s.Credentials = []api.CredentialRef{{Secret: "hub"}} }},
	} {
		t.Run(name, func(t *testing.T) {
			cmd, to := set()
			if err := cmd.ParseFlags(c.args); err != nil {
				t.Fatal(err)
			}
			got, want := before(), before()
			if err := to.into(&got, cmd.Flags()); err != nil {
				t.Fatal(err)
			}
			c.want(&want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	cmd, to := set()
	s := before()
	if err := cmd.ParseFlags([]string{"--cpu", "x", "--env", "y"}); err != nil {
		t.Fatal(err)
	}
	if err := to.into(&s, cmd.Flags()); err == nil {
		t.Error("nonsense was taken")
	}
}
