package train

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/logs"
	"github.com/fermi-cluster/fermi/internal/cli/object"
	"github.com/fermi-cluster/fermi/internal/cli/show"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// choice is what to do about a Ctrl-C.
type choice int

const (
	goOn choice = iota
	stopTask
	detach
)

// answerOf reads what was typed at the prompt; ok is false when it has to be asked again.
func answerOf(line string) (choice, bool) {
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "s", "stop", "停止":
		return stopTask, true
	case "d", "detach", "脱离":
		return detach, true
	case "c", "continue", "", "继续":
		return goOn, true
	}
	return goOn, false
}

// follower shows a task until its end.
type follower struct {
	s       *call.Session
	task    *api.TrainingTask
	out     *logs.LogPrinter
	ask     bool // there is somebody to ask
	inPlace bool // the status line is rewritten
	signals <-chan os.Signal
	lines   <-chan string // what is typed; nil until the first question

	mu     sync.Mutex // held while anything is printed, and while a question waits
	status string     // the line now on the terminal
	logged bool       // the log has begun
}

// follow shows the task and ends as it did. It takes Ctrl-C over from the caller's ctx.
func follow(ctx context.Context, s *call.Session, task *api.TrainingTask) error {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	if ctx.Err() != nil { // Ctrl-C came while the task was being submitted
		signals <- os.Interrupt
	}
	f := &follower{
		s: s, task: task, signals: signals,
		out:     logs.NewLogPrinter(s.Out, logs.ReplicasOf(task) > 1, false),
		ask:     show.IsTerminal(s.In) && show.IsTerminal(s.Err),
		inPlace: show.IsTerminal(s.Err),
	}
	// The ctx of a command ends by the first Ctrl-C, but here that is a question.
	return f.run(context.WithoutCancel(ctx))
}

func (f *follower) run(ctx context.Context) error {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	ended := make(chan error, 1)
	wg.Go(func() { ended <- f.logs(inner) })
	wg.Go(func() { f.why(inner) })
	// settle ends both before the last words. Only somebody who doesn't read our output can hold
	// them up; then a further Ctrl-C, or some patience, is enough.
	settle := func() {
		cancel()
		done := make(chan struct{})
		go func() { defer close(done); wg.Wait() }()
		select {
		case <-done:
			f.say("")
		case <-f.signals:
		case <-time.After(5 * time.Second):
		}
	}
	for {
		select {
		case err := <-ended:
			settle()
			return f.close(ctx, err)
		case sig := <-f.signals:
			what := detach
			if f.ask && sig == os.Interrupt {
				what = f.question()
			}
			switch what {
			case detach:
				settle()
				f.s.Say("Detached; the task goes on.", "已脱离；任务继续运行。")
				howTo(f.s, f.task)
				return call.Exit{Code: 130}
			case stopTask:
				f.stop(inner)
			}
		}
	}
}

// stop asks the server to stop the task; its log is followed to the end all the same.
func (f *follower) stop(ctx context.Context) {
	err := f.s.Client.Stop(ctx, f.task.Meta.Project, f.task.Meta.Name)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.clear()
	if err != nil {
		call.Report(f.s.Err, err, f.s.Lang)
		return
	}
	f.s.Say("Stopping the task…", "正在停止任务……")
}

func (f *follower) logs(ctx context.Context) error {
	lost := logs.Lost(f.s)
	o := client.LogOptions{Follow: true, Lost: func(err error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.clear()
		lost(err)
	}}
	err := f.s.Client.Logs(ctx, f.task.Meta.Project, f.task.Meta.Name, o, func(l client.LogLine) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.logged = true
		f.clear()
		return f.out.Line(l)
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	return errors.Join(err, f.out.Flush())
}

// why keeps the status line up to date until the task runs.
func (f *follower) why(ctx context.Context) {
	wait := 500 * time.Millisecond // most tasks start before that, and then nothing is asked
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.s.Clock.After(wait):
		}
		wait = 2 * time.Second
		task, err := client.Get[*api.TrainingTask](ctx, f.s.Client, f.task.Meta.Project, f.task.Meta.Name)
		if err != nil {
			continue // the log says when the server is away
		}
		if task.Status.Phase.Finished() || task.Status.Phase == api.PhaseRunning {
			f.say("")
			return
		}
		line := object.PhaseCell(task, f.s.Lang).Text
		if e, err := f.s.Client.Why(ctx, task.Meta.Project, task.Meta.Name); err == nil {
			if m := call.First(e.Message.In(f.s.Lang), e.Reason); m != "" {
				line += ": " + m
			}
			if e.EstimatedStart != nil && e.EstimatedStart.After(f.s.Clock.Now()) {
				line += " · " + f.s.T("starts %s", "预计%s开始", show.Since(f.s.Clock.Now().Sub(*e.EstimatedStart)).In(f.s.Lang))
			}
		}
		if ctx.Err() != nil {
			return
		}
		f.say(show.Clean(line))
	}
}

