package setup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/launch/process"
	"github.com/fermi-cluster/fermi/internal/launch/steward"
	"github.com/fermi-cluster/fermi/internal/link"
)

func TestEnviron(t *testing.T) {
	r := engine.Replica{
		Name: "task-a-worker-1-2", TaskID: "task-a", Role: "worker", Index: 1, Attempt: 2,
		HyperParameters: map[string]any{"n": 100000000.0, "ok": true, "s": "x y"},
		Env:             []api.EnvVar{{Name: "PATH", Value: "/mine"}, {Name: "FERMI_TASK", Value: "9"}, {Name: "FERMI_INSTANT_EVERY", Value: "5"}, {Name: "RANK", Value: "mine"}},
	}
	t.Setenv("SECRET", "s")
	t.Setenv("TZ", "UTC")
	t.Setenv("HOME", "/root")
	t.Setenv("FERMI_RANK", "7")
	env := environ(r, "/d", nil, credentials{}, (&Enclosure{}).base(), "team", Place{})
	for name, want := range map[string]string{
		"PATH": "/mine:/d/tool", "HOME": "/root", "TZ": "UTC", "SECRET": "", "FERMI_REPLICA": "task-a-worker-1-2", "FERMI_TASK": "", "FERMI_INSTANT_EVERY": "5", "FERMI_RANK": "",
		"PYTHONUNBUFFERED": "1", "FERMI_OUTPUT": "/d/output", "TMPDIR": "/d/tmp", "FERMI_HP_N": "100000000", "FERMI_HP_OK": "true", "FERMI_HP_S": "x y",
	} {
		if got := process.Lookup(env, name); got != want {
			t.Errorf("%s=%q, not %q", name, got, want)
		}
	}
	r.Env = append(r.Env, api.EnvVar{Name: "PYTHONUNBUFFERED"})
	if got := process.Lookup(environ(r, "/d", nil, credentials{}, []string{"PYTHONUNBUFFERED=x"}, "team", Place{}), "PYTHONUNBUFFERED"); got != "" {
		t.Errorf("the user's own value became %q", got)
	}
}

// TestRecipe: what the framework adds has its folders and ports in place, and the user's word wins.
func TestRecipe(t *testing.T) {
	dir := t.TempDir()
	r := engine.Replica{
		Command: []string{"python", "${FERMI_RECIPE}/x", "${HOME}"}, Env: []api.EnvVar{{Name: "NCCL_DEBUG", Value: "mine"}},
		Recipe: &engine.Recipe{
			Env:   []api.EnvVar{{Name: "RANK", Value: "3"}, {Name: "NCCL_DEBUG", Value: "ours"}, {Name: "DUMP", Value: "${FERMI_OUTPUT}/d"}},
			Files: []api.RecipeFile{{Name: "a.txt", Text: "see ${FERMI_RECIPE}/b at ${FERMI_LEAD_HOST}:${FERMI_LEAD_PORT}, ${FERMI_PORT_1} ${FERMI_PORT_10} ${FERMI_HOST_0} ${FERMI_HOST_1} ${FERMI_HOST_2} by ${FERMI_INTERFACE}"}},
			Each:  [][]api.EnvVar{{{Name: "MASTER_PORT", Value: "${FERMI_LEAD_PORT}"}}},
			Table: 2, Hosts: 3,
		},
	}
	l := &Home{Dir: dir}
	if _, err := fill(r, dir, "lo", link.Generation{Membership: link.Membership{Lead: "127.0.0.1:7"}}); err == nil {
		t.Error("settled without the ports")
	}
	for turn, ports := range [][]int{{70, 71}, {80, 81}} { // the next generation replaces what is there
		got, err := fill(r, dir, "eth0", link.Generation{Membership: link.Membership{Lead: "127.0.0.1:" + strconv.Itoa(turn), Ports: ports, Hosts: []string{"100.64.4.2", "100.64.4.3"}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.WriteRecipe(got, "key"); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("see %s/recipe/b at 127.0.0.1:%d, %d ${FERMI_PORT_10} 100.64.4.2 100.64.4.3 127.0.0.1 by eth0", dir, turn, ports[1])
		if data, err := os.ReadFile(filepath.Join(dir, dirRecipe, "a.txt")); err != nil || string(data) != want {
			t.Errorf("%q %v", data, err)
		}
		if got.Recipe.Each[0][0].Value != strconv.Itoa(turn) {
			t.Errorf("%+v", got.Recipe.Each)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, dirRecipe, fileTaskKey)); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info, err)
	}
	folder := filepath.Join(dir, dirRecipe)
	r.Recipe.Each = nil
	got, err := fill(r, dir, "lo", link.Generation{Membership: link.Membership{Lead: "127.0.0.1:7", Ports: []int{1, 2}}})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"python", folder + "/x", "${HOME}"}; !slices.Equal(got.Command, want) {
		t.Errorf("%q", got.Command)
	}
	env := environ(got, dir, nil, credentials{}, nil, "team", Place{})
	for name, want := range map[string]string{"RANK": "3", "NCCL_DEBUG": "mine", "DUMP": filepath.Join(dir, "output", "d"), "FERMI_RECIPE": folder} {
		if got := process.Lookup(env, name); got != want {
			t.Errorf("%s=%q, not %q", name, got, want)
		}
	}
	for _, name := range []string{"../a", "a/b", "", "..", "/etc/x"} {
		r.Recipe.Files = []api.RecipeFile{{Name: name}}
		if err := l.WriteRecipe(r, ""); err == nil {
			t.Errorf("%q was written", name)
		}
	}
}

