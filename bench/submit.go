package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/test/harness"
)

// benchSubmit: from the submit call to the first line of the user's process as a client sees it.
func benchSubmit(ctx context.Context, r *report) error {
	c, cl, err := demo(ctx)
	if err != nil {
		return err
	}
	defer c.Cleanup()
	var alone sample
	for i := range 200 {
		d, err := firstLine(ctx, cl, fmt.Sprintf("one-%d", i))
		if err != nil {
			return err
		}
		alone = append(alone, d)
	}
	fmt.Println("submit → first line, one at a time:", alone)
	together, err := manyAtOnce(ctx, cl, 10, 20)
	if err != nil {
		return err
	}
	fmt.Println("submit → first line, 20 at once:   ", together)
	reader, err := secondClient(ctx, cl)
	if err != nil {
		return err
	}
	gets, lists, submits, err := reads(ctx, cl, reader, 30*time.Second, 100)
	if err != nil {
		return err
	}
	fmt.Println("with 100 submits/s into a paused queue, 30 s:")
	fmt.Println("  submit  ", submits)
	fmt.Println("  get     ", gets)
	fmt.Println("  list(50)", lists)
	r.atMost("submit → first line, alone, p50 [ms]", ms(alone.quantile(.5)), 300).Among(alone.milliseconds())
	r.atMost("submit → first line, alone, p99 [ms]", ms(alone.quantile(.99)), 1000).Among(alone.milliseconds())
	r.atMost("submit → first line, 20 at once, p99 [ms]", ms(together.quantile(.99)), 3000).Among(together.milliseconds())
	r.atMost("get under 100 submits/s, p99 [ms]", ms(gets.quantile(.99)), 50).Among(gets.milliseconds())
	r.atMost("list(50) under 100 submits/s, p99 [ms]", ms(lists.quantile(.99)), 50).Among(lists.milliseconds())
	return nil
}

func echoTask(name string) *api.TrainingTask {
	return &api.TrainingTask{Meta: api.Meta{Name: name}, Spec: api.TrainingTaskSpec{Roles: []api.Role{{
		Name: "worker", Replicas: 1, Command: []string{"/bin/echo", "hello"}, Resources: api.Resources{CPU: 1000, Memory: 1 << 28},
	}}}}
}

var errSeen = errors.New("seen")

// demo is a server on the demo topology, and a client of it; the caller cleans up.
func demo(ctx context.Context) (*harness.Cluster, *client.Client, error) {
	c, cl, err := stand(ctx, "--demo")
	if err != nil {
		return nil, nil, err
	}
	if err := harness.Share(ctx, cl); err != nil {
		c.Cleanup()
		return nil, nil, err
	}
	return c, cl, nil
}

func firstLine(ctx context.Context, cl *client.Client, name string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	begin := time.Now()
	if _, err := cl.Submit(ctx, echoTask(name), false); err != nil {
		return 0, err
	}
	err := cl.Logs(ctx, "default", name, client.LogOptions{Follow: true}, func(l client.LogLine) error {
		if strings.HasPrefix(l.Text, "[fermi] ") {
			return nil // of the platform: that names are not found on this machine, say
		}
		if l.Text != "hello" {
			return fmt.Errorf("unexpected line %q", l.Text)
		}
		return errSeen
	})
	if !errors.Is(err, errSeen) {
		return 0, fmt.Errorf("%s: no line came: %w", name, err)
	}
	return time.Since(begin), nil
}

func manyAtOnce(ctx context.Context, cl *client.Client, rounds, width int) (sample, error) {
	var mu sync.Mutex
	var all sample
	var first error
	for round := range rounds {
		var wg sync.WaitGroup
		for i := range width {
			wg.Go(func() {
				d, err := firstLine(ctx, cl, fmt.Sprintf("many-%d-%d", round, i))
				mu.Lock()
				defer mu.Unlock()
				all = append(all, d)
				first = errors.Join(first, err)
			})
		}
		wg.Wait()
		if first != nil {
			return nil, first
		}
	}
	return all, nil
}

// secondClient is another user's: requests are limited for each user.
func secondClient(ctx context.Context, cl *client.Client) (*client.Client, error) {
	if _, err := cl.Create(ctx, &api.User{Meta: api.Meta{Name: "reader"}, Spec: api.UserSpec{Role: api.RoleOperator}}, false); err != nil {
		return nil, err
	}
	made, err := cl.CreateToken(ctx, &api.Token{Meta: api.Meta{Name: "reader"}, Spec: api.TokenSpec{User: "reader"}}, false)
	if err != nil {
		return nil, err
	}
	return client.New(client.Config{Server: cl.Server(), Token: made.Secret})
}

// reads measures get and list while tasks pour into a paused queue at a fixed rate.
func reads(ctx context.Context, cl, reader *client.Client, how time.Duration, rate int) (gets, lists, submits sample, err error) {
	q := &api.Queue{Meta: api.Meta{Name: "paused"}, Spec: api.QueueSpec{Paused: true, Projects: []string{api.DefaultProject}}}
	if _, err := cl.Create(ctx, q, false); err != nil {
		return nil, nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, how)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	var failed error
	note := func(into *sample, begin time.Time, err error) {
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			if ctx.Err() == nil {
				failed = errors.Join(failed, err)
			}
			return
		}
		*into = append(*into, time.Since(begin))
	}
	wg.Go(func() { // open loop: a slow answer does not slow the rate
		tick := time.NewTicker(time.Second / time.Duration(rate))
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			wg.Go(func() {
				t := echoTask(fmt.Sprintf("queued-%d", i))
				t.Spec.Queue = "paused"
				begin := time.Now()
				_, err := cl.Submit(ctx, t, false)
				note(&submits, begin, err)
			})
		}
	})
	wg.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			begin := time.Now()
			_, err := reader.Get(ctx, api.KindTrainingTask, "default", fmt.Sprintf("one-%d", i%200))
			note(&gets, begin, err)
			pause(ctx, 10*time.Millisecond)
		}
	})
	wg.Go(func() {
		for ctx.Err() == nil {
			begin := time.Now()
			_, err := reader.List(ctx, api.KindTrainingTask, client.ListOptions{Project: "default", Limit: 50})
			note(&lists, begin, err)
			pause(ctx, 20*time.Millisecond)
		}
	})
	wg.Wait()
	return gets, lists, submits, failed
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
