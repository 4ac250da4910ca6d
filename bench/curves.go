package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/blob/folder"
	"github.com/fermi-cluster/fermi/internal/blob/logbook"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/history/sqlstore"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/link/curve"
	"github.com/fermi-cluster/fermi/internal/run"
)

const (
	curvesRole   = "FERMI_BENCH_CURVES" // server or launchers: which part of the bench a process is
	curvesKey    = "a key of the bench, of 32 bytes .."
	curvesTask   = "task-curves"
	curvesRanks  = 1000 // each with a launcher of its own, which is the most work
	curvesSeries = 10
	curvesLong   = 1_000_000 // points of one series
)

// curvesSeconds is how long points come, one a second of each series.
func curvesSeconds() int {
	if n, err := strconv.Atoi(os.Getenv("FERMI_CURVES_SECONDS")); err == nil && n > 0 {
		return n
	}
	if small() {
		return 60
	}
	return 600
}

// benchCurves: a thousand launchers hand ten series each over the link into SQLite, one point a second. The server, a process of
// its own, is killed in the middle and at the end; then every point must be there once. A series of a million points is opened
// over the API of the shipped binary.
func benchCurves(ctx context.Context, r *report) error {
	switch os.Getenv(curvesRole) {
	case "server":
		return curvesServer(ctx)
	case "launchers":
		return curvesLaunchers(ctx)
	}
	if err := curvesOpened(ctx, r); err != nil {
		return err
	}
	return curvesTaken(ctx, r)
}

func curvesChild(ctx context.Context, dir, role string) (*child, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.CommandContext(ctx, exe, "curves"), role: role, lines: make(chan string, 64)}
	c.cmd.Dir, c.cmd.Stderr = dir, os.Stderr
	c.cmd.Env = append(os.Environ(), curvesRole+"="+role)
	c.cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(c.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			c.lines <- s.Text()
		}
	}()
	return c, nil
}

func (c *child) end() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

