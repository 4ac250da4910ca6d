package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/cli/recovery"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func (a *app) trainFaultCommand() *cobra.Command {
	var rank int
	var kind string
	cmd := &cobra.Command{
		Use: "fault NAME", Short: Both("Hurt a rank of a running task and watch it recover", "对运行中任务的某个 rank 注入故障并观察恢复"),
		Args: needArgs(1, 1, "NAME"), Example: "  fermi train fault gpt-7x2k9 --rank 3 --kind kill",
	}
	cmd.Flags().IntVar(&rank, "rank", 0, Both("which rank", "哪个 rank"))
	cmd.Flags().StringVar(&kind, "kind", "kill", Both("kill, stop, slow, oom, net or node", "kill、stop、slow、oom、net 或 node"))
	wait := cmd.Flags().Duration("wait", 2*time.Minute, Both("how long to watch the recovery", "观察恢复的最长时间"))
	cmd.RunE = a.online(func(ctx context.Context, s *session, args []string) error {
		project := s.project(api.KindTrainingTask)
		done, err := s.client.Fault(ctx, project, args[0], rank, kind)
		if err != nil {
			return err
		}
		if s.structured() {
			return s.data(done)
		}
		putLine(s.out, s.t("0.000s injected: %s of rank %d (%s on %s)", "0.000s 已注入：%s，rank %d（%s，节点 %s）", kind, rank, clean(done.Replica), clean(done.Node)))
		if kind == "slow" { // nothing fails of it
			return nil
		}
		ctx, cancel := context.WithTimeout(ctx, *wait)
		defer cancel()
		return s.watchRecovery(ctx, project, args[0], done.Generation, done.At)
	})
	return cmd
}

// watchRecovery prints each phase of a recovery when it is reached, in seconds since the fault.
func (s *session) watchRecovery(ctx context.Context, project, name string, before int, since time.Time) error {
	say := func(at time.Time, text string) {
		putLine(s.out, fmt.Sprintf("%.3fs %s", max(at.Sub(since), 0).Seconds(), clean(text)))
	}
	var found, opened bool
	for {
		o, err := s.client.Get(ctx, api.KindTrainingTask, project, name)
		if err != nil {
			return notRecovered(ctx, err)
		}
		st := o.(*api.TrainingTask).Status
		if f := st.Failure; f != nil && !found && f.Generation >= before && !f.At.Before(since.Add(-time.Second)) {
			found = true
			say(f.At, s.t("detected: ", "发现：")+f.Message.In(s.lang))
			say(f.At, s.t("cause %s, action %s", "原因 %s，处置 %s", f.Cause, f.Action))
		}
		if st.Generation > before && !opened && len(st.Restarts) > 0 {
			opened = true
			say(st.Restarts[len(st.Restarts)-1], s.t("generation %d opened", "第 %d 代已开启", st.Generation))
		}
		if last := st.Interruptions.Newest(); st.Phase.Finished() || opened && st.Phase == api.PhaseRunning && (last == nil || last.EndedAt != nil) {
			say(s.clock.Now(), s.t("the task is %s: %s", "任务状态 %s：%s", st.Phase, st.Message.In(s.lang)))
			if last != nil {
				putLine(s.out, recovery.Phases(s.lang, last.Phases()))
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return notRecovered(ctx, ctx.Err())
		case <-s.clock.After(20 * time.Millisecond):
		}
	}
}

func notRecovered(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return fault.New(fault.Unavailable, "NotRecovered", fault.T("The task has not recovered so far.", "任务尚未恢复。")).
		WithHint(fault.T("Look at it with fermi describe, or wait longer with --wait.", "请用 fermi describe 查看，或用 --wait 延长等待。")).Because(err)
}

func (a *app) trainProfileCommand() *cobra.Command {
	var rank int
	cmd := &cobra.Command{
		Use: "profile NAME", Short: Both("Show what a rank does at this moment", "查看某个 rank 此刻在做什么"), Args: needArgs(1, 1, "NAME"),
		Example: "  fermi train profile gpt-7x2k9 --rank 3",
	}
	cmd.Flags().IntVar(&rank, "rank", 0, Both("which rank", "哪个 rank"))
	cmd.RunE = a.online(func(ctx context.Context, s *session, args []string) error {
		seen, err := s.client.Profile(ctx, s.project(api.KindTrainingTask), args[0], rank)
		if err != nil {
			return err
		}
		if s.structured() {
			return s.data(seen)
		}
		for line := range strings.Lines(seen.Text) {
			putLine(s.out, clean(strings.TrimRight(line, "\n")))
		}
		return nil
	})
	return cmd
}
