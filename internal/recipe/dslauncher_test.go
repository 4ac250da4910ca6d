package recipe

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
)

func calls(words ...string) func(*api.TrainingTaskSpec) {
	return func(s *api.TrainingTaskSpec) { s.Roles[0].Command, s.Roles[0].Args = words, nil }
}

// TestDeepSpeedIsCalled: the commands really run, and say what they were given.
func TestDeepSpeedIsCalled(t *testing.T) {
	dir := t.TempDir()
	script := `#!/bin/sh
printf '%s|' "$@"
`
	for _, name := range []string{"python3", "a program"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ in, want []string }{
		{[]string{dir + "/deepspeed", "train.py", "--lr", "1 $x"}, []string{"-u", "train.py", "--local_rank=3", "--lr", "1 $x"}},
		{[]string{dir + "/deepspeed", "--hostfile=h", "-H", "h", "--num_gpus", "8", "--module", "pkg.train", "--num_gpus"}, []string{"-u", "-m", "pkg.train", "--local_rank=3", "--num_gpus"}},
		{[]string{dir + "/deepspeed", "--no_local_rank", "train.py"}, []string{"-u", "train.py"}},
		{[]string{dir + "/deepspeed", "--no_python", dir + "/a program", "x"}, []string{"--local_rank=3", "x"}},
		{[]string{dir + "/deepspeed", "--no_python", "--no_local_rank", dir + "/a program", "x"}, []string{"x"}},
	} {
		made, err := Make(with(shape("deepspeed", "", 2), calls(c.in...)))
		if err != nil {
			t.Fatal(err)
		}
		command := made.Group(0)[0].Command
		cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
		cmd.Env = append(os.Environ(), "LOCAL_RANK=3")
		out, err := cmd.Output()
		if got := strings.Split(strings.TrimSuffix(string(out), "|"), "|"); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q runs %q: %q %v", c.in, command, got, err)
		}
	}
}
