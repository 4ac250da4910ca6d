package cli

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fermi-cluster/fermi/internal/cli/near"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// What people type who know other tools, and what it is called here. A trailing … takes the rest of what was typed; one
// that begins with a word of `fermi` is shown as a whole command line.
var otherWords = map[string][]string{
	"fermi": {
		"run submit launch start exec sbatch srun bsub qsub torchrun python python3 = train run -- …",
		"rerun retry restart resubmit again = train rerun NAME",
		"ps ls list jobs job tasks squeue qstat bjobs history = train list",
		"status state show info inspect = describe task NAME; train list",
		"kill cancel scancel qdel bkill stop abort terminate = train stop NAME",
		"rm remove del destroy erase = delete task NAME",
		"log tail output stdout attach follow = logs -f TASK",
		"explain reason debug diagnose pending = why TASK",
		"gpu gpus gpustat nvidia-smi rocm-smi npu-smi device devices card cards = node list; top",
		"nodes hosts host machines machine sinfo pestat = node list",
		"zones region regions az = zone list",
		"queues partition partitions quota quotas = queue list",
		"projects namespace ns tenant tenants = project list",
		"users members = user list",
		"login signon sign-in auth = signin",
		"logout = user sign-out NAME",
		"me who id = whoami",
		"password passwd = user passwd",
		"create new add submit-file = apply -f FILE",
		"edit patch update = get task NAME -o yaml; apply -f FILE",
		"download artifacts artifact outputs results cp scp = train outputs NAME --get DIR",
		"checkpoint checkpoints ckpt = train checkpoints NAME",
		"cost price bill billing = usage",
		"drain cordon uncordon = node …",
		"event = events",
	},
	"fermi train": {
		"submit start launch = run -- …",
		"retry restart resubmit again = rerun NAME",
		"ps status show jobs = list",
		"kill cancel abort = stop NAME",
		"output download artifacts = outputs NAME",
		"checkpoint ckpt = checkpoints NAME",
		"metric curve curves loss plot scalars tensorboard = metrics NAME",
		"rm remove delete = fermi delete task NAME",
		"log logs tail = fermi logs -f TASK",
		"why explain = fermi why TASK",
		"describe get info = fermi describe task NAME",
		"apply create = fermi apply -f FILE",
	},
	"fermi node":    {"ps status gpu gpus = list", "describe get info health = show NODE", "evacuate empty = drain NODE", "inject drill = fault NODE", "diagnose check = test NODE"},
	"fermi zone":    {"show status = list", "describe get info = fermi describe zone NAME"},
	"fermi queue":   {"show status = list", "stop = pause NAME", "start = resume NAME"},
	"fermi project": {"add join member = add-member PROJECT USER", "leave kick = remove-member PROJECT USER", "switch select default = use NAME", "rm remove = delete NAME"},
	"fermi user":    {"add new = create NAME", "rm remove = delete NAME", "password = passwd", "logout = sign-out NAME"},
	"fermi token":   {"new add = create", "rm remove delete = revoke NAME"},
}

// otherFlags are flags of other tools, and what they are called here, where the command has it.
var otherFlags = map[string]string{
	"nodes": "replicas", "num-nodes": "replicas", "num_nodes": "replicas", "nnodes": "replicas", "workers": "replicas", "num-workers": "replicas", "instances": "replicas", "N": "replicas",
	"nproc-per-node": "ranks", "nproc_per_node": "ranks", "procs": "ranks", "processes": "ranks", "ntasks": "ranks", "ntasks-per-node": "ranks", "np": "ranks",
	"gpu": "gpus", "num-gpus": "gpus", "num_gpus": "gpus", "gres": "gpus", "gpus-per-node": "gpus", "devices": "gpus", "accelerators": "gpus", "cards": "gpus",
	"gpu_type": "gpu-type", "gpu-model": "gpu-type", "device-type": "gpu-type",
	"mem": "memory", "ram": "memory", "mem-per-cpu": "memory", "cpus": "cpu", "cores": "cpu", "cpus-per-task": "cpu",
	"time": "timeout", "walltime": "timeout", "max-time": "timeout", "partition": "queue", "q": "queue",
	"zones": "zone", "region": "zone", "az": "zone", "cluster": "zone",
	"namespace": "project", "tenant": "project", "account": "project", "A": "project",
	"param": "hp", "params": "hp", "hyperparameter": "hp", "hyper-parameter": "hp", "set": "hp",
	"environment": "env", "e": "env", "export": "env", "workdir": "code", "dir": "code", "folder": "code", "source": "code", "path": "code",
	"background": "detach", "bg": "detach", "no-follow": "detach", "async": "detach", "job-name": "name", "J": "name", "title": "display-name",
	"container": "image", "docker-image": "image", "file": "filename", "manifest": "filename", "config": "filename",
	"pip": "requirements", "packages": "requirements", "retries": "restarts", "max-restarts": "restarts", "resume": "from", "checkpoint": "from",
	"state": "phase", "status": "phase", "user": "owner", "u": "owner", "selector": "label", "filter": "search", "grep": "search", "lines": "tail", "n": "tail",
	"format": "output", "json": "output", "language": "lang", "watch": "follow", "w": "follow", "token": "token-file", "host": "server", "url": "server", "address": "server",
	"preview": "dry-run", "check": "dry-run", "test": "dry-run", "force": "yes", "y": "yes",
}

