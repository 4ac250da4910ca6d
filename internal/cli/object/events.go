package object

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/show"
	"github.com/fermi-cluster/fermi/internal/cli/speech"
	"github.com/fermi-cluster/fermi/internal/cli/usage"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func EventsCommand(a *call.Shell) *cobra.Command {
	var follow bool
	var limit int
	cmd := &cobra.Command{
		Use: "events [KIND/NAME]", Short: speech.Both("Show what happened", "查看事件"),
		Args: usage.Need(0, 2, "[KIND/NAME]"), Example: "  fermi events task/gpt-7x2k9 -f",
		ValidArgsFunction: completeKinds,
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, speech.Both("go on until Ctrl-C", "持续输出直到 Ctrl-C"))
	cmd.Flags().IntVar(&limit, "limit", 100, speech.Both("events a page", "每页事件数"))
	cmd.RunE = a.Online(func(ctx context.Context, s *call.Session, args []string) error {
		o := client.EventOptions{Limit: limit}
		if len(args) > 0 {
			info, names, err := kindAndNames(args)
			if err != nil {
				return err
			}
			if len(names) > 1 {
				return usage.Wrong(cmd, fault.T("Name one object.", "只能指定一个对象。"))
			}
			o.Kind, o.Project = info.Kind, s.Project(info.Kind)
			if len(names) == 1 {
				o.Name = names[0]
			}
		} else {
			o.Project = s.Flags.Project
		}
		if follow {
			return followEvents(ctx, s, o)
		}
		events, err := s.Client.Events(ctx, o)
		if err != nil {
			return err
		}
		return showEvents(s, events)
	})
	return cmd
}

var eventColumns = []show.Column{show.Fixed("TIME", "时间"), show.Fixed("TYPE", "类型"), show.Fixed("OBJECT", "对象"), show.Fixed("REASON", "原因"), show.Col("MESSAGE", "内容")}

func showEvents(s *call.Session, events []client.Event) error {
	if s.Structured() {
		if events == nil {
			events = []client.Event{}
		}
		return s.Data(map[string]any{"items": events})
	}
	if len(events) == 0 {
		s.Say("Nothing happened yet.", "暂无事件。")
		return nil
	}
	rows := make([][]show.Cell, len(events))
	for i, e := range events {
		rows[i] = eventRow(s, e)
	}
	return show.Write(s.Out, eventColumns, rows, s.Lang, show.ScreenOf(s.Out))
}

func eventRow(s *call.Session, e client.Event) []show.Cell {
	typ := show.Text(e.Type)
	if e.Type == "Warning" {
		typ.Tone = show.Busy
	}
	object := string(e.Kind)
	if info, err := KindOf(object); err == nil {
		object = info.Singular
	}
	return []show.Cell{show.Text(s.Ago(e.Time)), typ, show.Text(object + "/" + e.Name), show.Text(e.Reason), show.Text(e.Message.In(s.Lang))}
}

// followEvents asks every second for what is new; each event is printed once, as one line.
func followEvents(ctx context.Context, s *call.Session, o client.EventOptions) error {
	for {
		events, err := s.Client.Events(ctx, o)
		if err != nil && (ctx.Err() != nil || !fault.CodeOf(err).Retry()) {
			return err
		}
		for _, e := range events {
			o.After = max(o.After, e.Seq)
			if s.Structured() {
				line, err := json.Marshal(e)
				if err != nil {
					return err
				}
				show.Line(s.Out, string(line))
				continue
			}
			row := eventRow(s, e)
			show.Line(s.Out, show.Stamp(e.Time)+"  "+row[1].Text+"  "+show.Clean(row[2].Text)+"  "+show.Clean(e.Reason)+"  "+show.Clean(row[4].Text))
		}
		if len(events) > 0 && len(events) == o.Limit {
			continue // more is waiting
		}
		select {
		case <-ctx.Done():
			return fault.From(ctx.Err())
		case <-s.Clock.After(time.Second):
		}
	}
}

func WhyCommand(a *call.Shell) *cobra.Command {
	return &cobra.Command{
		Use: "why NAME", Short: speech.Both("Say what a task, an environment or a service waits for, or why it ended as it did", "说明任务、环境或服务为何等待或为何如此结束"),
		Args: usage.Need(1, 1, "NAME"), Example: "  fermi why gpt-7x2k9\n  fermi why env/lab",
		RunE: a.Online(func(ctx context.Context, s *call.Session, args []string) error {
			e, err := client.WhyOf(ctx, s.Client, s.Project("TrainingTask"), args[0])
			if err != nil {
				return err
			}
			if s.Structured() {
				return s.Data(e)
			}
			for _, line := range whyLines(s, e) {
				show.Line(s.Out, line)
			}
			return nil
		}),
	}
}

// whyLines is an explanation as people read it: the reason first, then evidence, start and action.
func whyLines(s *call.Session, e client.Explanation) []string {
	lines := []string{show.Clean(call.First(e.Message.In(s.Lang), e.Reason))}
	if e.Reason != "" && !e.Message.IsZero() {
		lines[0] += " [" + show.Clean(e.Reason) + "]"
	}
	for _, ev := range e.Evidence {
		lines = append(lines, "  - "+show.Clean(ev.In(s.Lang)))
	}
	if e.EstimatedStart != nil && !e.EstimatedStart.IsZero() {
		lines = append(lines, "  "+s.T("estimated start: %s", "预计开始：%s", show.Since(s.Clock.Now().Sub(*e.EstimatedStart)).In(s.Lang)))
	}
	if !e.Action.IsZero() {
		lines = append(lines, "  "+s.T("what would help: ", "可采取的措施：")+show.Clean(e.Action.In(s.Lang)))
	}
	return append(lines, moveHints(s, e.Moves)...)
}

// DeviceTime is an amount of device time for people.
func DeviceTime(s *call.Session, seconds int64) string {
	switch x := float64(seconds); {
	case seconds >= 7200:
		return s.T("%.1f device-hours", "%.1f 卡时", x/3600)
	case seconds >= 120:
		return s.T("%.0f device-minutes", "%.0f 卡分", x/60)
	}
	return s.T("%d device-seconds", "%d 卡秒", seconds)
}

// moveHints are the moves that would let a waiting task start.
func moveHints(s *call.Session, moves []api.TaskMove) []string {
	var lines []string
	for i, m := range moves {
		who, how := m.Name, ""
		if who == "" {
			who = s.T("a task of another project", "其他项目的一个任务")
		} else {
			how = ": fermi train move " + m.Name + " --node " + strings.Join(m.To, ",")
			if m.Project != call.First(s.Project(api.KindTrainingTask), api.DefaultProject) {
				how += " --project " + m.Project
			}
		}
		text := s.T("moving %s (loses %s) would admit it", "迁移 %s（损失 %s）即可启动", who, DeviceTime(s, m.DeviceSeconds))
		if i < len(moves)-1 {
			text = s.T("moving %s (loses %s), and", "迁移 %s（损失 %s），并且", who, DeviceTime(s, m.DeviceSeconds))
		}
		lines = append(lines, "  "+show.Clean(text+how))
	}
	return lines
}
