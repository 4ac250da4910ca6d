package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func (a *app) logsCommand() *cobra.Command {
	cmd := logsOf(api.KindTrainingTask, a.online)
	cmd.Use, cmd.Short, cmd.Example = "logs TASK", Both("Show what a task wrote", "查看任务日志"), "  fermi logs gpt-7x2k9 -f --tail 100"
	cmd.Args = needArgs(1, 1, "TASK")
	return cmd
}

// Logs is the command that shows what work of a kind wrote, for kinds whose commands live outside this package.
func Logs(kind api.Kind, short, example string) *cobra.Command {
	cmd := logsOf(kind, func(do action) func(*cobra.Command, []string) error {
		return func(cmd *cobra.Command, args []string) error {
			a := &app{clock: clock.Real, flags: *outside(cmd).flags}
			a.flags.output = "table"
			return a.online(do)(cmd, args)
		}
	})
	cmd.Use, cmd.Short, cmd.Example, cmd.Args = "logs NAME", short, example, needArgs(1, 1, "NAME")
	return cmd
}

func logsOf(kind api.Kind, online func(action) func(*cobra.Command, []string) error) *cobra.Command {
	var o client.LogOptions
	var sinceText string
	var timestamps, raw bool
	cmd := &cobra.Command{}
	f := cmd.Flags()
	f.BoolVarP(&o.Follow, "follow", "f", false, Both("go on until it ends", "持续输出直到结束"))
	f.IntVar(&o.Tail, "tail", 0, Both("only the last lines; 0 is all", "只显示最后若干行；0 表示全部"))
	f.StringVar(&sinceText, "since", "", Both("only what is newer: 10m, or 2006-01-02T15:04:05Z", "只显示较新的：10m 或 2006-01-02T15:04:05Z"))
	f.StringVar(&o.Replica, "replica", "", Both("only this replica, such as worker-0", "只显示该副本，如 worker-0"))
	f.BoolVar(&timestamps, "timestamps", false, Both("show the time of each line", "显示每行的时间"))
	f.BoolVar(&raw, "raw", false, Both("every byte as it was written; without it a terminal's control sequences are shown, not obeyed", "原样输出写入的字节；否则终端控制序列只显示、不生效"))
	cmd.RunE = online(func(ctx context.Context, s *session, args []string) error {
		if o.Tail < 0 {
			return usage(cmd, fault.T("--tail is a number of lines.", "--tail 应为行数。"))
		}
		var err error
		if o.Since, err = parseSince(sinceText, s.clock.Now()); err != nil {
			return usage(cmd, fault.From(err).Message)
		}
		obj, err := s.client.Get(ctx, kind, s.project(kind), bare(args[0]))
		if err != nil {
			return err
		}
		p := newLogPrinter(s.out, replicasOf(obj) > 1 && o.Replica == "", timestamps)
		p.raw = raw
		o.Lost = s.lost()
		meta := obj.GetMeta()
		err = client.LogsOf(ctx, s.client, kind, meta.Project, meta.Name, o, p.line)
		return errors.Join(err, p.flush())
	})
	return cmd
}

// lost says once per break that the stream is being opened again.
func (s *session) lost() func(error) {
	var last time.Time
	return func(error) {
		if now := s.clock.Now(); now.Sub(last) > 30*time.Second {
			last = now
			s.say("The connection to the server broke; trying again…", "与服务器的连接中断，正在重试…")
		}
	}
}

// parseSince takes a duration back from now, or a time.
func parseSince(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t, nil
	}
	return time.Time{}, fault.New(fault.Invalid, "BadTime", fault.T(
		"%q is neither a span such as 10m nor a time such as 2006-01-02T15:04:05Z.",
		"%q 既不是 10m 这样的时长，也不是 2006-01-02T15:04:05Z 这样的时间。", text))
}

// replicasOf is how many write the log of some work.
func replicasOf(o api.Object) (n int) {
	w, _ := api.WorkloadOf(o)
	for _, r := range w.Roles {
		n += max(r.Replicas, 1)
	}
	return n
}

// logPrinter puts lines on stdout; where several replicas write, each line says whose it is. What has no end yet, such as a
// progress bar, is drawn below the others on a terminal, and drawn over when it goes on. Anywhere else a line is written
// when it has ended, as it was then.
type logPrinter struct {
	w          *bufio.Writer
	prefix     bool
	timestamps bool
	raw        bool              // bytes as they are
	colour     bool              // colours pass, and nothing else; see visible
	screen     int               // columns; 0: no terminal
	open       map[string]string // lines without an end so far, by who writes them
	drawn      string            // whose of them stands on the terminal
}

// maxOpenLine bounds a line that is waited for.
const maxOpenLine = 256 << 10

func newLogPrinter(w io.Writer, prefix, timestamps bool) *logPrinter {
	p := &logPrinter{w: bufio.NewWriterSize(w, 64<<10), prefix: prefix, timestamps: timestamps, colour: screenOf(w).colour, open: map[string]string{}}
	if isTerminal(w) {
		p.screen = max(20, screenOf(w).width)
	}
	return p
}

func (p *logPrinter) line(l client.LogLine) error {
	from := fmt.Sprintf("%s %d %s", l.Replica, l.Rank, l.Stream)
	text, known := p.open[from]
	switch {
	case l.Replace || !known:
		text = p.head(l) + l.Text
	default:
		text += l.Text
	}
	p.erase()
	if l.Partial && len(text) <= maxOpenLine {
		p.open[from] = text
		p.draw(from)
		return p.w.Flush()
	}
	delete(p.open, from)
	p.whole(text)
	for other := range p.open { // one of them is enough
		p.draw(other)
		break
	}
	return p.w.Flush()
}

// whole writes a line that has ended.
func (p *logPrinter) whole(text string) {
	switch {
	case p.raw:
		p.w.WriteString(text)
	case p.colour:
		shown, open := tinted(strings.TrimSuffix(text, "\r")) // of a line end as on Windows
		p.w.WriteString(shown)
		if open {
			p.w.WriteString(colourOff)
		}
	default:
		p.w.WriteString(visible(strings.TrimSuffix(text, "\r")))
	}
	p.w.WriteByte('\n')
}

// head is what stands before a line.
func (p *logPrinter) head(l client.LogLine) (head string) {
	if p.timestamps {
		head = l.Time.UTC().Format("2006-01-02T15:04:05.000Z") + " "
	}
	if p.prefix {
		head += "[" + clean(l.Replica) + "] "
	}
	return head
}

// draw shows a line without an end on the terminal, cut so that one row holds it.
func (p *logPrinter) draw(from string) {
	if p.screen > 0 {
		p.w.WriteString(cut(clean(p.open[from]), p.screen-1))
		p.drawn = from
	}
}

// erase takes it away.
func (p *logPrinter) erase() {
	if p.drawn != "" {
		p.w.WriteString("\r\x1b[K")
		p.drawn = ""
	}
}

// flush writes the lines that never ended.
func (p *logPrinter) flush() error {
	p.erase()
	for _, from := range slices.Sorted(maps.Keys(p.open)) {
		p.whole(p.open[from])
	}
	clear(p.open)
	return p.w.Flush()
}
