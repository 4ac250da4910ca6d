package cli

import (
	"context"
	"encoding/json"
	"time"

	"github.com/spf13/cobra"

	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func (a *app) eventsCommand() *cobra.Command {
	var follow bool
	var limit int
	cmd := &cobra.Command{
		Use: "events [KIND/NAME]", Short: Both("Show what happened", "查看事件"),
		Args: needArgs(0, 2, "[KIND/NAME]"), Example: "  fermi events task/gpt-7x2k9 -f",
		ValidArgsFunction: completeKinds,
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, Both("go on until Ctrl-C", "持续输出直到 Ctrl-C"))
	cmd.Flags().IntVar(&limit, "limit", 100, Both("events a page", "每页事件数"))
	cmd.RunE = a.online(func(ctx context.Context, s *session, args []string) error {
		o := client.EventOptions{Limit: limit}
		if len(args) > 0 {
			info, names, err := kindAndNames(args)
			if err != nil {
				return err
			}
			if len(names) > 1 {
				return usage(cmd, fault.T("Name one object.", "只能指定一个对象。"))
			}
			o.Kind, o.Project = info.Kind, s.project(info.Kind)
			if len(names) == 1 {
				o.Name = names[0]
			}
		} else {
			o.Project = s.flags.project
		}
		if follow {
			return s.followEvents(ctx, o)
		}
		events, err := s.client.Events(ctx, o)
		if err != nil {
			return err
		}
		return s.events(events)
	})
	return cmd
}

var eventColumns = []column{fixed("TIME", "时间"), fixed("TYPE", "类型"), fixed("OBJECT", "对象"), fixed("REASON", "原因"), col("MESSAGE", "内容")}

func (s *session) events(events []client.Event) error {
	if s.structured() {
		if events == nil {
			events = []client.Event{}
		}
		return s.data(map[string]any{"items": events})
	}
	if len(events) == 0 {
		s.say("Nothing happened yet.", "暂无事件。")
		return nil
	}
	rows := make([][]cell, len(events))
	for i, e := range events {
		rows[i] = s.eventRow(e)
	}
	return writeTable(s.out, eventColumns, rows, s.lang, screenOf(s.out))
}

func (s *session) eventRow(e client.Event) []cell {
	typ := text(e.Type)
	if e.Type == "Warning" {
		typ.tone = busy
	}
	object := string(e.Kind)
	if info, err := kindOf(object); err == nil {
		object = info.Singular
	}
	return []cell{text(s.ago(e.Time)), typ, text(object + "/" + e.Name), text(e.Reason), text(e.Message.In(s.lang))}
}

// followEvents asks every second for what is new; each event is printed once, as one line.
func (s *session) followEvents(ctx context.Context, o client.EventOptions) error {
	for {
		events, err := s.client.Events(ctx, o)
		if err != nil && (ctx.Err() != nil || !fault.CodeOf(err).Retry()) {
			return err
		}
		for _, e := range events {
			o.After = max(o.After, e.Seq)
			if s.structured() {
				line, err := json.Marshal(e)
				if err != nil {
					return err
				}
				putLine(s.out, string(line))
				continue
			}
			row := s.eventRow(e)
			putLine(s.out, stamp(e.Time)+"  "+row[1].text+"  "+clean(row[2].text)+"  "+clean(e.Reason)+"  "+clean(row[4].text))
		}
		if len(events) > 0 && len(events) == o.Limit {
			continue // more is waiting
		}
		select {
		case <-ctx.Done():
			return fault.From(ctx.Err())
		case <-s.clock.After(time.Second):
		}
	}
}

func (a *app) whyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "why NAME", Short: Both("Say what a task, an environment or a service waits for, or why it ended as it did", "说明任务、环境或服务为何等待或为何如此结束"),
		Args: needArgs(1, 1, "NAME"), Example: "  fermi why gpt-7x2k9\n  fermi why env/lab",
		RunE: a.online(func(ctx context.Context, s *session, args []string) error {
			e, err := client.WhyOf(ctx, s.client, s.project("TrainingTask"), args[0])
			if err != nil {
				return err
			}
			if s.structured() {
				return s.data(e)
			}
			for _, line := range s.whyLines(e) {
				putLine(s.out, line)
			}
			return nil
		}),
	}
}

// whyLines is an explanation as people read it: the reason first, then evidence, start and action.
func (s *session) whyLines(e client.Explanation) []string {
	lines := []string{clean(first(e.Message.In(s.lang), e.Reason))}
	if e.Reason != "" && !e.Message.IsZero() {
		lines[0] += " [" + clean(e.Reason) + "]"
	}
	for _, ev := range e.Evidence {
		lines = append(lines, "  - "+clean(ev.In(s.lang)))
	}
	if e.EstimatedStart != nil && !e.EstimatedStart.IsZero() {
		lines = append(lines, "  "+s.t("estimated start: %s", "预计开始：%s", since(s.clock.Now().Sub(*e.EstimatedStart)).In(s.lang)))
	}
	if !e.Action.IsZero() {
		lines = append(lines, "  "+s.t("what would help: ", "可采取的措施：")+clean(e.Action.In(s.lang)))
	}
	return append(lines, s.moveHints(e.Moves)...)
}
