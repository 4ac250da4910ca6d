package server

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/server/objects"
)

var someNames = []string{"GPT大模型分布式训练", "BERT中文预训练", "全球翻译推理服务", "run 9", "run 10", "Alpha", "alpha", "北京", "上海", "zeta"}

// seedTasks fills store and archive with tasks, some of them in both, and returns all of them
// as a list should see them: the live one wins.
func seedTasks(t *testing.T, w *world, seed uint64, n int) []*api.TrainingTask {
	r := rand.New(rand.NewPCG(seed, 1))
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	ids := id.NewSource(func() time.Time { return start.Add(time.Duration(r.IntN(1000)) * time.Second) }, noise{r})
	var all []*api.TrainingTask
	var rows []history.Archived
	for i := range n {
		task := manifest(fmt.Sprintf("t-%03d", r.IntN(1000)*1000+i))
		must(t, api.Prepare(task, id.Default.Random))
		task.Meta.ID = ids.New("task")
		task.Meta.Project = []string{"default", "lab", "secret"}[r.IntN(3)]
		task.Meta.DisplayName = someNames[r.IntN(len(someNames))]
		task.Meta.Owner = []string{"ann", "bob"}[r.IntN(2)]
		task.Meta.Labels = map[string]string{"team": fmt.Sprint(r.IntN(3))}
		task.Meta.CreatedAt = start
		task.Meta.UpdatedAt = start.Add(time.Duration(r.IntN(20)) * time.Minute)
		task.Spec.Queue = []string{"default", "q"}[r.IntN(2)]
		live, archived := r.IntN(2) == 0, r.IntN(2) == 0
		task.Status.Phase = api.PhasePending
		if archived || !live {
			task.Status.Phase = []api.Phase{api.PhaseCompleted, api.PhaseFailed}[r.IntN(2)]
			rows = append(rows, history.Archived{Object: task, Phase: string(task.Status.Phase), Queue: task.Spec.Queue})
		}
		if live {
			w.put(task)
		}
		all = append(all, task)
	}
	must(t, w.history.PutArchived(context.Background(), rows...))
	return all
}

type noise struct{ r *rand.Rand }

func (z noise) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(z.r.Uint32())
	}
	return len(p), nil
}

// expected sorts and filters everything, the slow and obvious way.
func expected(all []*api.TrainingTask, q url.Values, projects []string) []string {
	word, desc := strings.CutPrefix(q.Get("sort"), "-")
	var kept []*api.TrainingTask
	for _, t := range all {
		switch {
		case projects != nil && !slices.Contains(projects, t.Meta.Project),
			q.Get("project") != "" && t.Meta.Project != q.Get("project"),
			q.Get("owner") != "" && t.Meta.Owner != q.Get("owner"),
			q.Get("queue") != "" && t.Spec.Queue != q.Get("queue"),
			q.Get("phase") != "" && !slices.Contains(strings.Split(q.Get("phase"), ","), string(t.Status.Phase)),
			q.Get("label") != "" && "team="+t.Meta.Labels["team"] != q.Get("label"),
			q.Get("search") != "" && !strings.Contains(strings.ToLower(t.Meta.Name+"\n"+t.Meta.DisplayName), strings.ToLower(q.Get("search"))):
			continue
		}
		kept = append(kept, t)
	}
	value := func(t *api.TrainingTask) string {
		switch word {
		case "name":
			return t.Meta.Name
		case "displayName":
			return history.SortKey(t.Meta.DisplayName)
		case "updatedAt":
			return t.Meta.UpdatedAt.Format("2006-01-02T15:04:05.000000000Z")
		}
		return ""
	}
	slices.SortFunc(kept, func(a, b *api.TrainingTask) int {
		c := strings.Compare(value(a), value(b))
		if c == 0 {
			c = strings.Compare(a.Meta.ID, b.Meta.ID)
		}
		if desc {
			return -c
		}
		return c
	})
	ids := []string{}
	for _, t := range kept {
		ids = append(ids, t.Meta.ID)
	}
	return ids
}

// walk pages through a list.
func (w *world) walk(token string, q url.Values) []string {
	w.t.Helper()
	ids := []string{}
	for {
		a := w.do("GET", "/api/v1/training-tasks?"+q.Encode(), token, nil)
		if a.status != 200 {
			w.t.Fatalf("%s: %s", q.Encode(), a.raw)
		}
		var page struct {
			Items []*api.TrainingTask
			Next  string
		}
		must(w.t, json.Unmarshal(a.Data, &page))
		for _, o := range page.Items {
			ids = append(ids, o.Meta.ID)
		}
		if page.Next == "" {
			return ids
		}
		if len(page.Items) == 0 || fmt.Sprint(len(page.Items)) != q.Get("limit") {
			w.t.Fatalf("a page of %d items has a next one", len(page.Items))
		}
		q.Set("cursor", page.Next)
	}
}

// TestListJoin compares paging over live and archived tasks with sorting everything.
func TestListJoin(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Limits.Rate, c.Limits.Burst = 100000, 100000 })
	ann := w.user("ann", api.RoleMember)
	for _, name := range []string{"lab", "secret"} {
		members := []string{"ann"}
		if name == "secret" {
			members = nil
		}
		w.put(&api.Project{Meta: api.Meta{Name: name}, Spec: api.ProjectSpec{Members: members}})
	}
	w.put(&api.Queue{Meta: api.Meta{Name: "q"}})
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	all := seedTasks(t, w, seed, 150)
	r := rand.New(rand.NewPCG(seed, 2))
	pick := func(q url.Values, key string, choices ...string) {
		if v := choices[r.IntN(len(choices))]; v != "" {
			q.Set(key, v)
		}
	}
	for _, word := range objects.SortWords {
		for range 6 {
			q := url.Values{"sort": {word}}
			pick(q, "limit", "1", "7", "50", "500")
			pick(q, "project", "", "", "default", "lab", "secret")
			pick(q, "owner", "", "", "ann")
			pick(q, "queue", "", "", "q")
			pick(q, "phase", "", "", "Pending", "Completed,Failed")
			pick(q, "label", "", "", "team=1")
			pick(q, "search", "", "", "训练", "ALPHA", "T-0", "run")
			token, projects := w.admin, []string(nil)
			if r.IntN(2) == 0 {
				token, projects = ann, []string{"lab"}
			}
			want := expected(all, q, projects)
			if diff := cmp.Diff(want, w.walk(token, q)); diff != "" {
				t.Fatalf("%s as %v (-want +got):\n%s", q.Encode(), projects, diff)
			}
		}
	}
}
