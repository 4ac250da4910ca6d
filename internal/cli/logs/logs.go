package logs

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
	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/show"
	"github.com/fermi-cluster/fermi/internal/cli/speech"
	"github.com/fermi-cluster/fermi/internal/cli/usage"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func Command(a *call.Shell) *cobra.Command {
	cmd := logsOf(api.KindTrainingTask, a.Online)
	cmd.Use, cmd.Short, cmd.Example = "logs TASK", speech.Both("Show what a task wrote", "查看任务日志"), "  fermi logs gpt-7x2k9 -f --tail 100"
	cmd.Args = usage.Need(1, 1, "TASK")
	return cmd
}

// Of is the command that shows what work of a kind wrote, for kinds whose commands live outside this package.
func Of(kind api.Kind, short, example string) *cobra.Command {
	cmd := logsOf(kind, func(do call.Action) func(*cobra.Command, []string) error {
		return func(cmd *cobra.Command, args []string) error {
			a := &call.Shell{Clock: clock.Real, Flags: *call.Outside(cmd).Flags}
			a.Flags.Output = "table"
			return a.Online(do)(cmd, args)
		}
	})
	cmd.Use, cmd.Short, cmd.Example, cmd.Args = "logs NAME", short, example, usage.Need(1, 1, "NAME")
	return cmd
}

func logsOf(kind api.Kind, online func(call.Action) func(*cobra.Command, []string) error) *cobra.Command {
	var o client.LogOptions
	var sinceText string
	var timestamps, raw bool
	cmd := &cobra.Command{}
	f := cmd.Flags()
	f.BoolVarP(&o.Follow, "follow", "f", false, speech.Both("go on until it ends", "持续输出直到结束"))
	f.IntVar(&o.Tail, "tail", 0, speech.Both("only the last lines; 0 is all", "只显示最后若干行；0 表示全部"))
	f.StringVar(&sinceText, "since", "", speech.Both("only what is newer: 10m, or 2006-01-02T15:04:05Z", "只显示较新的：10m 或 2006-01-02T15:04:05Z"))
	f.StringVar(&o.Replica, "replica", "", speech.Both("only this replica, such as worker-0", "只显示该副本，如 worker-0"))
	f.BoolVar(&timestamps, "timestamps", false, speech.Both("show the time of each line", "显示每行的时间"))
	f.BoolVar(&raw, "raw", false, speech.Both("every byte as it was written; without it a terminal's control sequences are shown, not obeyed", "原样输出写入的字节；否则终端控制序列只显示、不生效"))
	cmd.RunE = online(func(ctx context.Context, s *call.Session, args []string) error {
		if o.Tail < 0 {
			return usage.Wrong(cmd, fault.T("--tail is a number of lines.", "--tail 应为行数。"))
		}
		var err error
		if o.Since, err = usage.Moment(sinceText, s.Clock.Now()); err != nil {
			return usage.Wrong(cmd, fault.From(err).Message)
		}
		obj, err := s.Client.Get(ctx, kind, s.Project(kind), Bare(args[0]))
		if err != nil {
			return err
		}
		p := NewLogPrinter(s.Out, ReplicasOf(obj) > 1 && o.Replica == "", timestamps)
		p.raw = raw
		o.Lost = Lost(s)
		meta := obj.GetMeta()
		err = client.LogsOf(ctx, s.Client, kind, meta.Project, meta.Name, o, p.Line)
		return errors.Join(err, p.Flush())
	})
	return cmd
}

// Lost says once per break that the stream is being opened again.
func Lost(s *call.Session) func(error) {
	var last time.Time
	return func(error) {
		if now := s.Clock.Now(); now.Sub(last) > 30*time.Second {
			last = now
			s.Say("The connection to the server broke; trying again…", "与服务器的连接中断，正在重试…")
		}
	}
}

// ReplicasOf is how many write the log of some work.
func ReplicasOf(o api.Object) (n int) {
	w, _ := api.WorkloadOf(o)
	for _, r := range w.Roles {
		n += max(r.Replicas, 1)
	}
	return n
}

// LogPrinter puts lines on stdout; where several replicas write, each line says whose it is. What has no end yet, such as a
// progress bar, is drawn below the others on a terminal, and drawn over when it goes on. Anywhere else a line is written
// when it has ended, as it was then.
type LogPrinter struct {
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

func NewLogPrinter(w io.Writer, prefix, timestamps bool) *LogPrinter {
	p := &LogPrinter{w: bufio.NewWriterSize(w, 64<<10), prefix: prefix, timestamps: timestamps, colour: show.ScreenOf(w).Colour, open: map[string]string{}}
	if show.IsTerminal(w) {
		p.screen = max(20, show.ScreenOf(w).Width)
	}
	return p
}

func (p *LogPrinter) Line(l client.LogLine) error {
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
func (p *LogPrinter) whole(text string) {
	switch {
	case p.raw:
		p.w.WriteString(text)
	case p.colour:
		shown, open := show.Tinted(strings.TrimSuffix(text, "\r")) // of a line end as on Windows
		p.w.WriteString(shown)
		if open {
			p.w.WriteString(show.ColourOff)
		}
	default:
		p.w.WriteString(show.Visible(strings.TrimSuffix(text, "\r")))
	}
	p.w.WriteByte('\n')
}

// head is what stands before a line.
func (p *LogPrinter) head(l client.LogLine) (head string) {
	if p.timestamps {
		head = l.Time.UTC().Format("2006-01-02T15:04:05.000Z") + " "
	}
	if p.prefix {
		head += "[" + show.Clean(l.Replica) + "] "
	}
	return head
}

// draw shows a line without an end on the terminal, cut so that one row holds it.
func (p *LogPrinter) draw(from string) {
	if p.screen > 0 {
		p.w.WriteString(show.Cut(show.Clean(p.open[from]), p.screen-1))
		p.drawn = from
	}
}

// erase takes it away.
func (p *LogPrinter) erase() {
	if p.drawn != "" {
		p.w.WriteString("\r\x1b[K")
		p.drawn = ""
	}
}

// Flush writes the lines that never ended.
func (p *LogPrinter) Flush() error {
	p.erase()
	for _, from := range slices.Sorted(maps.Keys(p.open)) {
		p.whole(p.open[from])
	}
	clear(p.open)
	return p.w.Flush()
}

// Bare is the name of a task, also where it is written as -o name does.
func Bare(name string) string {
	_, one, ok := strings.Cut(name, "/")
	if ok {
		return one
	}
	return name
}
