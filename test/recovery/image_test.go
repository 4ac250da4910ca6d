package recovery

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/test/harness"
)

// tellProgram serves as serveProgram does, after it has written down where it runs.
const tellProgram = `
import os, fermi
def of(file):
    try:
        return open(file).read()
    except OSError:
        return "none"
with open(os.environ["FERMI_OUTPUT"] + "/where", "a") as f:
    f.write(" ".join([of("/etc/image-name"), os.environ.get("IMAGE", "none"), fermi.__name__, os.environ["FERMI_GENERATION"]]) + "\n")
` + serveProgram

// where are the lines that a replica's ranks wrote, one a generation.
func (r *roles) where(role string, index int) []string {
	files, _ := filepath.Glob(filepath.Join(r.c.Dir, "engine", "replicas", r.id+"-"+role+"-"+strconv.Itoa(index)+"-*", "output", "where"))
	var lines []string
	for _, file := range files {
		raw, _ := os.ReadFile(file)
		lines = append(lines, strings.Split(strings.TrimSpace(string(raw)), "\n")...)
	}
	return lines
}

// imageWorld is a server and a registry; the test is skipped for who can't run images.
func imageWorld(t *testing.T) (*world, *harness.Registry) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root runs images")
	}
	return newWorld(t), harness.NewRegistry(t)
}

// TestImageRoles: each role runs in its own image, of a private registry, with the SDK and a standby; whoever dies in one
// that restarts by itself comes back in the same image and takes no other role with it, also when the registry is gone.
func TestImageRoles(t *testing.T) {
	w, hub := imageWorld(t)
	python, program := harness.Python(t)
	actor := hub.Push(t, "rlhf/actor:v1", []string{"IMAGE=actor"}, python, map[string]string{"/etc/image-name": "=of-actors"})
	reward := hub.Push(t, "rlhf/reward:v1", []string{"IMAGE=reward"}, python, map[string]string{"/etc/image-name": "=of-rewards"})
	w.account(hub)
	part := func(name, image string, restart api.RoleRestart) api.Role {
		return api.Role{
			Name: name, Replicas: 2, Restart: restart, Image: image, Resources: api.Resources{CPU: 100, Memory: 1 << 28}, Command: []string{program, "-c", tellProgram},
		}
	}
	host := part("critic", api.ImageHost, "")
	host.Command[0] = "python3"
	_, err := w.cl.Submit(t.Context(), &api.TrainingTask{Meta: api.Meta{Name: "rlhf"}, Spec: api.TrainingTaskSpec{
		Image: actor, Credentials: []api.CredentialRef{{Secret: "hub"}}, Preflight: api.PreflightRequire, Restart: &api.RestartPolicy{MaxRestarts: 5},
		Roles: []api.Role{part("actor", "", ""), host, part("reward", reward, api.RestartRole)},
	}}, false)
	if err != nil {
		t.Fatal(err)
	}
	r := &roles{w, training{"rlhf", w.task("rlhf").Meta.ID}}
	pid := r.pidOf("actor", 0)
	others := slices.Concat(r.addresses(pid, "ACTOR"), r.addresses(pid, "CRITIC"))
	rewardAt := r.addresses(pid, "REWARD")
	any := func([]who) bool { return true }
	before := r.all("actors and critics", others, any)
	r.all("rewards", rewardAt, any)
	for role, want := range map[string]string{"actor": "of-actors actor fermi 1", "reward": "of-rewards reward fermi 1", "critic": "none none fermi 1"} {
		for index := range 2 {
			if got := r.where(role, index); !slices.Equal(got, []string{want}) {
				t.Errorf("%s-%d: %q, not %q", role, index, got, want)
			}
		}
	}
	r.eventually("it runs", func() bool { return r.task("rlhf").Status.Phase == api.PhaseRunning })

	kill(t, r.pidOf("reward", 1))
	r.all("the next generation of rewards", rewardAt, func(is []who) bool { return is[0].generation == 2 && is[1].generation == 2 })
	r.all("the same others", others, func(is []who) bool { return slices.Equal(before, is) })
	for index := range 2 {
		if got := r.where("reward", index); len(got) != 2 || got[1] != "of-rewards reward fermi 2" {
			t.Errorf("reward-%d: %q", index, got)
		}
	}

	// A launcher is lost, and its successor needs the image again while nobody can give it.
	hub.Stop()
	r.killLauncher("reward", 0)
	r.eventually("the next attempt of rewards", func() bool {
		got := r.where("reward", 0)
		return len(got) > 0 && got[len(got)-1] == "of-rewards reward fermi 3" // those of earlier attempts may be gone
	})
	r.all("the same others", others, func(is []who) bool { return slices.Equal(before, is) })
}

// account stores who we are at a registry, as the secret hub.
func (w *world) account(hub *harness.Registry) {
	w.t.Helper()
	if _, err := w.cl.Create(w.t.Context(), &api.Secret{Meta: api.Meta{Name: "hub", Project: "default"}, Spec: api.SecretSpec{
		Type: api.SecretRegistry, Data: map[string]string{api.KeyServer: hub.Host, api.KeyUsername: hub.User, api.KeyPassword: hub.Password},
	}}, false); err != nil {
		w.t.Fatal(err)
	}
}

