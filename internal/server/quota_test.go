package server

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/quota"
	"github.com/fermi-cluster/fermi/internal/seal"
)

// keptBytes is what projects keep, in memory.
type keptBytes struct {
	mu       sync.Mutex
	archives map[string]int64
}

func (y *keptBytes) Used(p *api.Project, into *api.ProjectUsage) {
	y.mu.Lock()
	defer y.mu.Unlock()
	into.Archives = api.Bytes(y.archives[p.Meta.Name])
}

func (y *keptBytes) KeepArchive(p *api.Project, bytes int64) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	if most, used := p.StorageLimits().Archives, api.Bytes(y.archives[p.Meta.Name]); used+api.Bytes(bytes) > most {
		return quota.OverLimit(p.Meta.Name, "archives", used, api.Bytes(bytes), most)
	}
	y.archives[p.Meta.Name] += bytes
	return nil
}

func (y *keptBytes) RoomForCheckpoint(p *api.Project, bytes int64) error {
	if most := p.StorageLimits().Checkpoints; api.Bytes(bytes) > most {
		return quota.OverLimit(p.Meta.Name, "checkpoints", 0, api.Bytes(bytes), most)
	}
	return nil
}

func (y *keptBytes) KeepAsset(p *api.Project, bytes int64) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.archives["assets of "+p.Meta.Name] += bytes
	return nil
}

func (y *keptBytes) RoomForAsset(p *api.Project, bytes int64) error {
	if most := p.StorageLimits().Assets; api.Bytes(bytes) > most {
		return quota.OverLimit(p.Meta.Name, "assets", 0, api.Bytes(bytes), most)
	}
	return nil
}

func (y *keptBytes) Forget(string) {}

// A project keeps no more tasks, secrets and bytes than its limits; refusals say which, how much, and what to do.
func TestProjectLimits(t *testing.T) {
	box, err := seal.New(make([]byte, 32))
	must(t, err)
	w := newWorld(t, func(c *Config) { c.Stored, c.Box = &keptBytes{archives: map[string]int64{}}, box })
	li := w.user("li", api.RoleMember)
	w.put(&api.Project{Meta: api.Meta{Name: "lab"}, Spec: api.ProjectSpec{Members: []string{"li"}, Limits: &api.ProjectLimits{Objects: 2, Secrets: 1, Archives: 1000, Checkpoints: 10}}})
	in := func(t *api.TrainingTask) { t.Meta.Project = "lab" }
	for i := range 2 {
		if a := w.do("POST", "/api/v1/training-tasks", li, manifest(fmt.Sprint("t", i), in)); a.status != 200 {
			t.Fatalf("%s", a.raw)
		}
	}
	eventually(t, "both are counted", func() bool {
		return w.do("POST", "/api/v1/training-tasks?dryRun=true", li, manifest("t2", in)).status == 507
	})
	a := w.refusedTo(li, "POST", "/api/v1/training-tasks", manifest("t2", in), 507, "ProjectLimit")
	if len(a.Fields) != 1 || a.Fields[0].Path != "project.spec.limits.objects" || !strings.Contains(a.Message, `"lab" may keep at most 2 (tasks); it has 2`) || !strings.Contains(a.Hint, "--max-objects") {
		t.Errorf("%s", a.raw)
	}
	secret := func(name string) string {
		return fmt.Sprintf(`{"metadata":{"name":%q,"project":"lab"},"spec":{"data":{"k":"v"}}}`, name)
	}
	if a := w.do("POST", "/api/v1/secrets", li, secret("one")); a.status != 200 {
		t.Fatalf("%s", a.raw)
	}
	w.refusedTo(li, "POST", "/api/v1/secrets", secret("two"), 507, "ProjectLimit")

	put := func(text string) answerOf {
		return w.do("POST", "/api/v1/archives?project=lab", li, strings.Repeat(text, 600))
	}
	for range 3 { // the same bytes count once
		if a := put("a"); a.status != 200 {
			t.Fatalf("%s", a.raw)
		}
	}
	if a := put("b"); a.status != 507 || a.Reason != "ProjectLimit" || !strings.Contains(a.Message, "600") {
		t.Errorf("%s", a.raw)
	}
	var p api.Project
	w.ok("GET", "/api/v1/projects/lab", nil, &p)
	if u := p.Status.Usage; u == nil || *u != (api.ProjectUsage{Archives: 600, Objects: 2, Secrets: 1}) {
		t.Errorf("%+v", p.Status.Usage)
	}
	var list struct{ Items []*api.Project }
	w.ok("GET", "/api/v1/projects", nil, &list)
	for _, p := range list.Items {
		if p.Status.Usage != nil {
			t.Error("usage in a list")
		}
	}
}
