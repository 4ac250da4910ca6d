package serve

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/test/harness"
)

// TestFigures: every request of two gateways is in the figures, by revision and key, also when the server is killed in between; a key's
// budget is one of both gateways together.
func TestFigures(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.fermi("service", "create", "spirals", "--engine", "sample")
	w.fermi("service", "slo", "spirals", "--availability", "99.9", "--latency", "30s")
	admin, err := w.c.Client()
	if err != nil {
		t.Fatal(err)
	}
	made, err := admin.CreateToken(ctx, &api.Token{Meta: api.Meta{Name: "few"}, Spec: api.TokenSpec{User: "lab-member", Scope: serving.ScopeInference, Projects: []string{"lab"}, Limits: &api.KeyLimits{RequestsPerMonth: 6}}}, false)
	if err != nil {
		t.Fatal(err)
	}
	both := []string{w.url(), w.gateway}
	get := func(at, path, key string, want int) {
		t.Helper()
		if status, body, err := ask(ctx, http.MethodGet, at+"/inference/spirals"+path, key, nil); err != nil || status != want {
			t.Errorf("%s%s: %d %s %v", at, path, status, body, err)
		}
	}
	type figures struct {
		Total serving.ServedCount
		Keys  []struct {
			Key string
			serving.ServedCount
		}
		Revisions []struct {
			Revision int
			serving.ServedCount
		}
		Points []struct{ serving.ServedCount }
		SLO    *struct{ Left float64 }
	}
	seen := func() (f figures) {
		t.Helper()
		raw, err := w.client(w.member).Raw(ctx, "/inference-services/spirals/figures", url.Values{"project": {"lab"}})
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(raw, &f); err != nil {
			t.Fatal(err)
		}
		return f
	}
	for n := range 20 {
		get(both[n%2], "/", w.key, 200)
	}
	get(w.gateway, "/nothing", w.key, 404)
	harness.Eventually(t, "all are counted", func() bool { return seen().Total.Requests == 21 })
	w.c.Kill()
	for range 10 {
		get(w.gateway, "/", w.key, 200)
	}
	if err := w.c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "so are those while the server was away", func() bool { return seen().Total.Requests == 31 })
	f := seen()
	if f.Total.Errors != 0 || f.SLO == nil || f.SLO.Left != 100 || len(f.Revisions) != 1 || f.Revisions[0].Requests != 31 || len(f.Points) == 0 {
		t.Errorf("%+v", f)
	}
	for _, at := range both {
		for range 3 {
			get(at, "/", made.Secret, 200)
		}
	}
	harness.Eventually(t, "the budget of both together is used up at each", func() bool {
		for _, at := range both {
			status, body, err := ask(ctx, http.MethodGet, at+"/inference/spirals/", made.Secret, nil)
			if err != nil || status != 429 || !strings.Contains(body, "KeyBudget") {
				return false
			}
		}
		return true
	})
	harness.Eventually(t, "both keys are in the figures", func() bool {
		said := w.fermi("service", "figures", "spirals", "--keys")
		return strings.Contains(said, "lab-key") && strings.Contains(said, "few")
	})
	if said := w.fermi("service", "figures", "spirals"); !strings.Contains(said, "99.9% promised") {
		t.Errorf("figures: %s", said)
	}
	if _, err := w.client(w.foreignMember()).Raw(ctx, "/inference-services/spirals/figures", url.Values{"project": {"lab"}}); err == nil {
		t.Error("somebody else reads the figures")
	}
	w.fermi("service", "delete", "spirals", "--yes")
}
