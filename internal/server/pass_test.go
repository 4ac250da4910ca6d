package server

import (
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/api/v1/image"
	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/link/pass"
)

// TestPassOfWorkThatOthersChange: only in an environment that nobody else enters is a pass all of its owner's word. Members of the project may change a
// service's program, and may have made the task that bears the owner's name from the owner's shared environment.
func TestPassOfWorkThatOthersChange(t *testing.T) {
	w := newWorld(t)
	w.put(&api.User{Meta: api.Meta{Name: "ann"}, Spec: api.UserSpec{Role: api.RoleMember}})
	of := func(name string) api.Meta { return api.Meta{Name: name, Project: "lab", Owner: "ann"} }
	box := &devenv.DevEnvironment{Meta: of("box")}
	for replica, work := range map[string]api.Object{
		"env-box-env-0-1":      box,
		"env-open-env-0-1":     &devenv.DevEnvironment{Meta: of("open"), Spec: devenv.Spec{Ways: devenv.Ways{Shared: true}}},
		"task-t-worker-0-1":    &api.TrainingTask{Meta: of("t")},
		"srep-s-server-0-1":    &serving.ServiceReplica{Meta: of("s-1")},
		"image-job-s-job-0-1":  &image.ImageJob{Meta: of("look")},
		"service-s-server-0-1": &serving.InferenceService{Meta: of("s")},
	} {
		w.live.lends(replica, work)
		who, err := w.server.face.door.Bearer(t.Context(), pass.Make(replica, linkToken))
		if err != nil {
			t.Fatal(err)
		}
		if alone := work == api.Object(box); who.Lent == alone || who.Owns(box) != alone || who.Enters(box) != alone {
			t.Errorf("%s: lent %v, owns %v, enters %v", replica, who.Lent, who.Owns(box), who.Enters(box))
		}
	}
}

// TestPass: a pass of a replica is its owner's word in its project, as long as the replica runs; one that was changed, is of another replica, or of a
// disabled owner is nobody's. Where others may enter, it is worth what they have.
func TestPass(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"ann", "bob"} {
		w.put(&api.User{Meta: api.Meta{Name: name}, Spec: api.UserSpec{Role: api.RoleMember}})
	}
	w.put(&api.Project{Meta: api.Meta{Name: "lab"}, Spec: api.ProjectSpec{Members: []string{"ann", "bob"}}})
	w.put(&api.Project{Meta: api.Meta{Name: "den"}, Spec: api.ProjectSpec{Members: []string{"ann"}}})
	const replica = "env-a-env-0-1"
	mine := &devenv.DevEnvironment{Meta: api.Meta{Name: "box", Project: "lab", Owner: "ann"}}
	w.live.lends(replica, mine)
	w.put(&api.TrainingTask{Meta: api.Meta{Name: "hidden", Project: "den", Owner: "ann"}, Spec: api.TrainingTaskSpec{Roles: []api.Role{{Name: "worker", Replicas: 1, Command: []string{"true"}}}}})
	good := pass.Make(replica, linkToken)
	me := func(secret string) answerOf { return w.do("GET", "/api/v1/whoami", secret, nil) }
	if got := me(good); got.status != 200 {
		t.Fatalf("%d %s", got.status, got.raw)
	}
	for name, secret := range map[string]string{
		"of another token":   pass.Make(replica, "another token"),
		"of another replica": pass.Make("env-b-env-0-1", linkToken),
		"with another name":  "fermireplica_env-b-env-0-1_" + good[len(good)-43:],
		"cut":                good[:len(good)-1],
		"longer":             good + "x",
		"the link's token":   linkToken,
	} {
		if got := me(secret); got.status != 401 {
			t.Errorf("%s: %d %s", name, got.status, got.raw)
		}
	}
	for path, status := range map[string]int{"/api/v1/projects/lab": 200, "/api/v1/projects/den": 404, "/api/v1/secrets?project=lab": 200, "/api/v1/training-tasks?project=den": 200} {
		if got := w.do("GET", path, good, nil); got.status != status || strings.Contains(path, "den") && strings.Contains(string(got.raw), `"id"`) {
			t.Errorf("%s: %d %s", path, got.status, got.raw)
		}
	}
	if got := w.do("POST", "/api/v1/tokens", good, map[string]any{"metadata": map[string]any{"name": "more"}}); got.status != 403 {
		t.Errorf("a token: %d %s", got.status, got.raw)
	}
	w.live.lends(replica, nil)
	if got := me(good); got.status != 401 {
		t.Errorf("after its end: %d %s", got.status, got.raw)
	}
}
