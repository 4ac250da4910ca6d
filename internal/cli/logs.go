package cli

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func (a *app) logsCommand() *cobra.Command {
	var o client.LogOptions
	var sinceText string
	var timestamps, raw bool
	cmd := &cobra.Command{
		Use: "logs TASK", Short: Both("Show what a task wrote", "查看任务日志"),
		Args: needArgs(1, 1, "TASK"), Example: "  fermi logs gpt-7x2k9 -f --tail 100",
	}
	f := cmd.Flags()
	f.BoolVarP(&o.Follow, "follow", "f", false, Both("go on until the task ends", "持续输出直到任务结束"))
	f.IntVar(&o.Tail, "tail", 0, Both("only the last lines; 0 is all", "只显示最后若干行；0 表示全部"))
	f.StringVar(&sinceText, "since", "", Both("only what is newer: 10m, or 2006-01-02T15:04:05Z", "只显示较新的：10m 或 2006-01-02T15:04:05Z"))
	f.StringVar(&o.Replica, "replica", "", Both("only this replica, such as worker-0", "只显示该副本，如 worker-0"))
	f.BoolVar(&timestamps, "timestamps", false, Both("show the time of each line", "显示每行的时间"))
	f.BoolVar(&raw, "raw", false, Both("every byte as the task wrote it; without it a terminal's control sequences are shown, not obeyed", "原样输出任务写入的字节；否则终端控制序列只显示、不生效"))
	cmd.RunE = a.online(func(ctx context.Context, s *session, args []string) error {
		if o.Tail < 0 {
			return usage(cmd, fault.T("--tail is a number of lines.", "--tail 应为行数。"))
		}
		var err error
		if o.Since, err = parseSince(sinceText, s.clock.Now()); err != nil {
			return usage(cmd, fault.From(err).Message)
		}
		task, err := client.Get[*api.TrainingTask](ctx, s.client, s.project(api.KindTrainingTask), args[0])
		if err != nil {
			return err
		}
		p := newLogPrinter(s.out, replicasOf(task) > 1 && o.Replica == "", timestamps)
		p.raw = raw
		o.Lost = s.lost()
		err = s.client.Logs(ctx, task.Meta.Project, task.Meta.Name, o, p.line)
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

func replicasOf(t *api.TrainingTask) int {
	n := 0
	for _, r := range t.Spec.Roles {
		n += max(r.Replicas, 1)
	}
	return n
}

// logPrinter puts lines on stdout. Parts of one long line are joined; where several replicas
// write, each line says whose it is.
type logPrinter struct {
	w          *bufio.Writer
	prefix     bool
	timestamps bool
	raw        bool   // bytes as they are
	colour     bool   // colours pass, and nothing else; see visible
	tinted     bool   // one is on
	open       string // replica and stream whose line isn't finished
}

func newLogPrinter(w io.Writer, prefix, timestamps bool) *logPrinter {
	return &logPrinter{w: bufio.NewWriterSize(w, 64<<10), prefix: prefix, timestamps: timestamps, colour: screenOf(w).colour}
}

func (p *logPrinter) line(l client.LogLine) error {
	from := l.Replica + "/" + l.Stream
	if p.open != "" && p.open != from {
		p.endLine()
	}
	if p.open == "" {
		if p.timestamps {
			p.w.WriteString(l.Time.UTC().Format("2006-01-02T15:04:05.000Z") + " ")
		}
		if p.prefix {
			p.w.WriteString("[" + clean(l.Replica) + "] ")
		}
	}
	if !l.Partial && !p.raw {
		l.Text = strings.TrimSuffix(l.Text, "\r") // of a line end as on Windows
	}
	p.w.WriteString(p.show(l.Text))
	p.open = from
	if !l.Partial {
		p.endLine()
	}
	return p.w.Flush()
}

// flush ends an unfinished line.
func (p *logPrinter) flush() error {
	if p.open != "" {
		p.endLine()
	}
	return p.w.Flush()
}

func (p *logPrinter) endLine() {
	if p.tinted {
		p.w.WriteString(colourOff)
	}
	p.w.WriteByte('\n')
	p.open, p.tinted = "", false
}

// show is a part of a line as it is printed.
func (p *logPrinter) show(text string) string {
	switch {
	case p.raw:
		return text
	case p.colour:
		shown, open := tinted(text)
		p.tinted = open || p.tinted && !strings.Contains(shown, "\x1b[")
		return shown
	}
	return visible(text)
}
