package train

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/recovery"
	"github.com/fermi-cluster/fermi/internal/cli/show"
	"github.com/fermi-cluster/fermi/internal/cli/speech"
	"github.com/fermi-cluster/fermi/internal/cli/usage"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func trainFaultCommand(a *call.Shell) *cobra.Command {
	var rank int
	var kind string
	cmd := &cobra.Command{
		Use: "fault NAME", Short: speech.Both("Hurt a rank of a running task and watch it recover", "对运行中任务的某个 rank 注入故障并观察恢复"),
		Args: usage.Need(1, 1, "NAME"), Example: "  fermi train fault gpt-7x2k9 --rank 3 --kind kill",
	}
	cmd.Flags().IntVar(&rank, "rank", 0, speech.Both("which rank", "哪个 rank"))
	cmd.Flags().StringVar(&kind, "kind", "kill", speech.Both("kill, stop, slow, oom, net or node", "kill、stop、slow、oom、net 或 node"))
	wait := cmd.Flags().Duration("wait", 2*time.Minute, speech.Both("how long to watch the recovery", "观察恢复的最长时间"))
	cmd.RunE = a.Online(func(ctx context.Context, s *call.Session, args []string) error {
		project := s.Project(api.KindTrainingTask)
		done, err := s.Client.Fault(ctx, project, args[0], rank, kind)
		if err != nil {
			return err
		}
		if s.Structured() {
			return s.Data(done)
		}
		show.Line(s.Out, s.T("0.000s injected: %s of rank %d (%s on %s)", "0.000s 已注入：%s，rank %d（%s，节点 %s）", kind, rank, show.Clean(done.Replica), show.Clean(done.Node)))
		if kind == "slow" { // nothing fails of it
			return nil
		}
		ctx, cancel := context.WithTimeout(ctx, *wait)
		defer cancel()
		return watchRecovery(ctx, s, project, args[0], done.Generation, done.At)
	})
	return cmd
}

// watchRecovery prints each phase of a recovery when it is reached, in seconds since the fault.
func watchRecovery(ctx context.Context, s *call.Session, project, name string, before int, since time.Time) error {
	say := func(at time.Time, text string) {
		show.Line(s.Out, fmt.Sprintf("%.3fs %s", max(at.Sub(since), 0).Seconds(), show.Clean(text)))
	}
	var found, opened bool
	for {
		o, err := s.Client.Get(ctx, api.KindTrainingTask, project, name)
		if err != nil {
			return notRecovered(ctx, err)
		}
		st := o.(*api.TrainingTask).Status
		if f := st.Failure; f != nil && !found && f.Generation >= before && !f.At.Before(since.Add(-time.Second)) {
			found = true
			say(f.At, s.T("detected: ", "发现：")+f.Message.In(s.Lang))
			say(f.At, s.T("cause %s, action %s", "原因 %s，处置 %s", f.Cause, f.Action))
		}
		if st.Generation > before && !opened && len(st.Restarts) > 0 {
			opened = true
			say(st.Restarts[len(st.Restarts)-1], s.T("generation %d opened", "第 %d 代已开启", st.Generation))
		}
		if last := st.Interruptions.Newest(); st.Phase.Finished() || opened && st.Phase == api.PhaseRunning && (last == nil || last.EndedAt != nil) {
			say(s.Clock.Now(), s.T("the task is %s: %s", "任务状态 %s：%s", st.Phase, st.Message.In(s.Lang)))
			if last != nil {
				show.Line(s.Out, recovery.Phases(s.Lang, last.Phases()))
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return notRecovered(ctx, ctx.Err())
		case <-s.Clock.After(20 * time.Millisecond):
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

func trainProfileCommand(a *call.Shell) *cobra.Command {
	var rank int
	cmd := &cobra.Command{
		Use: "profile NAME", Short: speech.Both("Show what a rank does at this moment", "查看某个 rank 此刻在做什么"), Args: usage.Need(1, 1, "NAME"),
		Example: "  fermi train profile gpt-7x2k9 --rank 3",
	}
	cmd.Flags().IntVar(&rank, "rank", 0, speech.Both("which rank", "哪个 rank"))
	cmd.RunE = a.Online(func(ctx context.Context, s *call.Session, args []string) error {
		seen, err := s.Client.Profile(ctx, s.Project(api.KindTrainingTask), args[0], rank)
		if err != nil {
			return err
		}
		if s.Structured() {
			return s.Data(seen)
		}
		for line := range strings.Lines(seen.Text) {
			show.Line(s.Out, show.Clean(strings.TrimRight(line, "\n")))
		}
		return nil
	})
	return cmd
}
