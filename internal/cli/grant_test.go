package cli

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/cli/clitest"
)

func TestQueueAndProjectRules(t *testing.T) {
	f := clitest.New(t)
	check(t, fermi(f, t, "", "queue", "create", "nlp", "--limit", "A100=64", "--projects", "lab,chat"), result{out: "queue/nlp created\n"})
	queue := func() *api.Queue { return f.Objects[api.KindQueue][0].(*api.Queue) }
	if diff := cmp.Diff(api.QueueSpec{MaxPending: api.DefaultMaxPending, Limit: map[string]int{"A100": 64}, Projects: []string{"lab", "chat"}}, queue().Spec); diff != "" {
		t.Error(diff)
	}
	check(t, fermi(f, t, "", "queue", "set", "nlp", "--add-project", "vision", "--remove-project", "lab", "--weight", "3"), result{out: "queue/nlp changed\n"})
	if diff := cmp.Diff([]string{"chat", "vision"}, queue().Spec.Projects); diff != "" || queue().Spec.Weight != 3 || queue().Spec.Limit["A100"] != 64 {
		t.Errorf("%s %+v", diff, queue().Spec)
	}
	check(t, fermi(f, t, "", "queue", "set", "nlp", "--projects", ""), result{out: "queue/nlp changed\n"})
	if len(queue().Spec.Projects) != 0 {
		t.Errorf("%+v", queue().Spec)
	}

	check(t, fermi(f, t, "", "project", "create", "lab", "--member", "li"), result{out: "project/lab created\n"})
	project := func() *api.Project { return f.Objects[api.KindProject][0].(*api.Project) }
	check(t, fermi(f, t, "", "project", "set", "lab", "--max-priority", "700", "--max-outputs", "4Ti", "--max-secrets", "5", "--folders", "data,home"), result{out: "project/lab changed\n"})
	want := api.ProjectSpec{Queue: "default", Members: []string{"li"}, MaxPriority: 700, Limits: &api.ProjectLimits{Outputs: 4 << 40, Secrets: 5}, Folders: []string{"data", "home"}}
	if diff := cmp.Diff(want, project().Spec); diff != "" {
		t.Error(diff)
	}
	check(t, fermi(f, t, "", "project", "set", "lab", "--max-outputs", "0", "--max-secrets", "0"), result{out: "project/lab changed\n"})
	if project().Spec.Limits != nil || project().Spec.MaxPriority != 700 {
		t.Errorf("%+v", project().Spec)
	}
	if bad := fermi(f, t, "", "project", "set", "lab", "--max-outputs", "much", "--max-logs", "more"); bad.code != 2 {
		t.Errorf("%+v", bad)
	}
}
