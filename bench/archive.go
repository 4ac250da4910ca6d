package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/history/sqlstore"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/internal/store/embedded"
)

const (
	finishedTasks = 1_000_000
	queuedTasks   = 100_000
)

// benchArchive: a folder with a million finished and a hundred thousand queued tasks, written
// through the same store and history packages; then the shipped binary is started on it.
func benchArchive(ctx context.Context, r *report) error {
	c, _, err := stand(ctx) // makes the folder, the token and the default objects
	if err != nil {
		return err
	}
	defer c.Cleanup()
	if err := c.Stop(); err != nil {
		return err
	}
	begin := time.Now()
	if err := fillHistory(ctx, c.Dir); err != nil {
		return err
	}
	fmt.Printf("%d finished tasks written in %s\n", finishedTasks, time.Since(begin).Round(time.Second))
	begin = time.Now()
	if err := fillStore(ctx, c.Dir); err != nil {
		return err
	}
	fmt.Printf("%d queued tasks written in %s\n", queuedTasks, time.Since(begin).Round(time.Second))
	var starts sample
	for i := range 3 {
		begin = time.Now()
		if err := c.Start(ctx); err != nil {
			return err
		}
		starts = append(starts, time.Since(begin))
		if i < 2 {
			if err := c.Stop(); err != nil {
				return err
			}
		}
	}
	fmt.Println("start:", starts)
	cl, err := c.Client()
	if err != nil {
		return err
	}
	all, err := lists(ctx, cl)
	if err != nil {
		return err
	}
	rss, err := rssMB(c.PID())
	if err != nil {
		return err
	}
	fmt.Printf("server VmRSS %.0f MB\n", rss)
	size, err := folderBytes(filepath.Join(c.Dir, "etcd"))
	if err != nil {
		return err
	}
	r.atMost("etcd on disk [GB]", float64(size)/1e9, 1)
	r.atMost("list p99 over all kinds of list [ms]", ms(all.quantile(.99)), 200).Among(all.milliseconds())
	r.atMost("start, worst of 3 [s]", starts.quantile(1).Seconds(), 5).Among(starts.seconds())
	return nil
}

func madeTask(n int, created time.Time, phase api.Phase) *api.TrainingTask {
	names := []string{"GPT大模型分布式训练", "BERT中文预训练", "全球翻译推理服务", "llama-finetune", "resnet50 baseline"}
	t := &api.TrainingTask{
		Meta: api.Meta{
			ID: id.Default.New("task"), Name: fmt.Sprintf("task-%07d", n), DisplayName: fmt.Sprintf("%s %d", names[n%len(names)], n),
			Project: "default", Owner: fmt.Sprintf("user-%d", n%50), Labels: map[string]string{"team": fmt.Sprintf("t%d", n%20)},
			CreatedAt: created, UpdatedAt: created.Add(time.Hour),
		},
		Spec: echoTask("").Spec,
	}
	priority := 500
	t.Spec.Priority, t.Spec.Queue, t.Spec.Framework = &priority, "default", api.FrameworkPlain
	t.Spec.HyperParameters = map[string]any{"lr": 0.001, "batch": 64, "epochs": 10}
	t.Status.Phase = phase
	if phase.Finished() {
		code, end := 0, created.Add(time.Hour)
		t.Status = api.TrainingTaskStatus{
			Phase: phase, Reason: "Succeeded", Attempt: 1, Generation: 1, StartedAt: &created, FinishedAt: &end, ExitCode: &code,
			Replicas: api.ReplicaCount{Total: 1, Succeeded: 1}, Zones: []string{"local"},
		}
	}
	return t
}

