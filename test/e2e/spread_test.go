package e2e

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/where"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/test/harness"
)

// twoSides are two near zones with eight devices each.
const twoSides = `zones:
- {name: east, region: r, latencyMs: {west: 1}, firstNumber: 1000, nodes: [{count: 2, cpu: 32, memory: 256Gi, devices: {count: 4, type: A100}}]}
- {name: west, region: r, firstNumber: 2000, nodes: [{count: 2, cpu: 32, memory: 256Gi, devices: {count: 4, type: A100}}]}
`

// ones is a task of replicas with a device each that runs until it is stopped.
func ones(name string, replicas int, zones api.ZoneRules) *api.TrainingTask {
	task := shell(name, replicas, "sleep 1000")
	task.Spec.Roles[0].Resources = api.Resources{CPU: 100, Memory: 1 << 26, Accelerators: api.Accelerators{Count: 1}}
	task.Spec.Zones = &zones
	return task
}

// stands submits a task and says how many of its replicas each zone has once all run.
func (w *world) stands(task *api.TrainingTask) map[string]int {
	w.t.Helper()
	w.submit(task)
	return w.standing(task.Meta.Name)
}

func (w *world) standing(name string) map[string]int {
	w.t.Helper()
	w.phase(name, api.PhaseRunning)
	rows, err := w.api.Replicas(w.t.Context(), api.DefaultProject, name)
	if err != nil {
		w.t.Fatal(err)
	}
	zones := map[string]int{}
	for _, r := range rows {
		zones[r.Zone]++
	}
	return zones
}

// TestSpans: a gang stands in its zones within the least and the most that its split says, as their room allows; where it can't, it waits and says which
// zone lacks room, and what makes no sense is refused at the door. Balanced work goes where most room is left.
func TestSpans(t *testing.T) {
	file := filepath.Join(t.TempDir(), "zones.yaml")
	if err := os.WriteFile(file, []byte(twoSides), 0o600); err != nil {
		t.Fatal(err)
	}
	w := up(t, "--zones", file)
	harness.Eventually(t, "all nodes are ready", func() bool {
		page, err := w.api.List(t.Context(), api.KindNode, client.ListOptions{})
		ready := 0
		for _, o := range page.Items {
			if o.(*api.Node).Status.Ready {
				ready++
			}
		}
		return err == nil && ready == 4
	})
	is := func(what string, got, want map[string]int) {
		t.Helper()
		if !maps.Equal(got, want) {
			t.Errorf("%s stands in %v, want %v", what, got, want)
		}
	}
	is("who fills a zone", w.stands(ones("full", 6, api.ZoneRules{Allow: []string{"east"}})), map[string]int{"east": 6})

	// What can't be.
	dry := func(more ...string) []string {
		return append(append([]string{"train", "run", "--dry-run", "--no-code", "--name", "x", "--gpus", "1"}, more...), "--", "true")
	}
	for _, c := range []struct {
		args   []string
		en, zh string
	}{
		{dry("--replicas", "8", "--split", "east=1..2,west=1..2"), "may have 4 replicas at most, and the task has 8", "最多共 4 个副本，而任务有 8 个"},
		{dry("--replicas", "3", "--split", "east=2..3,west=2..3"), "4 replicas at least, and the task has 3", "至少共需 4 个副本，而任务只有 3 个"},
		{dry("--replicas", "8", "--split", "east=6..2,west=2"), "2..6 for two to six", "命令行参数有误"},
	} {
		for lang, want := range map[string]string{"en": c.en, "zh": c.zh} {
			if r := w.fermiIn(t.TempDir(), []string{"FERMI_LANG=" + lang}, c.args...); r.code == 0 || !strings.Contains(r.err, want) {
				t.Errorf("%v: %d, no %q in %s", c.args, r.code, want, r.err)
			}
		}
	}

	for lang, want := range map[string]string{"en": "Zone east is to have 9, and has room for 8.", "zh": "可用区 east 至少需放 9 个，目前可放 8 个。"} {
		contains(t, w.fermiIn(t.TempDir(), []string{"FERMI_LANG=" + lang}, dry("--replicas", "10", "--split", "east=9..,west=1..")...).out, "SplitUnfit", want)
	}

	// A gang of 8, two of which fit beside the other task.
	contains(t, w.must(dry("--replicas", "8", "--split", "east=2..6,west=2..6")...), "It would start now", "east", "west")
	is("a gang of 8", w.stands(ones("spans", 8, api.ZoneRules{Split: where.Split{"east": {Least: 2, Most: 6}, "west": {Least: 2, Most: 6}}})), map[string]int{"east": 2, "west": 6})
	w.submit(ones("waits", 2, api.ZoneRules{Split: where.Split{"east": {Least: 1, Most: 2}, "west": {Least: 1, Most: 2}}}))
	for lang, want := range map[string]string{"en": "Zone east is to have 1, and has room for 0.", "zh": "可用区 east 至少需放 1 个，目前可放 0 个。"} {
		harness.Eventually(t, "why says what is missing where", func() bool {
			return strings.Contains(w.fermiIn(t.TempDir(), []string{"FERMI_LANG=" + lang}, "why", "waits").out, want)
		})
	}
	w.must("train", "stop", "full") // it leaves six in the east, and two are free in the west
	is("who waited", w.standing("waits"), map[string]int{"east": 1, "west": 1})
	for _, name := range []string{"spans", "waits"} {
		w.must("train", "stop", name)
		w.phase(name, api.PhaseStopped)
	}

	// Balanced: one zone is nearly full.
	is("who fills a zone again", w.stands(ones("again", 6, api.ZoneRules{Allow: []string{"east"}})), map[string]int{"east": 6})
	contains(t, w.must(dry("--replicas", "8", "--balance")...), "as evenly over its zones as their room allows (balance)")
	is("a balanced gang", w.stands(ones("even", 4, api.ZoneRules{Balance: true})), map[string]int{"west": 4})
	is("one within bounds", w.stands(ones("bounds", 4, api.ZoneRules{Balance: true, Split: where.Split{"east": {Least: 1, Most: 4}, "west": {Least: 0, Most: 4}}})), map[string]int{"east": 1, "west": 3})
	w.must("train", "stop", "even")
	w.phase("even", api.PhaseStopped)
	tasks := []string{w.task("again").Meta.ID, w.task("bounds").Meta.ID, w.task("even").Meta.ID}
	w.must("service", "create", "web", "--replicas", "3", "--accelerators", "1", "--cpu", "100m", "--memory", "64Mi", "--balance", "--health", "/", "--", "sh", "-c", "exec python3 -m http.server $PORT")
	harness.Eventually(t, "all three replicas of the service have a place", func() bool {
		page, err := w.api.List(t.Context(), api.KindPlacement, client.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		placed := map[string]int{}
		for _, o := range page.Items {
			if p := o.(*api.Placement); !slices.Contains(tasks, p.Spec.TaskID) {
				placed[map[bool]string{true: "west", false: "east"}[p.Spec.Roles[0].Slots[0].Node >= 2000]]++
			}
		}
		if placed["east"] > 0 {
			t.Fatalf("%v", placed)
		}
		return placed["west"] == 3
	})
}
