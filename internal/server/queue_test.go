package server

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/objects"
	"github.com/fermi-cluster/fermi/internal/store"
)

var update = flag.Bool("update", false, "write docs/reference/bad-queues.md anew")

// badQueue is one thing that is refused: a request after some queues were made.
type badQueue struct {
	name, zh     string
	have         []string // "name parent guarantee", made first
	method, path string
	spec         map[string]any
	status       int
	reason       string
}

func guaranteed(n int) map[string]any { return map[string]any{"A100": n} }

var deepest = func() (list []string) {
	for i := range 16 {
		list = append(list, fmt.Sprintf("d%d %s", i, strings.TrimSuffix(fmt.Sprintf("d%d", i-1), "d-1")))
	}
	return list
}()

var badQueues = []badQueue{
	{"a parent that is not there", "上级不存在", nil, "POST", "", map[string]any{"parent": "none"}, 400, "InvalidField"},
	{"its own parent", "以自身为上级", nil, "POST", "", map[string]any{"parent": "x"}, 400, "InvalidField"},
	{"parents in a circle", "上级成环", []string{"x", "y x", "z y"}, "PUT", "/x", map[string]any{"parent": "z"}, 400, "InvalidField"},
	{"a tree too deep", "层级过深", deepest, "POST", "", map[string]any{"parent": "d15"}, 400, "InvalidField"},
	{"moved so that what hangs below is too deep", "移动后下级层级过深", append([]string{"top"}, deepest...), "PUT", "/d0", map[string]any{"parent": "top"}, 400, "InvalidField"},
	{"children guaranteed more than their parent", "下级保障之和超过上级", []string{"p - 8", "c p 6"}, "POST", "", map[string]any{"parent": "p", "guarantee": guaranteed(3)}, 400, "InvalidField"},
	{"the same through a parent that declares none", "同上，经由未声明保障的上级", []string{"p - 8", "m p"}, "POST", "", map[string]any{"parent": "m", "guarantee": guaranteed(9)}, 400, "InvalidField"},
	{"a guarantee lowered below the children's", "保障降至低于下级之和", []string{"p - 8", "c p 6"}, "PUT", "/p", map[string]any{"guarantee": guaranteed(5)}, 400, "InvalidField"},
	{"a negative weight", "权重为负", nil, "POST", "", map[string]any{"weight": -1}, 400, "InvalidField"},
	{"a negative guarantee", "保障为负", nil, "POST", "", map[string]any{"guarantee": guaranteed(-1)}, 400, "InvalidField"},
	{"a negative limit", "上限为负", nil, "POST", "", map[string]any{"limit": map[string]any{"devices": -1}}, 400, "InvalidField"},
	{"a limit below the guarantee", "上限低于保障", nil, "POST", "", map[string]any{"guarantee": guaranteed(8), "limit": guaranteed(4)}, 400, "InvalidField"},
	{"one device type in two spellings", "同一卡型两种写法", nil, "POST", "", map[string]any{"limit": map[string]any{"A100": 1, "a-100": 2}}, 400, "InvalidField"},
	{"deleted while it has children", "删除仍有下级的队列", []string{"p", "c p"}, "DELETE", "/p", nil, 409, "InUse"},
	{"deleted while a project uses it", "删除仍被项目使用的队列", nil, "DELETE", "/default", nil, 409, "InUse"},
	{"deleted while tasks are in it", "删除仍有任务的队列", []string{"busy"}, "DELETE", "/busy", nil, 409, "InUse"},
}

func (w *world) makeQueues(list []string) {
	for _, text := range list {
		part := append(strings.Fields(text), "", "")
		q := &api.Queue{Meta: api.Meta{Name: part[0]}}
		if part[1] != "-" {
			q.Spec.Parent = part[1]
		}
		var n int
		if _, err := fmt.Sscan(part[2], &n); err == nil {
			q.Spec.Guarantee = map[string]int{"A100": n}
		}
		w.put(q)
	}
}

func (w *world) queue(name string) *api.Queue {
	w.t.Helper()
	o, err := w.store.Get(w.t.Context(), api.Key{Kind: api.KindQueue, Name: name}, 0)
	must(w.t, err)
	return o.(*api.Queue)
}

