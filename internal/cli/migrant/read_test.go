package migrant

import (
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/array"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// one reads a job, as the server would take it.
func one(t *testing.T, file, text string) (*api.TrainingTask, Job) {
	t.Helper()
	jobs, err := Read(file, []byte(text))
	if err != nil || len(jobs) != 1 {
		t.Fatalf("%d jobs, %v", len(jobs), err)
	}
	o, err := api.Decode("", jobs[0].Manifest)
	if err != nil {
		t.Fatalf("%v\n%s", err, jobs[0].Manifest)
	}
	task := o.(*api.TrainingTask)
	task.Default()
	if faults := task.Validate(); len(faults) > 0 {
		t.Errorf("%+v\n%s", faults, jobs[0].Manifest)
	}
	for _, l := range append(jobs[0].Left, jobs[0].Kept...) {
		if l.Why.EN == "" || l.Why.ZH == "" {
			t.Errorf("%q has no reason in both languages", l.What)
		}
	}
	return task, jobs[0]
}

// left fails unless each of these was named as left out, with a reason that has this word.
func left(t *testing.T, j Job, want map[string]string) {
	t.Helper()
	for what, why := range want {
		found := false
		for _, l := range j.Left {
			found = found || strings.Contains(l.What, what) && strings.Contains(l.Why.EN, why)
		}
		if !found {
			t.Errorf("%s is not named as left out because of %q: %+v", what, why, j.Left)
		}
	}
}

func TestScript(t *testing.T) {
	task, job := one(t, "jobs/train.sh", `#!/bin/bash
#SBATCH --job-name=GPT_small      # what it is called
#SBATCH -N 4 --ntasks-per-node 8
#SBATCH -c6
#SBATCH --gres=gpu:a100:8
#SBATCH --mem=512G
#SBATCH -t 2-12:30
#SBATCH -p gpu -A lab
#SBATCH --mail-type=END
#SBATCH --requeue
#SBATCH --hint=nomultithread

module load cuda/12
export NCCL_DEBUG=INFO
srun --mpi=pmix -n 32 python train.py --rank $SLURM_PROCID --nodes "$SLURM_JOB_NODELIST"
#SBATCH --exclusive
`)
	r := task.Spec.Roles[0]
	if task.Meta.Name != "gpt-small" || task.Meta.DisplayName != "GPT_small" || r.Replicas != 4 || r.Ranks != 8 {
		t.Errorf("%+v %+v", task.Meta, r)
	}
	if r.Resources.CPU != 48_000 || r.Resources.Memory != 512<<30 || r.Resources.Accelerators.Count != 8 || r.Resources.Accelerators.Type != "A100" {
		t.Errorf("%+v", r.Resources)
	}
	if task.Spec.Timeouts.Run.Std().Minutes() != 60*60+30 || task.Spec.Restart.MaxRestarts != 3 {
		t.Errorf("%+v %+v", task.Spec.Timeouts, task.Spec.Restart)
	}
	body := r.Command[2]
	if !strings.Contains(body, "\npython train.py") || strings.Contains(body, "srun") || !strings.HasPrefix(body, `export SLURM_PROCID="$RANK"`) || !strings.Contains(body, "module load cuda/12") {
		t.Errorf("%s", body)
	}
	left(t, job, map[string]string{
		"-p gpu": "queue", "-A lab": "project", "--mail-type": "mail", "--hint": "Nothing", "--exclusive": "after the first command", "SLURM_JOB_NODELIST": "Nothing sets", "the lines around srun": "once",
	})
}

// TestArray: a script with --array becomes an array, and finds its index under Slurm's name.
func TestArray(t *testing.T) {
	if _, known := api.InfoOf(array.Kind); !known {
		api.Register(array.Row)
	}
	jobs, err := Read("sweep.sh", []byte("#!/bin/bash\n#SBATCH -a 1-99:2%10\n#SBATCH -J sweep\npython train.py --seed $SLURM_ARRAY_TASK_ID\n"))
	if err != nil {
		t.Fatal(err)
	}
	o, err := api.Decode("", jobs[0].Manifest)
	if err != nil {
		t.Fatal(err)
	}
	a := o.(*array.TaskArray)
	if a.Spec.Indexes != "1-99:2" || a.Spec.AtOnce != 10 || a.Meta.Name != "sweep" || !strings.HasPrefix(a.Spec.Roles[0].Command[2], `export SLURM_ARRAY_TASK_ID="$FERMI_ARRAY_INDEX"`) {
		t.Errorf("%+v", a.Spec)
	}
	jobs, err = Read("sweep.sh", []byte("#!/bin/bash\n#SBATCH --array=9-1\ntrue\n"))
	if err != nil || len(jobs[0].Left) == 0 || !strings.Contains(jobs[0].Left[0].Why.EN, "empty") {
		t.Errorf("%+v %v", jobs, err)
	}
}

func TestSlurmTime(t *testing.T) {
	for text, want := range map[string]string{"90": "1h30m0s", "5:30": "5m30s", "1:02:03": "1h2m3s", "2-0": "48h0m0s", "1-2:3": "26h3m0s", "1-2:3:4": "26h3m4s", "0": "", "UNLIMITED": "", "1:2:3:4": "", "-5": "", "1-99999999999999999999": ""} {
		got, ok := slurmTime(text)
		if ok != (want != "") || ok && got.String() != want {
			t.Errorf("%s is %s, %v", text, got, ok)
		}
	}
}

func TestPyTorchJob(t *testing.T) {
	task, job := one(t, "job.yaml", `apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: mnist, namespace: team, labels: {app: mnist}}
spec:
  nprocPerNode: "4"
  runPolicy: {backoffLimit: 5, activeDeadlineSeconds: 3600, cleanPodPolicy: None, schedulingPolicy: {queue: gold}}
  elasticPolicy: {minReplicas: 2, maxReplicas: 4, rdzvBackend: c10d}
  pytorchReplicaSpecs:
    Master: &m
      replicas: 1
      restartPolicy: OnFailure
      template: &pod
        spec:
          nodeSelector: {card: a100}
          volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
          containers:
          - name: pytorch
            image: registry.example.com/mnist:1
            command: [python, train.py]
            args: ["--epochs", "3"]
            env: [{name: A, value: "1"}, {name: KEY, valueFrom: {secretKeyRef: {name: hub, key: token}}}]
            volumeMounts: [{name: data, mountPath: /data}]
            resources: {limits: {nvidia.com/gpu: 4, cpu: "16", memory: 64Gi, rdma/hca: 1}}
    Worker: {replicas: 3, template: *pod}
`)
	r := task.Spec.Roles[0]
	if task.Spec.Framework != "pytorch-ddp" || r.Replicas != 4 || r.Ranks != 4 || *r.MinReplicas != 2 || *r.MaxReplicas != 4 || r.Image != "registry.example.com/mnist:1" || len(r.Command) != 2 || len(r.Args) != 2 {
		t.Errorf("%+v", r)
	}
	if r.Resources.Accelerators.Count != 4 || r.Resources.CPU != 16_000 || r.Env[1].ValueFrom.Secret != "hub" || task.Spec.Restart.MaxRestarts != 5 || task.Spec.Timeouts.Run.Std().Hours() != 1 {
		t.Errorf("%+v %+v", r, task.Spec)
	}
	left(t, job, map[string]string{
		"namespace": "--project", "nodeSelector": "Machines", "volumeMounts": "Folders", "rdma/hca": "counted", "schedulingPolicy.queue": "share", "cleanPodPolicy": "kept", "rdzvBackend": "Nothing", "KEY": "secret", "restartPolicy": "starts again",
	})
}

func TestVolcano(t *testing.T) {
	task, job := one(t, "job.yaml", `---
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: ps}
spec:
  minAvailable: 3
  schedulerName: volcano
  queue: default
  maxRetry: 3
  plugins: {svc: [], env: []}
  policies: [{event: PodEvicted, action: RestartJob}]
  tasks:
  - {name: ps, replicas: 1, template: {spec: {containers: [{name: c, image: tf, command: [python, ps.py], resources: {requests: {cpu: 2, memory: 4Gi}}}]}}}
  - {name: worker, replicas: 2, template: {spec: {containers: [{name: c, image: tf, command: [python, worker.py], resources: {limits: {huawei.com/Ascend910: 8}}}]}}}
`)
	if len(task.Spec.Roles) != 2 || task.Spec.Roles[0].Name != "ps" || task.Spec.Roles[1].Replicas != 2 || task.Spec.Roles[1].Resources.Accelerators.Type != "Ascend910" || task.Spec.Restart.MaxRestarts != 3 {
		t.Errorf("%+v", task.Spec)
	}
	left(t, job, map[string]string{"spec.queue": "share", "spec.policies": "starts again"})
}

func TestTrainJob(t *testing.T) {
	task, job := one(t, "job.yaml", `apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: llm}
spec:
  runtimeRef: {name: torch-distributed}
  initializer: {dataset: {storageUri: "hf://x/y"}}
  trainer: {image: llm:1, command: [python, tune.py], numNodes: 2, numProcPerNode: 8, resourcesPerNode: {limits: {nvidia.com/gpu: 8}}}
`)
	if r := task.Spec.Roles[0]; r.Replicas != 2 || r.Ranks != 8 || r.Resources.Accelerators.Count != 8 || task.Spec.Framework != "pytorch-ddp" {
		t.Errorf("%+v", task.Spec)
	}
	left(t, job, map[string]string{"storageUri": "Datasets"})
}

func TestRefused(t *testing.T) {
	for what, text := range map[string]string{
		"nothing": "", "another kind": "apiVersion: v1\nkind: Pod\n", "no commands": "#!/bin/sh\n#SBATCH -N 1\n", "no YAML": "a: [", "uneven": "#!/bin/sh\n#SBATCH -N 3 -n 4\nsrun a\n",
	} {
		if _, err := Read("x", []byte(text)); err == nil || fault.From(err).Reason != "NoJob" {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// FuzzRead: whatever is read, what comes out is a manifest that can be read again.
func FuzzRead(f *testing.F) {
	f.Add("#!/bin/sh\n#SBATCH -N 2 --gres=gpu:2 --mem=0 -t 1\nsrun x $SLURM_PROCID\n")
	f.Add("apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Worker: {replicas: 2}}}\n")
	f.Add("apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nspec: {tasks: [{replicas: 1, template: {spec: {containers: [1]}}}]}\n")
	f.Fuzz(func(t *testing.T, text string) {
		jobs, err := Read("x", []byte(text))
		if err != nil {
			return
		}
		for _, j := range jobs {
			if _, err := api.Decode("", j.Manifest); err != nil {
				t.Fatalf("%v\n%s", err, j.Manifest)
			}
		}
	})
}
