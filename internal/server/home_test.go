package server

import (
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// TestHome: who names no project means their own; who has several is asked, and told which.
func TestHome(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"ann", "bob", "cat", "dan"} {
		w.user(name, api.RoleMember)
	}
	tokens := map[string]string{}
	for _, name := range []string{"ann", "bob", "cat", "dan"} {
		tokens[name] = w.token("t-"+name, name, "", nil)
	}
	w.put(&api.Project{Meta: api.Meta{Name: "one"}, Spec: api.ProjectSpec{Members: []string{"ann", "bob"}}})
	w.put(&api.Project{Meta: api.Meta{Name: "two"}, Spec: api.ProjectSpec{Members: []string{"bob", "cat"}}})
	path := "/api/v1/training-tasks"
	create := func(who, name, query string) answerOf {
		return w.do("POST", path+query, tokens[who], manifest(name, func(t *api.TrainingTask) { t.Meta.Project = "" }))
	}
	if a := create("ann", "mine", ""); a.status != 200 || !strings.Contains(string(a.raw), `"project":"one"`) {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	if a := create("bob", "which", ""); a.status != 400 || !strings.Contains(string(a.raw), "you belong to one, two") {
		t.Errorf("%d %s", a.status, a.raw)
	}
	if a := create("dan", "none", ""); a.status != 403 {
		t.Errorf("%d %s", a.status, a.raw)
	}
	if a := create("cat", "mine", ""); a.status != 200 || !strings.Contains(string(a.raw), `"project":"two"`) {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	if a := create("bob", "other", "?project=two"); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	for _, c := range []struct {
		who, name string
		status    int
		part      string
	}{
		{"ann", "mine", 200, `"project":"one"`}, {"cat", "mine", 200, `"project":"two"`},
		{"bob", "other", 200, `"project":"two"`}, {"bob", "mine", 400, "in each of one, two"},
		{"ann", "other", 404, ""}, {"dan", "mine", 404, ""},
	} {
		if a := w.do("GET", path+"/"+c.name, tokens[c.who], nil); a.status != c.status || !strings.Contains(string(a.raw), c.part) {
			t.Errorf("%+v: %d %s", c, a.status, a.raw)
		}
	}
	if a := w.do("GET", path+"/mine", w.admin, nil); a.status != 404 { // theirs is the default project
		t.Errorf("%d %s", a.status, a.raw)
	}
}
