package devenv

import (
	"slices"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/activity"
	"github.com/fermi-cluster/fermi/api/v1/mount"
	"github.com/fermi-cluster/fermi/api/v1/spot"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func TestRules(t *testing.T) {
	e := &DevEnvironment{Meta: api.Meta{Name: "lab", Project: "lab"}}
	e.Default()
	if got := e.Validate(); len(got) > 0 {
		t.Errorf("an empty wish: %+v", got)
	}
	if e.Spec.Type != Custom || e.Spec.Resources.CPU != 1000 || e.Spec.Restart.MaxRestarts != 3 {
		t.Errorf("defaults: %+v", e.Spec)
	}
	for path, spoil := range map[string]func(*Spec){
		"spec.type":                         func(s *Spec) { s.Type = "toy" },
		"spec.resources.accelerators.count": func(s *Spec) { s.Resources.Accelerators.Count = 65 },
		"spec.resources.cpu":                func(s *Spec) { s.Resources.CPU = 1025_000 },
		"spec.resources.memory":             func(s *Spec) { s.Resources.Memory = 17 << 40 },
		"spec.storage":                      func(s *Spec) { s.Storage = 65 << 40 },
		"spec.idle.after":                   func(s *Spec) { s.Idle = &Idle{After: api.Duration(time.Second)} },
		"spec.idle.never":                   func(s *Spec) { s.Idle = &Idle{After: api.Duration(time.Hour), Never: true} },
		"spec.idle.counts[1]":               func(s *Spec) { s.Idle = &Idle{Counts: []activity.Name{"cpu", "cpu"}} },
		"spec.vscode":                       func(s *Spec) { s.VSCode, s.EntryPoint, s.Image = true, true, "debian:12" },
		"spec.git.url":                      func(s *Spec) { s.Git = &api.Git{URL: "file:///etc"} },
		"spec.dotfiles.revision":            func(s *Spec) { s.Dotfiles = &api.Git{URL: "https://h/x.git", Revision: "--upload-pack=id"} },
		"spec.volumes[0].path":              func(s *Spec) { s.Volumes = []mount.Volume{{Name: "team", Path: "/etc"}} },
		"spec.volumes[1].path":              func(s *Spec) { s.Volumes = []mount.Volume{{Name: "a"}, {Name: "b", Path: "/mnt/a/b"}} },
		"spec.volumes[0].name":              func(s *Spec) { s.Volumes = []mount.Volume{{Name: "../x", Path: "/mnt/x"}} },
		"spec.spot":                         func(s *Spec) { s.Spot = "always" },
		"spec.image":                        func(s *Spec) { s.Image = "../evil" },
		"spec.env[0].name":                  func(s *Spec) { s.Env = []api.EnvVar{{Name: "1 x", Value: "y"}} },
	} {
		bad := &DevEnvironment{Meta: e.Meta}
		spoil(&bad.Spec)
		bad.Default()
		got := bad.Validate()
		if !slices.ContainsFunc(got, func(f fault.Field) bool { return f.Path == path && f.Message.EN != "" && f.Message.ZH != "" }) {
			t.Errorf("%s is not refused: %+v", path, got)
		}
	}
}

// TestSpot: the rule on spot nodes reaches the planner, beside the zone.
func TestSpot(t *testing.T) {
	e := &DevEnvironment{Meta: api.Meta{Name: "lab", Project: "lab"}}
	if z := e.Workload().Wish.Zones; z != nil {
		t.Errorf("nobody said anything: %+v", z)
	}
	e.Spec.Spot = spot.Never
	if z := e.Workload().Wish.Zones; z == nil || z.Spot != spot.Never || z.Allow != nil {
		t.Errorf("%+v", z)
	}
	e.Spec.Zone = "k1"
	if z := e.Workload().Wish.Zones; z.Spot != spot.Never || len(z.Allow) != 1 {
		t.Errorf("%+v", z)
	}
	e.Default()
	if got := e.Validate(); len(got) > 0 {
		t.Errorf("%+v", got)
	}
}
