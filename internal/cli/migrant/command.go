package migrant

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Add hangs `fermi import` below root.
func Add(root *cobra.Command) {
	c := &cobra.Command{
		Use: "import FILE…", Short: cli.Both("Make tasks of jobs for Slurm, Volcano and Kubeflow, and say what does not carry over", "将 Slurm、Volcano、Kubeflow 的作业转换为任务，并说明未能保留的内容"), Args: cobra.MinimumNArgs(1),
		Example: "  fermi import job.sbatch > task.yaml\n  fermi import pytorchjob.yaml | fermi apply -f - --dry-run\n  cat train.sh | fermi import -",
		RunE:    run,
	}
	c.GroupID = cli.GroupWork
	root.AddCommand(c)
}

func run(cmd *cobra.Command, files []string) error {
	lang := cli.Language(cmd)
	var all []Job
	for _, file := range files {
		data, err := readFile(cmd.InOrStdin(), file)
		if err != nil {
			return err
		}
		jobs, err := Read(file, data)
		if err != nil {
			return err
		}
		all = append(all, jobs...)
	}
	for i, job := range all {
		if i > 0 {
			fmt.Fprintln(cmd.OutOrStdout(), "---")
		}
		if _, err := cmd.OutOrStdout().Write(job.Manifest); err != nil {
			return err
		}
		job.tell(cmd.ErrOrStderr(), lang)
	}
	return nil
}

// tell writes what became of the job's wishes.
func (j *Job) tell(w io.Writer, lang string) {
	for _, part := range []struct {
		head  fault.Text
		lines []Line
	}{{fault.T("carried over:", "已保留："), j.Kept}, {fault.T("left out:", "未保留："), j.Left}} {
		if len(part.lines) == 0 {
			continue
		}
		fmt.Fprintln(w, part.head.In(lang))
		for _, l := range part.lines {
			fmt.Fprintf(w, "  %s → %s\n", l.What, l.Why.In(lang))
		}
	}
}

func readFile(stdin io.Reader, file string) ([]byte, error) {
	from := stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, bad(file, fault.T("It can't be read.", "无法读取。"))
		}
		defer f.Close()
		from = f
	}
	return io.ReadAll(io.LimitReader(from, maxFile+1))
}
