package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/test/harness"
)

//go:embed recovery/train.py
var recoveryScript []byte

const (
	recoveryRanks    = 4
	recoverySeed     = 1
	recoveryPatience = 3 * time.Minute
	debianPython     = "/usr/bin/python3"
)

// contender is one way to run the script.
type contender struct {
	name       string
	dir        string
	size       int              // ranks
	env        []string         // of torchrun
	pid        int              // of torchrun; 0: it is a task
	checkpoint *api.Checkpoints // of the task; nil: as usual
	look       time.Duration    // until waits so long between two looks, which cost the machine something
	// find is the process of a rank whose own pid is this, started then, as seen from here.
	find func(pid int, ticks uint64) (int, error)
	get  func(ctx context.Context) (*api.TrainingTask, error) // nil of torchrun
	// times are when the failure was seen and when the restart was decided; zero: unknown.
	times func(ctx context.Context) (seen, decided time.Time)
	read  map[int]*diary // of its ranks
	total sample
	parts map[string]sample
}

// phases in their order.
var phases = []string{"detect", "decide", "start", "meet", "restore", "step"}

// benchRecovery: SIGKILL of one of four ranks → the next optimizer step, under Fermi and under torchrun; then SIGSTOP.
func benchRecovery(ctx context.Context, r *report) error {
	trials := harness.EnvInt("FERMI_TRIALS", 20)
	root, err := harness.MakeShared()
	if err != nil {
		return err
	}
	defer os.RemoveAll(root) // last, when nobody writes there any more
	c, cl, err := demo(ctx)
	if err != nil {
		return err
	}
	defer c.Cleanup()
	all, stop, err := contenders(ctx, c, cl, root)
	defer stop()
	defer func() {
		for _, x := range all {
			x.close()
		}
	}()
	if err != nil {
		return err
	}
	rnd := rand.New(rand.NewPCG(recoverySeed, 1))
	for trial := range trials {
		rank := 1 + rnd.IntN(recoveryRanks-1)
		if trial%4 == 0 {
			rank = 0
		}
		turn := slices.Clone(all)
		if trial%2 == 1 {
			slices.Reverse(turn) // nobody always comes after the same one
		}
		for _, x := range turn {
			if err := x.trial(ctx, rank, time.Duration(rnd.IntN(300))*time.Millisecond); err != nil {
				return fmt.Errorf("%s: %w", x.name, err)
			}
		}
	}
	judgeRecovery(r, all)
	if err := stops(ctx, r, all[0], rnd); err != nil {
		return err
	}
	anon, err := launcherMB(c.Dir)
	if err != nil {
		return err
	}
	r.atMost("launcher's anonymous memory [MB]", anon, 20)
	return nil
}

// launchersOf are the processes of a server's launchers; there must be one.
func launchersOf(data string) (all []record.Process, err error) {
	files, err := filepath.Glob(filepath.Join(data, "engine", "replicas", "*", record.FileLauncher))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no launcher runs: %w", err)
	}
	for _, file := range files {
		var p record.Process
		if ok, err := record.Read(filepath.Dir(file), record.FileLauncher, &p); err != nil || !ok {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, p)
	}
	return all, nil
}

// launcherMB is the anonymous memory of the largest launcher.
func launcherMB(data string) (most float64, err error) {
	launchers, err := launchersOf(data)
	for _, p := range launchers {
		mb, serr := statusMB(p.PID, "RssAnon")
		err = errors.Join(err, serr)
		most = max(most, mb)
	}
	return most, err
}

func judgeRecovery(r *report, all []*contender) {
	r.Seeds = []int{recoverySeed}
	by := map[string]*contender{}
	for _, x := range all {
		by[x.name] = x
		fmt.Printf("%-22s %v\n", x.name, x.total)
		for _, phase := range phases {
			if s := x.parts[phase]; len(s) > 0 {
				fmt.Printf("  %-8s p50 %4.0f ms, p95 %4.0f ms\n", phase, ms(s.quantile(.5)), ms(s.quantile(.95)))
			}
		}
	}
	warm, other := by["standby"].total, by["torchrun"].total.quantile(.5).Seconds()
	r.atMost("SIGKILL → next step, median [s]", warm.quantile(.5).Seconds(), 0.5).Among(warm.seconds())
	r.atMost("SIGKILL → next step, p95 [s]", warm.quantile(.95).Seconds(), 1).Among(warm.seconds())
	r.atMost("median, as a part of torchrun's", warm.quantile(.5).Seconds()/other, 1./8)
	r.atMost("partial restart, SIGKILL → next step, median [s]", by["partial"].total.quantile(.5).Seconds(), 0.5).Among(by["partial"].total.seconds())
	r.atMost("unmodified, no standby, as a part of torchrun's", by["unmodified"].total.quantile(.5).Seconds()/other, 1)
}

