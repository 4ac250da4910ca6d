package sample

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit is an error whose only news is the exit code; the text was printed already.
type Exit struct {
	Code  int
	cause error
}

func (e *Exit) Error() string { return fmt.Sprintf("exit code %d", e.Code) }

// ExitCode is the code to end with.
func (e *Exit) ExitCode() int { return e.Code }

func (e *Exit) Unwrap() error { return e.cause }

// Command is `fermi sample`. both joins an English and a Chinese help text as the command line
// wants it (cli.Both).
func Command(both func(en, zh string) string) *cobra.Command {
	cmd := &cobra.Command{Use: "sample", Short: both("Small real workloads inside the binary", "内置的小型真实负载")}
	cmd.AddCommand(trainCommand(both), serveCommand(both))
	return cmd
}

func trainCommand(both func(en, zh string) string) *cobra.Command {
	o := DefaultOptions()
	cmd := &cobra.Command{
		Use:   "train",
		Short: both("Fit a small neural network to two spirals", "训练一个小型神经网络来区分双螺旋数据"),
		Long: both("A real model with real gradients on synthetic data. Settings come from flags, else from FERMI_HP_*\n(FERMI_HP_STEPS …). Writes model.json and metrics.jsonl to $FERMI_OUTPUT when that is set.",
			"在合成数据上用真实梯度训练真实模型。参数取自命令行，否则取自 FERMI_HP_*（如 FERMI_HP_STEPS）。\n设置了 $FERMI_OUTPUT 时写出 model.json 与 metrics.jsonl。"),
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.IntVar(&o.Steps, "steps", o.Steps, both("optimizer steps", "训练步数"))
	f.IntVar(&o.Batch, "batch", o.Batch, both("points a step", "每步样本数"))
	f.Float64Var(&o.Rate, "lr", o.Rate, both("learning rate", "学习率"))
	f.IntVar(&o.Hidden, "hidden", o.Hidden, both("width of the hidden layers", "隐藏层宽度"))
	f.Uint64Var(&o.Seed, "seed", o.Seed, both("seed; the same seed gives the same bits", "随机种子；相同种子得到逐位相同的结果"))
	f.IntVar(&o.LogEvery, "log-every", o.LogEvery, both("steps between log lines", "日志间隔步数"))
	f.IntVar(&o.Shards, "shards", o.Shards, both("the same bits with any number of ranks up to this", "在不超过该数量的任意进程数下得到逐位相同的结果"))
	f.DurationVar(&o.StepTime, "step-time", o.StepTime, both("wait after each step, such as 100ms", "每步之后的等待时间，如 100ms"))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		merged, err := merge(cmd, o)
		if err == nil {
			err = merged.Validate()
		}
		if err != nil {
			fmt.Fprintln(cmd.ErrOrStderr(), "sample:", err)
			return &Exit{2, err}
		}
		ctx, stop := notify(cmd.Context())
		defer stop()
		_, err = Train(ctx, merged, cmd.OutOrStdout())
		var ours *Exit
		if err != nil && !errors.As(err, &ours) {
			fmt.Fprintln(cmd.ErrOrStderr(), "sample:", err)
			return &Exit{1, err}
		}
		return err
	}
	return cmd
}

// merge lays the flags that were given over the environment over the defaults.
func merge(cmd *cobra.Command, flags Options) (Options, error) {
	o, err := DefaultOptions().FromEnvironment(os.Getenv)
	set := func(name string, copy func()) {
		if cmd.Flags().Changed(name) {
			copy()
		}
	}
	set("steps", func() { o.Steps = flags.Steps })
	set("batch", func() { o.Batch = flags.Batch })
	set("lr", func() { o.Rate = flags.Rate })
	set("hidden", func() { o.Hidden = flags.Hidden })
	set("seed", func() { o.Seed = flags.Seed })
	set("log-every", func() { o.LogEvery = flags.LogEvery })
	set("shards", func() { o.Shards = flags.Shards })
	set("step-time", func() { o.StepTime = flags.StepTime })
	return o, err
}

// notify ends the ctx at SIGTERM or SIGINT with the exit code that shells expect.
func notify(parent context.Context) (context.Context, func()) {
	if parent == nil {
		parent = context.Background()
	}
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case sig := <-signals:
			code := 143
			if sig == os.Interrupt {
				code = 130
			}
			cancel(&Exit{code, fmt.Errorf("%s", sig)})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
		<-done
	}
}
