package frameworks

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/test/harness"
)

const (
	replicas = 2
	each     = 2 // processes a replica
)

// frameworks are the recipes to run, in the virtual environments of scripts/frameworks.sh.
var frameworks = []row{
	{name: "plain", id: api.FrameworkPlain, module: "socket", script: "plain.py"},
	{name: "PyTorch DDP", id: "pytorch-ddp", module: "torch", script: "ddp.py"},
	{name: "PyTorch FSDP", id: "pytorch-fsdp", home: "torch2", script: "fsdp.py"},
	{name: "MPI", id: "mpi", module: "mpi4py", script: "mpi.py"},
	{name: "DeepSpeed", id: "deepspeed", home: "deepspeed", script: "deep.py", strategy: &api.Strategy{ZeroStage: new(int)}}, // gloo of torch 1.13 lacks what ZeRO needs
	{name: "DeepSpeed's own command", id: "deepspeed", home: "deepspeed", program: []string{"deepspeed", "--hostfile", "hosts", "--num_nodes=7"}, script: "deep.py", strategy: &api.Strategy{ZeroStage: new(int)}},
	{name: "Horovod", id: "horovod", home: "horovod", script: "hvd.py"},
	{name: "Horovod over MPI", id: "horovod", home: "horovod", script: "hvd.py", strategy: &api.Strategy{Controller: api.ControllerMPI}},
	{name: "Megatron-LM", id: "megatron-lm", home: "torch2", script: "meg.py", strategy: &api.Strategy{Tensor: 2}},
	{name: "Megatron-LM on DeepSpeed", id: "megatron-lm", home: "torch2", script: "megds.py", strategy: &api.Strategy{Tensor: 2, Engine: "deepspeed", ZeroStage: new(int)}},
	{name: "TensorFlow", id: "tensorflow", home: "tensorflow", script: "tf.py"},
	{name: "PaddlePaddle", id: "paddle", home: "paddle", script: "pp.py"},
	{name: "JAX", id: "jax", home: "jax", script: "jx.py"},
	{name: "Ray", id: "ray", home: "ray", script: "ry.py"},
	{name: "MXNet", id: "mxnet", home: "mxnet", script: "mx.py", helpers: []string{"scheduler", "server"}},
}

// row is a recipe to run.
type row struct {
	name     string
	id       api.Framework
	home     string   // the virtual environment; "": Debian's Python
	module   string   // which that must have
	program  []string // of the environment, with its options, that is given the script; none: its Python
	script   string
	strategy *api.Strategy
	helpers  []string // roles of one process beside the workers
}

const debianPython = "/usr/bin/python3"

// python is the interpreter of a row, or why there is none.
func python(home, module, root string) (file, missing string) {
	if home == "" {
		for _, lib := range []string{"/usr/lib/python3/dist-packages", "/usr/lib/python3.*"} {
			for _, name := range []string{module, module + ".py"} {
				if found, _ := filepath.Glob(filepath.Join(lib, name)); len(found) > 0 {
					return debianPython, ""
				}
			}
		}
		return "", "Debian's python3 has no " + module
	}
	if why, err := os.ReadFile(filepath.Join(root, home+".why")); err == nil {
		return "", strings.TrimSpace(string(why))
	}
	file = filepath.Join(root, home, "bin", "python3")
	if _, err := os.Stat(file); err != nil {
		return "", "not installed; make e2e-frameworks does"
	}
	return file, ""
}

// home is the folder with the scripts and virtual environments: readable for every project's user.
func home(t *testing.T) string {
	t.Helper()
	root := os.Getenv("FERMI_FRAMEWORKS")
	if root == "" {
		t.Skip("make e2e-frameworks runs it")
	}
	err := errors.Join(os.Chmod(root, 0o755), os.RemoveAll(filepath.Join(root, "scripts")), os.CopyFS(filepath.Join(root, "scripts"), os.DirFS("scripts")))
	err = errors.Join(err, filepath.WalkDir(filepath.Join(root, "scripts"), func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Chmod(path, 0o755))
	}))
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// checked is what every process prints when its all-reduce is done.
var checked = regexp.MustCompile(`CHECK rank=(\d+) world=(\d+) sum=(\d+) replica=(\S+)`)

// TestFrameworks: see the package.
func TestFrameworks(t *testing.T) {
	only := os.Getenv("FERMI_ONLY") // names, comma-separated; "": all
	root := home(t)
	_, cl := harness.Up(t, "--demo", "--folder", "frameworks="+root)
	if err := harness.Share(t.Context(), cl, "frameworks"); err != nil {
		t.Fatal(err)
	}
	for _, row := range frameworks {
		t.Run(row.name, func(t *testing.T) {
			if only != "" && !strings.Contains(","+only+",", ","+row.name+",") {
				t.Skip("not verified: not asked for by FERMI_ONLY")
			}
			python, missing := python(row.home, row.module, root)
			if missing != "" {
				t.Skip("not verified: " + missing)
			}
			command := []string{python}
			if len(row.program) > 0 {
				command = append([]string{filepath.Join(filepath.Dir(python), row.program[0])}, row.program[1:]...)
			}
			verify(t, cl, row, root, append(command, "scripts/"+row.script))
		})
	}
}

func verify(t *testing.T, cl *client.Client, row row, root string, command []string) {
	t.Helper()
	name := strings.ToLower(strings.NewReplacer(" ", "-", "'", "").Replace(row.name))
	worker := api.Role{
		Name: "worker", Replicas: replicas, Ranks: each, Resources: api.Resources{CPU: 100, Memory: 4 << 30}, Command: command,
		Env: []api.EnvVar{{Name: "PATH", Value: filepath.Dir(command[0]) + ":/usr/local/bin:/usr/bin:/bin"}, {Name: "OMP_NUM_THREADS", Value: "1"}},
	}
	spec := api.TrainingTaskSpec{Framework: row.id, Code: &api.Code{Folder: root}, Strategy: row.strategy}
	for _, helper := range row.helpers {
		role := worker
		role.Name, role.Replicas, role.Ranks = helper, 1, 1
		spec.Roles = append(spec.Roles, role)
	}
	spec.Roles = append(spec.Roles, worker)
	if _, err := cl.Submit(t.Context(), &api.TrainingTask{Meta: api.Meta{Name: name}, Spec: spec}, false); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*harness.Patience) // imports alone take minutes on a machine that is busy
	defer cancel()
	var text strings.Builder
	if err := cl.Logs(ctx, "default", name, client.LogOptions{Follow: true}, func(l client.LogLine) error {
		fmt.Fprintf(&text, "[%s] %s\n", l.Replica, l.Text)
		return nil
	}); err != nil {
		t.Fatalf("%v\n%s", err, text.String())
	}
	log := text.String()
	if status := harness.Task(t, cl, name).Status; status.Phase != api.PhaseCompleted {
		t.Fatalf("it ended %s: %s\n%s", status.Phase, status.Message.EN, log)
	}
	ranks, where := map[string]bool{}, map[string]int{}
	for _, found := range checked.FindAllStringSubmatch(log, -1) {
		if ranks[found[1]] || found[2] != "4" || found[3] != "10" { // 1 + 2 + 3 + 4
			t.Errorf("%s", found[0])
		}
		ranks[found[1]] = true
		where[found[4]]++
	}
	if len(ranks) != replicas*each || len(where) != replicas {
		t.Errorf("ranks %v in replicas %v", ranks, where)
	}
	for replica, n := range where {
		if n != each {
			t.Errorf("%d processes in %s", n, replica)
		}
	}
	if t.Failed() {
		t.Log(log)
	}
}