// contenders starts all; each waits until it is its turn.
func contenders(ctx context.Context, c *harness.Cluster, cl *client.Client, root string) (all []*contender, stop func(), err error) {
	stop = func() {}
	for _, task := range []struct {
		name    string
		standby *api.Standby
		env     []api.EnvVar
	}{
		{"standby", &api.Standby{Preload: []string{"torch"}}, []api.EnvVar{{Name: "SDK", Value: "1"}}},
		{"partial", &api.Standby{Preload: []string{"torch"}}, []api.EnvVar{{Name: "SDK", Value: "1"}, {Name: "PARTIAL", Value: "1"}}},
		{"unmodified", &api.Standby{Disabled: true}, nil},
	} {
		x, err := newContender(task.name, root, recoveryScript)
		if err != nil {
			return nil, stop, err
		}
		if err := x.submit(ctx, c, cl, task.standby, task.env); err != nil {
			return nil, stop, err
		}
		all = append(all, x)
	}
	x, err := newContender("torchrun", root, recoveryScript)
	if err != nil {
		return nil, stop, err
	}
	stop, err = x.torchrun(ctx)
	if err != nil {
		return nil, stop, err
	}
	return slices.Insert(all, 1, x), stop, nil
}

func newContender(name, root string, script []byte) (*contender, error) {
	x := &contender{name: name, size: recoveryRanks, dir: filepath.Join(root, name), look: 2 * time.Millisecond, read: map[int]*diary{}, parts: map[string]sample{}}
	err := os.MkdirAll(x.dir, 0o777)
	for _, dir := range []string{root, x.dir} {
		err = errors.Join(err, os.Chmod(dir, 0o777)) // the tasks are the project's, not ours
	}
	return x, errors.Join(err, os.WriteFile(filepath.Join(x.dir, "train.py"), script, 0o644), x.pause(true))
}

func (x *contender) pause(on bool) error {
	file := filepath.Join(x.dir, "pause")
	if on {
		return os.WriteFile(file, nil, 0o644)
	}
	return os.Remove(file)
}

// submit runs it as a task.
func (x *contender) submit(ctx context.Context, c *harness.Cluster, cl *client.Client, standby *api.Standby, env []api.EnvVar) error {
	task := &api.TrainingTask{Meta: api.Meta{Name: x.name}, Spec: api.TrainingTaskSpec{
		Restart: &api.RestartPolicy{MaxRestarts: 1000}, Code: &api.Code{Folder: x.dir}, Checkpoint: x.checkpoint,
		Roles: []api.Role{{
			Name: "worker", Ranks: x.size, Resources: api.Resources{CPU: 1000, Memory: 4 << 30}, Standby: standby,
			Command: []string{debianPython, "train.py"}, Env: append(env, api.EnvVar{Name: "OMP_NUM_THREADS", Value: "1"}),
		}},
	}}
	if _, err := cl.Submit(ctx, task, false); err != nil {
		return err
	}
	x.get = func(ctx context.Context) (*api.TrainingTask, error) {
		o, err := cl.Get(ctx, api.KindTrainingTask, "default", x.name)
		if err != nil {
			return nil, err
		}
		return o.(*api.TrainingTask), nil
	}
	got, err := x.get(ctx)
	if err != nil {
		return err
	}
	mark := "FERMI_TASK_ID=" + got.Meta.ID
	x.find = func(pid int, ticks uint64) (int, error) { return harness.ProcessStarted(mark, pid, ticks) }
	x.times = func(ctx context.Context) (seen, decided time.Time) {
		if t, err := x.get(ctx); err == nil && t.Status.Failure != nil && len(t.Status.Restarts) > 0 {
			return t.Status.Failure.At, t.Status.Restarts[len(t.Status.Restarts)-1]
		}
		return seen, decided
	}
	if standby.Disabled {
		return nil
	}
	return x.until(ctx, "its standby", func() bool {
		logs, _ := filepath.Glob(filepath.Join(c.Dir, "engine", "replicas", got.Meta.ID+"-*", "launcher.log"))
		for _, file := range logs {
			if text, _ := os.ReadFile(file); strings.Contains(string(text), "standby ready") {
				return true
			}
		}
		return false
	})
}

// torchrun runs it as a user would by hand. Without -r and -t Debian's fails on its own Python.
func (x *contender) torchrun(ctx context.Context) (stop func(), err error) {
	cmd := exec.CommandContext(ctx, debianPython, "-m", "torch.distributed.run", "-r", "9:1", "-t", "9:1", "--standalone",
		"--nproc_per_node", strconv.Itoa(x.size), "--max_restarts", "1000", "--monitor_interval", "0.1", "train.py")
	cmd.Dir = x.dir
	cmd.Env = append(append(os.Environ(), "OMP_NUM_THREADS=1"), x.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	log, err := os.Create(filepath.Join(x.dir, "log"))
	if err != nil {
		return func() {}, err
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return func() {}, err
	}
	x.pid = cmd.Process.Pid
	x.find = func(pid int, _ uint64) (int, error) { return pid, nil }
	x.times = func(context.Context) (seen, decided time.Time) { return seen, decided }
	return func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it ends its ranks
		_ = cmd.Wait()
		log.Close()
	}, nil
}