// curvesTaken measures what taking in costs, and whether all is there.
func curvesTaken(ctx context.Context, r *report) error {
	dir, err := os.MkdirTemp("", "fermi-curves-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	server, err := curvesChild(ctx, dir, "server")
	if err != nil {
		return err
	}
	defer func() { server.end() }()
	if _, err := server.await("listening"); err != nil {
		return err
	}
	launchers, err := curvesChild(ctx, dir, "launchers")
	if err != nil {
		return err
	}
	defer launchers.end()
	if _, err := launchers.await("began"); err != nil {
		return err
	}
	seconds := curvesSeconds()
	before, at := cpuOf(server.cmd.Process.Pid), time.Now()
	if err := rest(ctx, time.Duration(seconds)*time.Second); err != nil {
		return err
	}
	span := time.Since(at)
	used := (cpuOf(server.cmd.Process.Pid) - before).Seconds() / span.Seconds()
	rss, err := rssMB(server.cmd.Process.Pid)
	if err != nil {
		return err
	}
	// kill -9 while batches are on their way, twice; points go on.
	for range 2 {
		server.end()
		if server, err = curvesChild(ctx, dir, "server"); err != nil {
			return err
		}
		if _, err := server.await("listening"); err != nil {
			return err
		}
		if err := rest(ctx, 15*time.Second); err != nil {
			return err
		}
	}
	if err := launchers.say("finish"); err != nil {
		return err
	}
	made, err := launchers.await("made")
	if err != nil {
		return err
	}
	server.end()
	wrong, found, err := curvesCount(ctx, dir, int64(made[0]))
	if err != nil {
		return err
	}
	fmt.Printf("%d ranks × %d series for %v: %.1f %% of a core, %.0f MB; %.0f points made, %d found, %.0f dropped\n", curvesRanks, curvesSeries, span.Round(time.Second), 100*used, rss, made[0]*curvesRanks*curvesSeries, found, made[1])
	r.atMost("cores for 1,000 ranks × 10 series × 1 point/s", used, 0.25)
	r.tell("seconds of that", span.Seconds())
	r.tell("server RSS MB", rss)
	r.atMost("points lost or doubled after kill -9", float64(wrong), 0)
	r.atMost("points dropped by launchers", made[1], 0)
	return nil
}

func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// cpuOf is what a process has used of the cores.
func cpuOf(pid int) time.Duration {
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(raw), ") ")
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(f[11], 10, 64)
	system, _ := strconv.ParseInt(f[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// curvesCount counts points that are missing, doubled or out of order; each series has steps 1 to each.
func curvesCount(ctx context.Context, dir string, each int64) (wrong, found int64, err error) {
	past, err := sqlstore.Open(ctx, sqlstore.Config{Path: filepath.Join(dir, "history.db")})
	if err != nil {
		return 0, 0, err
	}
	defer past.Close()
	list, _, err := past.Series(ctx, curvesTask)
	if err != nil {
		return 0, 0, err
	}
	wrong = (curvesRanks*curvesSeries - int64(len(list))) * each
	for _, s := range list {
		next := int64(1)
		if err := past.Points(ctx, curvesTask, s, history.Span{}, func(b history.Block) error {
			return history.EachPoint(b.Data, func(_, step int64, _ float64) {
				if found++; step != next {
					wrong++
				}
				next = step + 1
			})
		}); err != nil {
			return 0, 0, err
		}
		wrong += max(each+1-next, 0)
	}
	return wrong, found, nil
}

// curvesServer is the process that is measured: the hub, the desk and SQLite.
func curvesServer(ctx context.Context) error {
	log := slog.New(slog.DiscardHandler)
	blobs, err := folder.Open("blob")
	if err != nil {
		return err
	}
	past, err := sqlstore.Open(ctx, sqlstore.Config{Path: "history.db", Log: log, Clock: clock.Real})
	if err != nil {
		return err
	}
	book := logbook.New(logbook.Config{Blob: blobs, Log: log, Clock: clock.Real})
	hub := link.NewHub(link.HubConfig{
		Blob: blobs, Logs: book, Tokens: link.NewTokens([]byte(curvesKey)), Log: log, Clock: clock.Real,
		Fetched: link.Fetched{ArchiveOf: func(context.Context, string) (string, error) { return "", nil }},
	})
	hub.Lead(time.Now().Unix())
	_ = os.Remove("link.sock")
	l, err := net.Listen("unix", "link.sock")
	if err != nil {
		return err
	}
	path, err := filepath.Abs("link.sock")
	if err != nil {
		return err
	}
	if err := os.WriteFile("endpoints", []byte("unix://"+path+"\n"), 0o600); err != nil {
		return err
	}
	fmt.Println("listening")
	var g run.Group
	g.Add("logbook", book.Run)
	g.Add("link", func(ctx context.Context) error { return hub.Serve(ctx, l, curve.NewDesk(past, nil, log).Register) })
	return errors.Join(g.Run(ctx), past.Close(), blobs.Close())
}

// curvesLaunchers are all launchers in one process; it says how many points of each series it made, and how many were dropped.
func curvesLaunchers(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	log, tokens := slog.New(slog.DiscardHandler), link.NewTokens([]byte(curvesKey))
	sources := make([]*curve.Source, curvesRanks)
	for i := range sources {
		name := engine.NameOf(curvesTask, "worker", i, 1)
		sources[i] = curve.NewSource(clock.Real, log)
		c, err := link.NewClient(link.ClientConfig{
			Name: name, Token: tokens.Mint(name), Endpoints: "endpoints", State: engine.StateRunning, Spool: noSpool{}, Orders: &idleLauncher{},
			Log: log, Clock: clock.Real, Beside: sources[i].Ship,
		})
		if err != nil {
			return err
		}
		wg.Go(func() { _ = c.Run(ctx) })
	}
	finish := make(chan struct{})
	go func() {
		bufio.NewScanner(os.Stdin).Scan()
		close(finish)
	}()
	fmt.Println("began")
	names := make([]string, curvesSeries)
	for i := range names {
		names[i] = fmt.Sprintf("metric_%d", i)
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	step := int64(0)
	for done := false; !done; {
		select {
		case <-finish:
			done = true
		case now := <-tick.C:
			step++
			for rank, s := range sources {
				for k, name := range names {
					s.Add(1, rank, name, now, step, math.Sin(float64(step)/50+float64(rank))/float64(k+1)+float64(rank%7))
				}
			}
		}
	}
	dropped := int64(0)
	for _, s := range sources {
		s.Finish()
	}
	for _, s := range sources {
		<-s.Drained()
		dropped += s.Dropped()
	}
	fmt.Println("made", step, dropped)
	return nil
}

// curvesOpened asks the shipped binary for a series of a million points, as the console does.
func curvesOpened(ctx context.Context, r *report) error {
	c, cl, err := stand(ctx)
	if err != nil {
		return err
	}
	defer c.Cleanup()
	task := &api.TrainingTask{Meta: api.Meta{Name: "long"}, Spec: api.TrainingTaskSpec{Roles: []api.Role{{Command: []string{"true"}}}}}
	if _, err := cl.Submit(ctx, task, false); err != nil {
		return err
	}
	var id string
	for begun := time.Now(); ; {
		o, err := cl.Get(ctx, api.KindTrainingTask, "", "long")
		if err != nil {
			return err
		}
		if id = o.GetMeta().ID; o.(*api.TrainingTask).Status.Phase.Finished() {
			break
		}
		if time.Since(begun) > time.Minute {
			return errors.New("the task does not end")
		}
		if err := rest(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	if err := c.Stop(); err != nil {
		return err
	}
	if err := fillCurve(ctx, filepath.Join(c.Dir, "history.db"), id); err != nil {
		return err
	}
	// Sums of what lies at rest are of what the server left, and we put something there ourselves.
	if err := os.Remove(filepath.Join(c.Dir, "rest.sums")); err != nil {
		return err
	}
	if err := c.Start(ctx); err != nil {
		return err
	}
	if cl, err = c.Client(); err != nil {
		return err
	}
	var times sample
	for range 21 {
		begin := time.Now()
		raw, err := cl.Raw(ctx, "/training-tasks/long/metrics/points", url.Values{"name": {"loss"}})
		if err != nil {
			return err
		}
		if !strings.Contains(string(raw), fmt.Sprintf(`"total":%d`, curvesLong)) {
			return errors.New("the series is not whole")
		}
		times = append(times, time.Since(begin))
	}
	fmt.Printf("a series of %d points: %v\n", curvesLong, times)
	r.atMost("a series of 1,000,000 points opens, p90 ms", float64(times.quantile(.9).Microseconds())/1000, 200)
	r.tell("the first time, ms", float64(times[0].Microseconds())/1000)
	return nil
}

func fillCurve(ctx context.Context, path, taskID string) error {
	past, err := sqlstore.Open(ctx, sqlstore.Config{Path: path})
	if err != nil {
		return err
	}
	begun := time.Now().Add(-curvesLong * time.Second)
	replica := string(engine.NameOf(taskID, "worker", 0, 1))
	for seq, step := int64(1), int64(0); step < curvesLong; seq++ {
		var list []history.Point
		for range min(1000, curvesLong-step) {
			step++
			list = append(list, history.Point{Time: begun.Add(time.Duration(step) * time.Second), Step: step, Value: math.Exp(-float64(step)/3e5) + 0.1*math.Sin(float64(step))})
		}
		if err := past.AddPoints(ctx, history.Batch{TaskID: taskID, Replica: replica, Seq: seq, Lines: []history.Line{{Name: "loss", Generation: 1, Points: list}}}); err != nil {
			return errors.Join(err, past.Close())
		}
	}
	return past.Close()
}