// say shows the status line: in place on a terminal, otherwise as a line whenever it changes.
func (f *follower) say(line string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if line == f.status || (f.logged && line != "") {
		return
	}
	if f.inPlace {
		f.clear()
		if line != "" {
			io.WriteString(f.s.Err, "\r"+show.Cut(line, max(20, show.ScreenOf(f.s.Err).Width-1)))
		}
	} else if line != "" {
		show.Line(f.s.Err, line)
	}
	f.status = line
}

// clear wipes the status line; the caller holds mu.
func (f *follower) clear() {
	if f.inPlace && f.status != "" {
		io.WriteString(f.s.Err, "\r\x1b[K")
	}
	f.status = ""
}

// question asks on the terminal; the log waits meanwhile. A second Ctrl-C is "detach".
func (f *follower) question() choice {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.clear()
	if f.lines == nil {
		f.lines = readLines(f.s.In)
	}
	for {
		io.WriteString(f.s.Err, "\n"+f.s.T("Stop the task, or detach from it? [s]top/[d]etach/[c]ontinue: ",
			"停止任务还是脱离跟踪？[s] 停止 / [d] 脱离 / [c] 继续："))
		select {
		case <-f.signals:
			show.Line(f.s.Err, "")
			return detach
		case line, ok := <-f.lines:
			if !ok {
				return detach
			}
			if c, ok := answerOf(line); ok {
				return c
			}
		}
	}
}

// readLines hands over what is typed. Its goroutine waits in a read that nothing can end but the
// process itself; that is why it is started only when there is something to ask.
func readLines(r io.Reader) <-chan string {
	lines := make(chan string)
	go func() {
		defer close(lines)
		in := bufio.NewScanner(r)
		for in.Scan() {
			lines <- in.Text()
		}
	}()
	return lines
}

// close reads the final state, says it, and ends as the task did.
func (f *follower) close(ctx context.Context, logErr error) error {
	if logErr != nil && !fault.CodeOf(logErr).Retry() && !fault.Is(logErr, fault.NotFound) {
		return logErr
	}
	short, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	task, err := f.final(short)
	if err != nil {
		return err
	}
	s := f.s
	took, where := "", ""
	if d := object.Duration(task, s.Clock.Now()); d != "-" {
		took = s.T(" after %s", "，历时 %s", d)
	}
	if len(task.Status.Zones) > 0 {
		where = s.T(" in %s", "，位于 %s", strings.Join(task.Status.Zones, ", "))
	}
	s.Say("Task %s: %s%s%s.", "任务 %s：%s%s%s。", task.Meta.Name, object.PhaseCell(task, s.Lang).Text, took, where)
	if task.Status.Phase == api.PhaseFailed {
		// What decided comes first, in the program's own words where it has any.
		fl := task.Status.Failure
		message := task.Status.Message
		if message.IsZero() && fl != nil {
			message = fl.Message
		}
		s.Say("Why: %s", "原因：%s", show.Clean(call.First(message.In(s.Lang), task.Status.Reason)))
		if fl != nil {
			s.Say("  where: %s-%d on %s", "  位置：%s-%d，节点 %s", fl.Role, fl.Index, fl.Node)
			if !fl.Advice.IsZero() {
				s.Say("  what would help: %s", "  可采取的措施：%s", show.Clean(fl.Advice.In(s.Lang)))
			}
		}
	}
	if code := exitOf(task); code != 0 {
		return call.Exit{Code: code}
	}
	return f.left(ctx, task)
}

// final waits for the state that the end of the log announced.
func (f *follower) final(ctx context.Context) (*api.TrainingTask, error) {
	for {
		task, err := client.Get[*api.TrainingTask](ctx, f.s.Client, f.task.Meta.Project, call.First(f.task.Meta.ID, f.task.Meta.Name))
		if err != nil || task.Status.Phase.Finished() {
			return task, err
		}
		select {
		case <-ctx.Done():
			return nil, fault.From(ctx.Err())
		case <-f.s.Clock.After(200 * time.Millisecond):
		}
	}
}

// exitOf is the exit code of a finished task.
func exitOf(t *api.TrainingTask) int {
	switch code := t.Status.ExitCode; {
	case code != nil && *code >= 0 && *code <= 255 && !(*code == 0 && t.Status.Phase == api.PhaseFailed):
		return *code
	case t.Status.Phase == api.PhaseCompleted:
		return 0
	case t.Status.Phase == api.PhaseStopped:
		return 143
	}
	return 1
}