// said is the answer in one language: the field's words where there is one.
func (w *world) said(b badQueue, lang string) string {
	w.t.Helper()
	meta := map[string]any{"name": "x"}
	if b.method == "PUT" {
		name := strings.TrimPrefix(b.path, "/")
		meta = map[string]any{"name": name, "revision": w.queue(name).Meta.Revision}
	}
	var body any
	if b.method != "DELETE" {
		body = map[string]any{"metadata": meta, "spec": b.spec}
	}
	a := w.do(b.method, "/api/v1/queues"+b.path, w.admin, body, "Accept-Language", lang)
	if a.status != b.status || a.Reason != b.reason {
		w.t.Fatalf("%d %s, want %d %s: %s", a.status, a.Reason, b.status, b.reason, a.raw)
	}
	if len(a.Fields) > 0 {
		return fmt.Sprintf("`%s`: %s", a.Fields[0].Path, a.Fields[0].Message)
	}
	return a.Message
}

const badPage = "../../docs/reference/bad-queues.md"

// TestBadQueues refuses each with its words in both languages, and keeps the page of them in step:
// go test ./internal/server -run TestBadQueues -update
func TestBadQueues(t *testing.T) {
	var page strings.Builder
	page.WriteString("# Queues that are refused\n\nGenerated from real answers (`go test ./internal/server -run TestBadQueues -update`).\n\n" +
		"| what | 情形 | answer | 回答 |\n|---|---|---|---|\n")
	for _, b := range badQueues {
		t.Run(b.name, func(t *testing.T) {
			w := newWorld(t)
			w.makeQueues(b.have)
			if b.path == "/busy" {
				w.put(&api.TrainingTask{Meta: api.Meta{Name: "t", Project: "default"}, Spec: api.TrainingTaskSpec{Queue: "busy"}, Status: api.TrainingTaskStatus{Phase: api.PhasePending}})
			}
			en, zh := w.said(b, "en"), w.said(b, "zh")
			if en == "" || zh == "" || en == zh {
				t.Errorf("%q, %q", en, zh)
			}
			fmt.Fprintf(&page, "| %s | %s | %s | %s |\n", b.name, b.zh, en, zh)
		})
	}
	page.WriteString(badQueuesEnd)
	if *update {
		must(t, os.WriteFile(badPage, []byte(page.String()), 0o644))
	}
	if have, err := os.ReadFile(badPage); !t.Failed() && (err != nil || string(have) != page.String()) {
		t.Errorf("%s is out of step (%v): go test ./internal/server -run TestBadQueues -update", badPage, err)
	}
}

// badQueuesEnd is what is survived, each with its test.
const badQueuesEnd = `
Accepted, and survived:

| what | what happens | test |
|---|---|---|
| guarantees beyond what the cluster has | nodes come and go: accepted, and ` + "`fermi queue describe`" + ` warns | ` + "`./internal/control/placement TestShare`" + ` |
| two changes at once that only together make no sense | the second is answered Stale where queues above moved; else the planner leaves the impossible part of one queue out and logs it | ` + "`./internal/server TestQueuesInACircleAtOnce`, `./internal/control/placement TestQueuesAreMended`" + ` |
| a latency table with holes | measured beats declared, either direction fills the other; where there is neither, zones of one region are 1 ms apart, others 20 ms | ` + "`./sched TestLatencyHoles`" + ` |
| a zone without nodes | tasks that may only use it wait with ` + "`NoNodes`" + ` | ` + "`./sched TestWhy/NoNodes`" + ` |
| a clock that goes back | time stands still for the planner until it has caught up | ` + "`./sched TestClockGoesBack`" + ` |
`

// TestQueuesInACircleAtOnce: of two queues that become each other's parent at the same time, one is
// refused.
// checkQueue admits a queue without writing it; the operations must hold at the commit.
func (w *world) checkQueue(q *api.Queue) ([]store.Op, error) {
	b := objects.Birth{Object: q}
	err := w.server.kinds.Of(api.KindQueue).Admit(w.t.Context(), nil, &b, false)
	return b.Ops, err
}

func TestQueuesInACircleAtOnce(t *testing.T) {
	w := newWorld(t)
	w.makeQueues([]string{"a", "b"})
	ctx := t.Context()
	a := w.queue("a")
	b := w.queue("b")
	under := func(q, parent *api.Queue) *api.Queue {
		next := *q
		next.Spec.Parent = parent.Meta.Name
		return &next
	}
	guards, err := w.checkQueue(under(a, b)) // looked at, not yet written
	must(t, err)
	if len(guards) != 1 || guards[0].Key != api.KeyOf(b) || guards[0].Revision != b.Meta.Revision {
		t.Fatalf("what a hangs from may move: %+v", guards)
	}
	w.ok("PUT", "/api/v1/queues/b", under(b, a), nil)
	if _, err := w.store.Commit(ctx, store.Txn{Ops: append([]store.Op{store.Update(under(a, b))}, guards...)}); fault.ReasonOf(err) != "Stale" {
		t.Errorf("a circle was written: %v", err)
	}
}
