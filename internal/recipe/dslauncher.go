package recipe

import (
	"path"
	"slices"
	"strings"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// A command may call DeepSpeed's own launcher, as its documents do: `deepspeed --hostfile … train.py …`. That would start processes in
// other replicas by ssh. Launchers start every process of a task anyway, so the script is started as it would be, and what the launcher
// is told about hosts and counts is the task's: no hostfile, no sshd, no keys, and each process is watched.

// Options of the launcher, as of 0.18. Those for hosts, counts and ssh have nothing to say here.
var (
	dsFlags  = []string{"--module", "--no_python", "--no_local_rank", "--no_ssh", "--no_ssh_check", "--force_multi", "--save_pid", "--bind_cores_to_rank"}
	dsValues = []string{
		"-H", "--hostfile", "--num_nodes", "--num_gpus", "--num_accelerators", "--master_port", "--master_addr", "--node_rank", "--launcher", "--launcher_args", "--ssh_port",
		"--enable_each_rank_log", "--bind_core_list", "--venv_script",
	}
)

// callsDeepSpeed says that a command is of DeepSpeed's launcher.
func callsDeepSpeed(command []string) bool {
	return len(command) > 0 && (path.Base(command[0]) == "deepspeed" || path.Base(command[0]) == "deepspeed.pt")
}

// withoutDeepSpeed is such a command without the launcher: one that starts one process. refused: an option that asks for what the task
// says, or for a program of another kind; "": none.
func withoutDeepSpeed(own []string) (command []string, refused string) {
	at, set := 1, []string{}
	for ; at < len(own) && strings.HasPrefix(own[at], "-"); at++ {
		name, _, given := strings.Cut(own[at], "=")
		switch {
		case slices.Contains(dsFlags, name):
			set = append(set, name)
		case slices.Contains(dsValues, name):
			if !given {
				at++
			}
		default:
			return nil, name
		}
	}
	if at >= len(own) {
		return nil, own[0]
	}
	python := "python3"
	if dir := path.Dir(own[0]); dir != "." {
		python = path.Join(dir, python)
	}
	head := []string{python, "-u"}
	switch {
	case slices.Contains(set, "--no_python"):
		head = nil
	case slices.Contains(set, "--module"):
		head = append(head, "-m")
	}
	if slices.Contains(set, "--no_local_rank") {
		return slices.Concat(head, own[at:]), ""
	}
	call, script := `exec "$0" --local_rank="$LOCAL_RANK" "$@"`, own[at:]
	if head != nil {
		call = `python=$0 script=$1; shift; exec "$python" ` + strings.Join(head[1:], " ") + ` "$script" --local_rank="$LOCAL_RANK" "$@"`
		script = slices.Concat(head[:1], script)
	}
	return slices.Concat([]string{"sh", "-c", call}, script), ""
}

// checkDeepSpeed refuses options of the launcher that can't be had here.
func (w *work) checkDeepSpeed() {
	for i := range w.in.Spec.Roles {
		r := &w.in.Spec.Roles[i]
		own := slices.Concat(r.Command, r.Args)
		if w.fw.id != "deepspeed" || !callsDeepSpeed(own) {
			continue
		}
		switch _, refused := withoutDeepSpeed(own); refused {
		case "":
		case own[0]:
			w.refuse("spec.roles["+itoa(i)+"].command", fault.T("The call of deepspeed names no script; give one: deepspeed train.py.", "deepspeed 命令没有给出脚本；应为 deepspeed train.py。"))
		default:
			w.refuse("spec.roles["+itoa(i)+"].command", fault.T("deepspeed's option %s can't be had: the task's replicas and ranks say where processes start. Leave it out, or call the script itself: python3 train.py.",
				"不支持 deepspeed 的选项 %s：进程在哪里启动由任务的副本与 rank 决定。请去掉该选项，或直接调用脚本：python3 train.py。", refused))
		}
	}
}
