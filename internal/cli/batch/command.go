package batch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli"
)

// Word is the hidden command that replicas of a batch run; Flags makes its arguments.
const Word = "batch-worker"

// Flags are the arguments of the worker for this work, without the engine.
func (w *Work) Flags() []string {
	out := []string{"--path", w.Path, "--concurrency", strconv.Itoa(w.Concurrency), "--part", strconv.Itoa(w.Part), "--timeout", w.Timeout.String()}
	if w.Health != "" {
		out = append(out, "--health", w.Health)
	}
	return out
}

// Worker is the command.
func Worker() *cobra.Command {
	var w Work
	c := &cobra.Command{
		Use: Word + " -- ENGINE…", Hidden: true, Args: cobra.MinimumNArgs(1), Short: cli.Both("What the replicas of a batch run", "批量推理任务的副本进程"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			w.Engine, w.Log = args, cmd.OutOrStdout()
			err := w.here(cmd)
			if err == nil {
				err = w.Run(ctx)
			}
			switch {
			case ctx.Err() != nil:
				return code(143)
			case err != nil:
				fmt.Fprintln(cmd.ErrOrStderr(), "batch:", err)
				return code(1)
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&w.Path, "path", "/", "")
	f.StringVar(&w.Health, "health", "", "")
	f.IntVar(&w.Concurrency, "concurrency", 8, "")
	f.IntVar(&w.Part, "part", 1000, "")
	f.DurationVar(&w.Timeout, "timeout", 10*time.Minute, "")
	return c
}

// code ends the process; what there is to say was said.
type code int

func (c code) Error() string { return "exit code " + strconv.Itoa(int(c)) }

// ExitCode is the code to end with.
func (c code) ExitCode() int { return int(c) }

// here takes from the environment what a replica finds there.
func (w *Work) here(cmd *cobra.Command) error {
	w.In, w.Out, w.Of = os.Getenv("FERMI_DATASET"), os.Getenv("FERMI_OUTPUT"), 1
	if w.In == "" || w.Out == "" {
		return errors.New("this runs in a task with a dataset: fermi service batch")
	}
	if n, err := strconv.Atoi(os.Getenv("FERMI_WORLD_SIZE")); err == nil && n > 1 {
		w.Of = n
		w.Index, _ = strconv.Atoi(os.Getenv("FERMI_RANK"))
	}
	if n, _ := strconv.Atoi(os.Getenv("FERMI_ATTEMPT")); n > 1 {
		cl, err := cli.Dial(cmd)
		if err != nil {
			return err
		}
		w.Earlier = outputs{cl, os.Getenv("FERMI_PROJECT"), os.Getenv("FERMI_TASK")}
	}
	if w.Concurrency < 1 || w.Part < 1 {
		return errors.New("--concurrency and --part are at least 1")
	}
	return nil
}

// outputs are what earlier attempts of the task left, as the server has them.
type outputs struct {
	client        *client.Client
	project, task string
}

// List names them.
func (o outputs) List(ctx context.Context) (out []string, err error) {
	all, err := o.client.Outputs(ctx, o.project, o.task)
	for _, f := range all {
		out = append(out, f.Path)
	}
	return out, err
}

// Fetch writes one into a file.
func (o outputs) Fetch(ctx context.Context, output, file string) error {
	r, _, err := o.client.OpenOutput(ctx, o.project, o.task, output)
	if err != nil {
		return err
	}
	defer r.Close()
	fresh := file + ".new"
	f, err := os.Create(fresh)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(fresh, file)
}