func fillHistory(ctx context.Context, dir string) error {
	h, err := sqlstore.Open(ctx, sqlstore.Config{Path: filepath.Join(dir, "history.db"), Log: slog.New(slog.DiscardHandler), Clock: clock.Real})
	if err != nil {
		return err
	}
	begin := time.Now().Add(-365 * 24 * time.Hour).UTC()
	const batch = 2000
	for n := 0; n < finishedTasks; n += batch {
		rows := make([]history.Archived, 0, batch)
		for i := n; i < n+batch; i++ {
			phase := []api.Phase{api.PhaseCompleted, api.PhaseCompleted, api.PhaseCompleted, api.PhaseFailed, api.PhaseStopped}[i%5]
			rows = append(rows, history.Archived{Object: madeTask(i, begin.Add(time.Duration(i)*30*time.Second), phase), Phase: string(phase), Queue: "default"})
		}
		if err := h.PutArchived(ctx, rows...); err != nil {
			return errors.Join(err, h.Close())
		}
		if n%100_000 == 0 {
			fmt.Printf("  history %d\r", n)
		}
	}
	return h.Close()
}

func fillStore(ctx context.Context, dir string) error {
	e, err := embedded.Start(ctx, embedded.Config{Dir: filepath.Join(dir, "etcd"), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer e.Close()
	s := store.New(store.Config{Client: e.Client(), Log: slog.New(slog.DiscardHandler), Clock: clock.Real})
	paused := &api.Queue{Meta: api.Meta{ID: id.Default.New("queue"), Name: "paused", DisplayName: "paused"}, Spec: api.QueueSpec{Paused: true, Projects: []string{api.DefaultProject}}}
	if _, err := s.Commit(ctx, store.Txn{Ops: []store.Op{store.Create(paused)}}); err != nil {
		return err
	}
	now := time.Now().UTC()
	const batch = 50
	for n := 0; n < queuedTasks; n += batch {
		var ops []store.Op
		for i := n; i < n+batch; i++ {
			t := madeTask(finishedTasks+i, now, api.PhasePending)
			t.Spec.Queue = "paused"
			ops = append(ops, store.Create(t))
		}
		if _, err := s.Commit(ctx, store.Txn{Ops: ops}); err != nil {
			return err
		}
	}
	return nil
}

// lists calls every kind of list a user would, and returns all times together.
func lists(ctx context.Context, cl *client.Client) (sample, error) {
	kinds := []struct {
		name string
		opts client.ListOptions
		deep int // pages
	}{
		{"newest", client.ListOptions{}, 3},
		{"oldest", client.ListOptions{Sort: "createdAt"}, 3},
		{"by name", client.ListOptions{Sort: "name"}, 3},
		{"by displayName", client.ListOptions{Sort: "displayName"}, 3},
		{"by update", client.ListOptions{Sort: "-updatedAt"}, 3},
		{"failed", client.ListOptions{Phase: []string{"Failed"}}, 3},
		{"pending", client.ListOptions{Phase: []string{"Pending"}}, 3},
		{"running (none)", client.ListOptions{Phase: []string{"Running"}}, 1},
		{"one owner", client.ListOptions{Owner: "user-7"}, 3},
		{"search 分布式", client.ListOptions{Search: "分布式"}, 3},
		{"search one", client.ListOptions{Search: "task-0123456"}, 1},
		{"search none", client.ListOptions{Search: "没有这个"}, 1},
	}
	var all sample
	for _, k := range kinds {
		var here sample
		for range 20 {
			opts := k.opts
			opts.Project, opts.Limit = "default", 50
			for range k.deep {
				begin := time.Now()
				page, err := cl.List(ctx, api.KindTrainingTask, opts)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", k.name, err)
				}
				here = append(here, time.Since(begin))
				if opts.Cursor = page.Next; page.Next == "" {
					break
				}
			}
		}
		fmt.Printf("  list %-16s %s\n", k.name, here)
		all = append(all, here...)
	}
	return all, nil
}

func folderBytes(dir string) (int64, error) {
	var sum int64
	err := filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			sum += info.Size()
		}
		return nil
	})
	return sum, err
}