// event is a line of a rank.
type event struct {
	what       string
	at         time.Time
	generation int
	number     int
}

// diary is what was read of a rank's lines: each look takes only the new ones, or it would cost the ranks it looks at
// more with every trial.
type diary struct {
	file *os.File
	rest string // of a line that is not whole yet
	list []event
}

func (x *contender) events(rank int) []event {
	d := x.read[rank]
	if d == nil {
		file, err := os.Open(filepath.Join(x.dir, "events."+strconv.Itoa(rank)))
		if err != nil {
			return nil // not begun
		}
		d = &diary{file: file}
		x.read[rank] = d
	}
	data, _ := io.ReadAll(d.file)
	text := d.rest + string(data)
	end := strings.LastIndexByte(text, '\n') + 1
	d.rest = text[end:]
	for line := range strings.Lines(text[:end]) {
		var e event
		var at float64
		if n, _ := fmt.Sscanf(line, "%s %f %d %d\n", &e.what, &at, &e.generation, &e.number); n == 4 {
			e.at = time.UnixMicro(int64(at * 1e6))
			d.list = append(d.list, e)
		}
	}
	return d.list
}

func (x *contender) close() {
	for _, d := range x.read {
		_ = d.file.Close()
	}
}

// newest is the number of a rank's last line of that kind.
func (x *contender) newest(rank int, what string) (number int) {
	for _, e := range x.events(rank) {
		if e.what == what {
			number = e.number
		}
	}
	return number
}

func (x *contender) until(ctx context.Context, what string, ok func() bool) error {
	for deadline := time.Now().Add(recoveryPatience); !ok(); {
		if time.Now().After(deadline) {
			log, _ := os.ReadFile(filepath.Join(x.dir, "log"))
			return fmt.Errorf("never: %s\n%s", what, log)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(x.look):
		}
	}
	return nil
}

// steps are rank 0's in a generation.
func (x *contender) steps(generation int) (list []event) {
	all := x.events(0)
	for i := len(all) - 1; i >= 0 && all[i].generation >= generation; i-- {
		if all[i].what == "step" && all[i].generation == generation {
			list = append(list, all[i])
		}
	}
	slices.Reverse(list)
	return list
}

// trial kills a rank and waits for the next step of all.
func (x *contender) trial(ctx context.Context, rank int, moment time.Duration) error {
	killed, stepped, err := x.strike(ctx, rank, moment, syscall.SIGKILL)
	if err != nil {
		return err
	}
	x.note(ctx, killed, stepped.generation, stepped.at)
	return nil
}

// strike sends a rank a signal after some steps and a moment more. It gives when, and the first step of the next generation.
func (x *contender) strike(ctx context.Context, rank int, moment time.Duration, signal syscall.Signal) (then time.Time, stepped event, err error) {
	if err := x.pause(false); err != nil {
		return then, stepped, err
	}
	var last event
	if err := x.until(ctx, "three steps", func() bool {
		if all := x.events(0); len(all) > 0 {
			last = all[len(all)-1]
		}
		return len(x.steps(last.generation)) >= 3
	}); err != nil {
		return then, stepped, err
	}
	time.Sleep(moment)
	pid, err := x.find(x.newest(rank, "begun"), uint64(x.newest(rank, "ticks")))
	if err != nil {
		return then, stepped, err
	}
	then = time.Now()
	if err := syscall.Kill(pid, signal); err != nil {
		return then, stepped, err
	}
	if err := x.until(ctx, "the next step", func() bool { return len(x.steps(last.generation+1)) > 0 }); err != nil {
		return then, stepped, err
	}
	return then, x.steps(last.generation + 1)[0], x.pause(true)
}

// note adds what a recovery took, in all and by phase: a phase ends when the last rank is through.
func (x *contender) note(ctx context.Context, killed time.Time, generation int, stepped time.Time) {
	x.total = append(x.total, stepped.Sub(killed))
	ends := map[string]time.Time{"step": stepped}
	ends["detect"], ends["decide"] = x.times(ctx)
	for rank := range x.size {
		for _, e := range x.events(rank) {
			name := map[string]string{"begun": "start", "met": "meet", "restored": "restore"}[e.what]
			if name != "" && e.generation == generation && e.at.After(ends[name]) {
				ends[name] = e.at
			}
		}
	}
	from := killed
	for _, phase := range phases {
		if at := ends[phase]; !at.IsZero() {
			x.parts[phase] = append(x.parts[phase], at.Sub(from))
			from = at
		}
	}
}