// unknownCommand says what args[0] is called here, or what is near it.
func unknownCommand(cmd *cobra.Command, args []string) error {
	err := fault.From(usage(cmd, fault.T("There is no command %q in `%s`.", "`%[2]s` 中没有命令 %[1]q。", args[0], cmd.CommandPath())))
	if lines := calledHere(cmd.CommandPath(), args); len(lines) > 0 {
		return err.WithHint(fault.T("Did you mean: %s?", "是否想输入：%s？", strings.Join(lines, ", ")))
	}
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		for i := range near {
			near[i] = cmd.CommandPath() + " " + near[i]
		}
		return err.WithHint(fault.T("Did you mean: %s?", "是否想输入：%s？", strings.Join(near, ", ")))
	}
	return err
}

// calledHere are the command lines for what was typed.
func calledHere(path string, args []string) (lines []string) {
	word := strings.ToLower(args[0])
	for _, row := range otherWords[path] {
		words, meant, _ := strings.Cut(row, " = ")
		if !slices.Contains(strings.Fields(words), word) {
			continue
		}
		for line := range strings.SplitSeq(meant, "; ") {
			if own, ok := strings.CutPrefix(line, "fermi "); ok {
				line = "fermi " + own
			} else {
				line = path + " " + line
			}
			lines = append(lines, withRest(line, args))
		}
		return lines
	}
	return nil
}

// withRest puts what followed the word where the line takes it.
func withRest(line string, args []string) string {
	head, takes := strings.CutSuffix(line, "…")
	rest := args[1:]
	switch args[0] {
	case "python", "python3", "torchrun": // the command itself was typed
		rest = args
	case "drain", "cordon", "uncordon":
		rest = args
	}
	if takes && len(rest) > 0 && rest[0] == "--" {
		rest = rest[1:]
	}
	if takes && len(rest) > 0 {
		return head + quoteAll(rest)
	}
	if takes {
		return head + "COMMAND"
	}
	for _, slot := range []string{" NAME", " TASK", " NODE"} { // a name that was typed is put in
		if head, ok := strings.CutSuffix(line, slot); ok && len(args) == 2 {
			return head + " " + quoteAll(args[1:])
		}
	}
	return line
}

// badFlags says what is wrong with flags, and what an unknown one is called here.
func badFlags(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return usage(cmd, fault.T("The command line has a mistake: %s.", "命令行参数有误：%s。", err))
	}
	// `fermi run --gpus 2 …`: the flag is not the mistake.
	if typed := cmd.Flags().Args(); cmd.HasSubCommands() && len(typed) > 0 {
		if len(typed) > 1 {
			typed = append(typed, "…") // and what was not read
		}
		return unknownCommand(cmd, typed)
	}
	name := unknown.GetSpecifiedName()
	dash := "--"
	if len(name) == 1 {
		dash = "-"
	}
	wrong := fault.From(usage(cmd, fault.T("`%s` has no flag %s.", "`%s` 没有参数 %s。", cmd.CommandPath(), dash+name)))
	if near := nearFlags(cmd, name); len(near) > 0 {
		return wrong.WithHint(fault.T("Did you mean: %s? All are in `%s --help`.", "是否想输入：%s？全部参数见 `%s --help`。", strings.Join(near, ", "), cmd.CommandPath()))
	}
	return wrong
}

// nearFlags are those of the command that a name may stand for: by the table, then by their letters.
func nearFlags(cmd *cobra.Command, name string) (found []string) {
	if own := otherFlags[name]; own != "" && cmd.Flag(own) != nil {
		return []string{"--" + own}
	}
	if len(name) < 3 {
		return nil
	}
	see := func(f *pflag.Flag) {
		if !f.Hidden && (near.Distance(f.Name, name) <= 2 || strings.HasPrefix(f.Name, name)) && !slices.Contains(found, "--"+f.Name) {
			found = append(found, "--"+f.Name)
		}
	}
	cmd.Flags().VisitAll(see)
	cmd.InheritedFlags().VisitAll(see)
	slices.Sort(found)
	return found[:min(len(found), 3)]
}
