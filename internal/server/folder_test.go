package server

import (
	"encoding/json"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/server/train"
)

var testFolders = []api.NamedFolder{{Name: "team", Path: "/data/team"}, {Name: "inner", Path: "/data/team/inner"}, {Name: "sets", Path: "/data/sets", ReadOnly: true}, {Name: "other", Path: "/data/other"}}

func inFolder(folder string, more ...string) map[string]any {
	spec := map[string]any{"code": map[string]any{"folder": folder}, "roles": []any{map[string]any{"name": "w", "replicas": 1, "command": []string{"true"}}}}
	if len(more) > 0 {
		spec["checkpoint"] = map[string]any{"folder": more[0]}
	}
	return map[string]any{"metadata": map[string]any{"name": "t", "project": "p"}, "spec": spec}
}

// TestFolders: a task reaches folders of the machines only by names that its project was granted; a path below one is taken as that.
func TestFolders(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Folders = testFolders })
	ann := w.user("ann", api.RoleMember)
	project := w.put(&api.Project{Meta: api.Meta{Name: "p"}, Spec: api.ProjectSpec{Members: []string{"ann"}, Folders: []string{"team", "inner", "sets", "gone"}}})
	path := "/api/v1/training-tasks"
	for _, folder := range []string{"/", "/data", "/data/teams", "/data/other", "/data/other/x", "other", "other/x", "gone/x", "/etc", "/root"} {
		a := w.refusedTo(ann, "POST", path, inFolder(folder), 403, "FolderNotAllowed")
		if len(a.Fields) != 1 || a.Fields[0].Path != "spec.code.folder" || !strings.Contains(a.Hint, "team, inner, sets") {
			t.Errorf("%s: %+v %q", folder, a.Fields, a.Hint)
		}
	}
	for _, folder := range []string{"/data/team/../other", "team/../other", "team//x", "team/", "../team", "Team/x"} {
		w.refusedTo(ann, "POST", path, inFolder(folder), 400, "InvalidField")
	}
	w.refusedTo(ann, "POST", path, inFolder("sets/x", "ckpt"), 400, "InvalidField")
	for given, want := range map[string]string{
		"team": "team", "team/li/x": "team/li/x", "/data/team": "team", "/data/team/li": "team/li", "/data/team/inner/x": "inner/x", "/data/sets": "sets",
	} {
		var got train.Submitted
		task := inFolder(given)
		task["metadata"].(map[string]any)["name"] = strings.Trim(strings.ReplaceAll(given, "/", "-"), "-") + "x"
		a := w.do("POST", path, ann, task)
		if a.status != 200 {
			t.Errorf("%s: %s", given, a.raw)
			continue
		}
		must(t, json.Unmarshal(a.Data, &got))
		if folder := got.Task.Spec.Code.Folder; folder != want {
			t.Errorf("%s became %s", given, folder)
		}
	}
	// What a member may use is not a member's to say.
	changed := *project.(*api.Project)
	changed.Spec.Folders = []string{"other"}
	w.refusedTo(ann, "PUT", "/api/v1/projects/p", &changed, 403, "NotAllowed")
}

// TestFoldersOfTheOwner: the owner of a machine that keeps nobody apart may use any path.
func TestFoldersOfTheOwner(t *testing.T) {
	w := newWorld(t, func(c *Config) {
		c.Folders, c.SoleOwner = testFolders, func() string { return "root" }
	})
	for given, want := range map[string]string{"/anywhere": "/anywhere", "/data/team/x": "team/x", "team/x": "team/x"} {
		got := w.submit("t"+strings.NewReplacer("/", "-").Replace(given), func(task *api.TrainingTask) { task.Spec.Code = &api.Code{Folder: given} })
		if got.Spec.Code.Folder != want {
			t.Errorf("%s became %s", given, got.Spec.Code.Folder)
		}
	}
	w.put(&api.Project{Meta: api.Meta{Name: "p"}})
	w.refused("POST", "/api/v1/training-tasks", inFolder("none/x"), 403, "FolderNotAllowed")
}