// TestImageGuest: a task inside another runs in that one's image, without an account or a registry of its own.
func TestImageGuest(t *testing.T) {
	w, hub := imageWorld(t)
	python, program := harness.Python(t)
	image := hub.Push(t, "team/env:v1", []string{"IMAGE=env"}, python, map[string]string{"/etc/image-name": "=of-the-environment"})
	w.account(hub)
	submit := func(name string, spec api.TrainingTaskSpec) *roles {
		t.Helper()
		if _, err := w.cl.Submit(t.Context(), &api.TrainingTask{Meta: api.Meta{Name: name}, Spec: spec}, false); err != nil {
			t.Fatal(err)
		}
		r := &roles{w, training{name, w.task(name).Meta.ID}}
		r.eventually(name+" is where it should be", func() bool {
			got := r.where("worker", 0)
			return len(got) == 1 && got[0] == "of-the-environment env fermi 1"
		})
		return r
	}
	worker := api.Role{Name: "worker", Replicas: 1, Command: []string{program, "-c", tellProgram}}
	guest := api.TrainingTaskSpec{Inside: []string{"environment"}, Roles: []api.Role{worker}}
	worker.Resources = api.Resources{CPU: 100, Memory: 1 << 28}
	submit("environment", api.TrainingTaskSpec{Image: image, Credentials: []api.CredentialRef{{Secret: "hub"}}, Roles: []api.Role{worker}})
	hub.Stop()
	submit("guest", guest)
}

// cardProgram asks the driver of the node, from within an image that has none, what it sees.
const cardProgram = `
import ctypes, os
cuda, ml = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libnvidia-ml.so.1")
count, name = ctypes.c_int(), ctypes.create_string_buffer(96)
assert cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0 and cuda.cuDeviceGetName(name, 96, 0) == 0
context, at = ctypes.c_void_p(), ctypes.c_void_p()
assert cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0 and cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(1 << 20)) == 0
assert cuda.cuMemsetD8_v2(at, ctypes.c_ubyte(42), ctypes.c_size_t(1 << 20)) == 0
back = (ctypes.c_ubyte * (1 << 20))()
assert cuda.cuMemcpyDtoH_v2(back, at, ctypes.c_size_t(1 << 20)) == 0 and bytes(back) == bytes([42]) * (1 << 20)
assert ml.nvmlInit_v2() == 0
print("card", count.value, name.value.decode(), open("/etc/image-name").read(), os.environ["CUDA_VISIBLE_DEVICES"])
`

// TestImageCard: a task in an image that knows nothing of NVIDIA computes on the node's card.
func TestImageCard(t *testing.T) {
	if os.Getenv("FERMI_CARD") == "" {
		t.Skip("it needs a card: make e2e-gpu")
	}
	w := newWorld(t, "--checkpoints-store", t.TempDir()) // not of the demo: its devices are virtual
	hub := harness.NewRegistry(t)
	python, program := harness.Python(t)
	image := hub.Push(t, "team/plain:v1", nil, python, map[string]string{"/etc/image-name": "=of-no-driver"})
	w.account(hub)
	if _, err := w.cl.Submit(t.Context(), &api.TrainingTask{Meta: api.Meta{Name: "card"}, Spec: api.TrainingTaskSpec{
		Image: image, Credentials: []api.CredentialRef{{Secret: "hub"}},
		Roles: []api.Role{{Name: "worker", Replicas: 1, Command: []string{program, "-c", cardProgram}, Resources: api.Resources{CPU: 1000, Memory: 4 << 30, Accelerators: api.Accelerators{Count: 1}}}},
	}}, false); err != nil {
		t.Fatal(err)
	}
	w.eventually("it ends", func() bool { return w.task("card").Status.Phase.Finished() })
	var log []string
	if err := w.cl.Logs(t.Context(), "default", "card", client.LogOptions{}, func(l client.LogLine) error {
		log = append(log, l.Text)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	t.Log(strings.Join(log, "\n"))
	if s := w.task("card").Status; s.Phase != api.PhaseCompleted || !slices.ContainsFunc(log, func(l string) bool { return strings.Contains(l, "card 1 ") && strings.Contains(l, " of-no-driver ") }) {
		t.Errorf("%s %+v", s.Phase, s.Message)
	}
}

// TestImageRefused: what a registry does not give ends in a clear state, and names what to do.
func TestImageRefused(t *testing.T) {
	w, hub := imageWorld(t)
	private := hub.Push(t, "team/x:v1", nil, map[string]string{"/etc/image-name": "=x"})
	for name, c := range map[string]struct{ image, want string }{
		"denied":  {private, "spec.credentials"},
		"nowhere": {"127.0.0.1:1/team/x:v1", "could not be brought"},
	} {
		if _, err := w.cl.Submit(t.Context(), &api.TrainingTask{Meta: api.Meta{Name: name}, Spec: api.TrainingTaskSpec{
			Roles: []api.Role{{Name: "worker", Replicas: 1, Image: c.image, Command: []string{"sh", "-c", "true"}, Resources: api.Resources{CPU: 100, Memory: 1 << 28}}},
		}}, false); err != nil {
			t.Fatal(err)
		}
		r := &roles{w, training{name, w.task(name).Meta.ID}}
		r.eventually(name+" ends", func() bool { return w.task(name).Status.Phase == api.PhaseFailed })
		if s := w.task(name).Status; !strings.Contains(s.Message.EN, c.want) || !strings.Contains(s.Message.ZH, "镜像") {
			t.Errorf("%s: %s %+v", name, s.Reason, s.Message)
		}
	}
}
