package sqlstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/history/historytest"
)

func benchRows() int {
	if n, err := strconv.Atoi(os.Getenv("FERMI_BENCH_ROWS")); err == nil && n > 0 {
		return n
	}
	return 20_000
}

// benchTask is one of many: names at random, display names of a few families that cluster in
// their order, a phase that only one in ten thousand has, another that only the last ones have.
func benchTask(i, of int, rnd *rand.Rand) history.Archived {
	family := []string{"GPT大模型分布式训练", "BERT中文预训练", "全球翻译推理服务", "ResNet 图像分类"}[i%4]
	a := historytest.Task(i, fmt.Sprintf("%s %07d", family, rnd.IntN(of*10)))
	m := a.Object.GetMeta()
	m.Name = fmt.Sprintf("%s-%08x", []string{"gpt", "bert", "fanyi", "resnet"}[i%4], rnd.Uint32())
	m.Project, m.Owner = fmt.Sprint("project-", i%50), fmt.Sprint("user-", rnd.IntN(300))
	a.Queue = fmt.Sprint("queue-", rnd.IntN(20))
	a.Phase = []string{"Completed", "Completed", "Completed", "Failed"}[rnd.IntN(4)]
	switch {
	case i%10_000 == 77:
		a.Phase = "Stopped"
	case i > of-of/50:
		a.Phase = "Recovering"
	}
	return a
}

// BenchmarkArchive loads FERMI_BENCH_ROWS rows in batches of 1,000, then lists.
func BenchmarkArchive(b *testing.B) {
	n := benchRows()
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		b.Fatal(err)
	}
	defer os.RemoveAll(dir)
	s, err := Open(context.Background(), Config{Path: filepath.Join(dir, "h.db")})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	load := sync.OnceFunc(func() { loadBench(b, s, n) })
	needle := ""
	for _, q := range []struct {
		name string
		q    history.ListQuery
	}{
		{"all", history.ListQuery{}},
		{"project", history.ListQuery{Project: "project-7"}},
		{"owner+queue", history.ListQuery{Owner: "user-7", Queue: "queue-7"}},
		{"owner+queue+phase", history.ListQuery{Owner: "user-9", Queue: "queue-9", Phase: []string{"Stopped", "Failed"}}},
		{"rare-phase", history.ListQuery{Phase: []string{"Stopped"}}},
		{"late-phase", history.ListQuery{Phase: []string{"Recovering"}}},
		{"half-the-projects", history.ListQuery{Phase: []string{"Failed"}, Project: "project-9"}},
		{"search-common", history.ListQuery{Search: "训练"}},
		{"search-clustered", history.ListQuery{Search: "翻译"}},
		{"search-one-char", history.ListQuery{Search: "译"}},
		{"search-latin", history.ListQuery{Search: "bert-"}},
		{"search-digits", history.ListQuery{Search: "123"}},
		{"search-one-row", history.ListQuery{Search: "?"}},
		{"search-nothing", history.ListQuery{Search: "没有这个任务"}},
		{"search-absent-char", history.ListQuery{Search: "龘"}},
	} {
		for _, sort := range []string{"id", "name", "displayName", "updatedAt"} {
			for _, desc := range []bool{false, true} {
				b.Run(fmt.Sprintf("rows=%d/%s/%s/desc=%v", n, q.name, sort, desc), func(b *testing.B) {
					load()
					if needle == "" {
						needle = "GPT-" // replaced by a name that exists
						rows, err := s.ListArchived(context.Background(), history.ListQuery{Kind: api.KindTrainingTask, Limit: 3})
						if err != nil || len(rows) != 3 {
							b.Fatalf("%d rows, %v", len(rows), err)
						}
						needle = rows[2].Object.GetMeta().Name[2:]
					}
					query := q.q
					if query.Search == "?" {
						query.Search = needle
					}
					query.Kind, query.Sort, query.Desc, query.Limit = api.KindTrainingTask, sort, desc, 50
					benchPages(b, s, query)
				})
			}
		}
	}
}

func loadBench(b *testing.B, s *Store, n int) {
	rnd := rand.New(rand.NewPCG(7, 7))
	start := time.Now()
	for i := 0; i < n; i += 1000 {
		var batch []history.Archived
		for j := i; j < min(i+1000, n); j++ {
			batch = append(batch, benchTask(j, n, rnd))
		}
		if err := s.PutArchived(context.Background(), batch...); err != nil {
			b.Fatal(err)
		}
	}
	fmt.Printf("loaded %d rows in %v\n", n, time.Since(start).Round(time.Millisecond))
}

// benchPages lists first pages, and pages further on, and reports the slowest.
func benchPages(b *testing.B, s *Store, q history.ListQuery) {
	var took []time.Duration
	for b.Loop() {
		q := q
		q.After = nil
		for range 3 {
			start := time.Now()
			rows, err := s.ListArchived(context.Background(), q)
			took = append(took, time.Since(start))
			if err != nil {
				b.Fatal(err)
			}
			if len(rows) < q.Limit {
				break
			}
			last := rows[len(rows)-1]
			q.After = &history.Cursor{Value: historytest.SortValue(last, q.Sort), ID: last.Object.GetMeta().ID}
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkAddEvents is what a group commit gives to many writers.
func BenchmarkAddEvents(b *testing.B) {
	s := openAt(b, filepath.Join(b.TempDir(), "h.db"), usual)
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := s.AddEvents(context.Background(), history.Event{Time: time.Unix(1, 0), ID: "x", Reason: "Bench"}); err != nil {
				b.Error(err)
			}
		}
	})
}