func TestFindProgram(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"run": 0o755, "plain": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		command, path, want string
		code                int
	}{
		"on the path":       {"run", "/nowhere:" + dir, filepath.Join(dir, "run"), 0},
		"relative path":     {"run", ".", filepath.Join(dir, "run"), 0},
		"beside":            {"./run", "", filepath.Join(dir, "run"), 0},
		"bare is not here":  {"run", "/nowhere", "", process.CodeNotFound},
		"missing":           {"./none", "", "", process.CodeNotFound},
		"through a file":    {"./run/x", "", "", process.CodeNotFound},
		"plain":             {"./plain", "", "", process.CodeNotExecutable},
		"plain on the path": {"plain", dir, "", process.CodeNotExecutable},
		"folder":            {dir, "", "", process.CodeNotExecutable},
		"ourselves":         {"fermi", "", process.OwnBinary, 0},
	} {
		got, err := (&Home{Steward: steward.New(nil)}).Find(c.command, dir, c.path)
		var s *process.StartFault
		if errors.As(err, &s); c.code != 0 && (s == nil || s.Code != c.code) || c.code == 0 && (err != nil || got != c.want) {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
}

// TestGroupsOfRanks: with 3, 1 and 2 devices the second launcher is group 1, whatever its first rank divided
// by its own number of ranks is.
func TestGroupsOfRanks(t *testing.T) {
	first, group := 0, 0
	for _, n := range []int{3, 1, 2} {
		each := rankEnviron(engine.Replica{Ranks: n}, link.Generation{Number: 1, Membership: link.Membership{FirstRank: first, World: 6, Group: group, Groups: 3, Lead: "127.0.0.1:1"}}, RankPlace{})
		for local, env := range each {
			for name, want := range map[string]int{"RANK": first + local, "LOCAL_RANK": local, "LOCAL_WORLD_SIZE": n, "GROUP_RANK": group, "GROUP_WORLD_SIZE": 3, "WORLD_SIZE": 6} {
				if got := process.Lookup(env, name); got != strconv.Itoa(want) {
					t.Errorf("group %d, local rank %d: %s is %q, not %d", group, local, name, got, want)
				}
			}
		}
		first, group = first+n, group+1
	}
}
