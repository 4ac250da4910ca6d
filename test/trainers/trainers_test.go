package trainers

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/restored"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/app/kinds"
	"github.com/fermi-cluster/fermi/test/harness"
)

func TestMain(m *testing.M) {
	kinds.Ship()
	os.Exit(m.Run())
}

const (
	most      = 3 // steps that may be made again after a kill
	saveSteps = 4 // between two checkpoints that a script writes itself
	project   = "lab"
)

// trial is a script and how it is run.
type trial struct {
	library string
	ranks   int
	folder  bool   // it saves to a folder itself; otherwise it is saved in memory
	module  bool   // by python3 -m fermi.run, in a task that says nothing of it
	command bool   // submitted by fermi train run --instant
	own     bool   // its loader draws from a generator of its own
	preload string // what an interpreter that stands by has imported
}

func (c trial) name() string {
	how := "instant"
	switch {
	case c.folder:
		how = "folder"
	case c.module:
		how = "run"
	case c.own:
		how = "own"
	}
	return fmt.Sprintf("%s-%s-%d", c.library, how, c.ranks)
}

// calm names the run that nobody disturbs.
func (c trial) calm() string {
	if c.own {
		return fmt.Sprintf("%s-own-calm-%d", c.library, c.ranks)
	}
	return fmt.Sprintf("%s-calm-%d", c.library, c.ranks)
}

var trials = []trial{
	{library: "transformers", ranks: 1, command: true},
	{library: "lightning", ranks: 1},
	{library: "accelerate", ranks: 1},
	{library: "transformers", ranks: 1, folder: true},
	{library: "lightning", ranks: 1, folder: true},
	{library: "accelerate", ranks: 1, folder: true},
	{library: "transformers", ranks: 2},
	{library: "lightning", ranks: 2},
	{library: "accelerate", ranks: 2, module: true},
	{library: "lightning", ranks: 1, own: true},
	{library: "accelerate", ranks: 1, own: true},
}

// modules are those of a library that an interpreter which stands by has imported, under each name that the library has.
var modules = map[string][]string{"transformers": {"transformers.trainer"}, "lightning": {"lightning.pytorch", "pytorch_lightning"}, "accelerate": {"accelerate"}}

// module is the one of them that is installed; "": none is.
func (w *world) module(t *testing.T, library string) string {
	for _, name := range modules[library] {
		if exec.CommandContext(t.Context(), w.python, "-c", "import "+name).Run() == nil {
			return name
		}
	}
	return ""
}

// world is a server, and ann, a member of a project.
type world struct {
	*harness.Cluster
	t      *testing.T
	ann    *client.Client
	secret string
	python string
	kills  int
	seed   uint64
	calm   map[string]outcome // of runs that nobody disturbed, by library and ranks
}

// outcome is how a run ended.
type outcome struct {
	digest string
	steps  int64
}

func newWorld(t *testing.T) *world {
	t.Helper()
	home := os.Getenv("FERMI_TRAINERS")
	if home == "" {
		t.Skip("make e2e-trainers runs it")
	}
	c, admin := harness.Up(t, "--demo")
	w := &world{Cluster: c, t: t, python: filepath.Join(home, "bin", "python3"), kills: harness.EnvInt("FERMI_TRAINER_KILLS", 10), seed: uint64(harness.EnvInt("FERMI_SEED", 1)), calm: map[string]outcome{}}
	ctx := t.Context()
	_, err := client.Create(ctx, admin, &api.User{Meta: api.Meta{Name: "ann"}, Spec: api.UserSpec{Role: api.RoleMember}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := client.Get[*api.Project](ctx, admin, "", api.DefaultProject)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = client.Create(ctx, admin, &api.Project{Meta: api.Meta{Name: project}, Spec: api.ProjectSpec{Members: []string{"ann"}, Folders: p.Spec.Folders}}); err != nil {
		t.Fatal(err)
	}
	made, err := admin.CreateToken(ctx, &api.Token{Meta: api.Meta{Name: "ann"}, Spec: api.TokenSpec{User: "ann"}}, false)
	if err != nil {
		t.Fatal(err)
	}
	w.secret = made.Secret
	if w.ann, err = client.New(client.Config{Server: "http://" + c.Addr, Token: made.Secret}); err != nil {
		t.Fatal(err)
	}
	return w
}

// fermi runs the program as ann.
func (w *world) fermi(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), w.Bin, args...)
	cmd.Env = append(os.Environ(), "FERMI_SERVER=http://"+w.Addr, "FERMI_TOKEN="+w.secret, "FERMI_PROJECT="+project, "FERMI_LANG=en")
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("fermi %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// run is a task with a folder of its own.
type run struct{ name, id, dir string }

// begin submits a script as ann, for the nth time; 0: undisturbed, and nothing is saved.
func (w *world) begin(t *testing.T, c trial, nth int) run {
	t.Helper()
	dir, name, calm := harness.Folder(t), fmt.Sprintf("%s-%d", c.name(), nth), nth == 0
	err := os.CopyFS(filepath.Join(dir, "code"), os.DirFS("scripts"))
	if err = errors.Join(err, os.Chmod(filepath.Join(dir, "code"), 0o777)); err != nil {
		t.Fatal(err)
	}
	argv := []string{w.python, "with_" + c.library + ".py"}
	if c.module && !calm {
		argv = []string{w.python, "-m", "fermi.run", "with_" + c.library + ".py"}
	}
	pause := "0.25" // a step is long enough to be killed in, also on a busy machine
	if calm {
		pause = "0"
	}
	task := &api.TrainingTask{
		Meta: api.Meta{Name: name, Project: project},
		Spec: api.TrainingTaskSpec{
			Restart: &api.RestartPolicy{MaxRestarts: 1000}, Code: &api.Code{Folder: filepath.Join(dir, "code")},
			Roles: []api.Role{{
				Name: "worker", Ranks: c.ranks, Command: argv, Args: []string{"--pause", pause}, Resources: api.Resources{CPU: 100, Memory: 8 << 30}, Standby: &api.Standby{Preload: []string{"torch", c.preload}},
				// Lightning asks mpi4py where that is installed, and Open MPI wants a remote shell even for a single process.
				Env: []api.EnvVar{{Name: "OMP_NUM_THREADS", Value: "1"}, {Name: "HF_HUB_OFFLINE", Value: "1"}, {Name: "CUDA_VISIBLE_DEVICES", Value: ""},
					{Name: "OMPI_MCA_plm_rsh_agent", Value: "sh"}},
			}},
		},
	}
	if c.own {
		task.Spec.Roles[0].Args = append(task.Spec.Roles[0].Args, "--generator")
	}
	switch {
	case calm:
		task.Meta.Name = c.calm()
	case c.folder:
		task.Spec.Roles[0].Args = append(task.Spec.Roles[0].Args, "--save-steps", fmt.Sprint(saveSteps))
		task.Spec.Checkpoint = &api.Checkpoints{Folder: "ckpt"}
	case !c.module && !c.command:
		task.Spec.Checkpoint = &api.Checkpoints{Instant: "auto"}
	}
	if c.command && !calm {
		raw, err := json.Marshal(map[string]any{"kind": api.KindTrainingTask, "metadata": map[string]string{"name": task.Meta.Name, "project": project}, "spec": task.Spec})
		if err != nil {
			t.Fatal(err)
		}
		w.fermi(t, string(raw), "train", "run", "-d", "--instant", "-f", "-")
	} else if _, err := w.ann.Submit(t.Context(), task, false); err != nil {
		t.Fatal(err)
	}
	r := run{name: task.Meta.Name, dir: filepath.Join(dir, "code")}
	r.id = w.task(t, r).Meta.ID
	return r
}

func (w *world) task(t *testing.T, r run) *api.TrainingTask {
	t.Helper()
	task, err := client.Get[*api.TrainingTask](t.Context(), w.ann, project, r.name)
	if err != nil {
		t.Fatal(err)
	}
	return task
}

// entry is a line of a diary.
type entry struct {
	what string // step or saved
	step int64
	pid  int // as the rank sees it
}

// diary is what a rank wrote down so far.
func (r run) diary(rank int) (list []entry) {
	raw, _ := os.ReadFile(filepath.Join(r.dir, fmt.Sprintf("diary.%d", rank)))
	for line := range strings.Lines(string(raw)) {
		var e entry
		if n, _ := fmt.Sscanf(line, "%s %d %d\n", &e.what, &e.step, &e.pid); n == 3 && strings.HasSuffix(line, "\n") {
			list = append(list, e)
		}
	}
	return list
}

// stepsOf are the lines about steps.
func stepsOf(list []entry) (out []entry) {
	return slices.DeleteFunc(slices.Clone(list), func(e entry) bool { return e.what != "step" })
}

// ends waits for a good end, and sums the weights.
func (w *world) ends(t *testing.T, r run) outcome {
	t.Helper()
	ended := false
	defer func() {
		if !ended {
			t.Logf("%s\n%s", w.fermi(t, "", "why", r.name), w.fermi(t, "", "logs", r.name))
			w.still(t, r)
		}
	}()
	harness.Eventually(t, r.name+" ends", func() bool { return w.task(t, r).Status.Phase.Finished() })
	ended = true
	if s := w.task(t, r).Status; s.Phase != api.PhaseCompleted {
		t.Fatalf("%s ended %s: %s\n%s", r.name, s.Phase, s.Message.EN, w.fermi(t, "", "logs", r.name))
	}
	out, err := exec.CommandContext(t.Context(), w.python, "scripts/digest.py", filepath.Join(r.dir, "weights.pt")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	all := stepsOf(r.diary(0))
	return outcome{strings.TrimSpace(string(out)), all[len(all)-1].step}
}

// still says of each rank of a run that does not end when it made its last step, and what its process does.
func (w *world) still(t *testing.T, r run) {
	t.Helper()
	for rank := range w.task(t, r).Spec.Roles[0].Ranks {
		if seen, err := os.Stat(filepath.Join(r.dir, fmt.Sprintf("diary.%d", rank))); err == nil {
			t.Logf("rank %d wrote its last line %.0f s ago", rank, time.Since(seen.ModTime()).Seconds())
		}
		for _, pid := range harness.Processes("FERMI_TASK_ID="+r.id, fmt.Sprintf("FERMI_RANK=%d", rank)) {
			for _, file := range []string{"cmdline", "wchan", "syscall", "stack"} {
				text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
				t.Logf("rank %d, process %d, %s: %s %v", rank, pid, file, strings.ReplaceAll(string(text), "\x00", " "), err)
			}
		}
	}
}

// calmly is how a script ends that nobody disturbs.
func (w *world) calmly(t *testing.T, c trial) outcome {
	t.Helper()
	if got, ok := w.calm[c.calm()]; ok {
		return got
	}
	w.calm[c.calm()] = w.ends(t, w.begin(t, c, 0))
	return w.calm[c.calm()]
}

// disturb kills one rank or the other so many times, spread over the whole run, and says how often it did: fewer where the run ended before.
func (w *world) disturb(t *testing.T, r run, c trial, kills int, total int64, rnd *rand.Rand) (done int) {
	t.Helper()
	seen := 0 // lines of the diary when the last was killed
	for done < kills {
		rank, room := rnd.IntN(c.ranks), int64(0)
		if made := stepsOf(r.diary(rank)); len(made) > 0 {
			room = total - made[len(made)-1].step
		} else {
			room = total
		}
		want, pid := 1+rnd.IntN(max(1, int(room)/(kills-done+1))), 0
		look := 0
		harness.Eventually(t, fmt.Sprintf("%d more steps of %s", want, r.name), func() bool {
			look++
			all := stepsOf(r.diary(rank))
			if len(all) > 0 {
				pid = all[len(all)-1].pid
			}
			return len(all) >= seen+want || look%100 == 0 && w.task(t, r).Status.Phase.Finished()
		})
		time.Sleep(time.Duration(rnd.IntN(250)) * time.Millisecond) // anywhere within a step, or a save
		outer, err := harness.ProcessInside("FERMI_TASK_ID="+r.id, pid)
		if err != nil || syscall.Kill(outer, syscall.SIGKILL) != nil {
			if w.task(t, r).Status.Phase.Finished() {
				return done
			}
			continue // it died of the last one
		}
		done++
		harness.Eventually(t, "it is gone", func() bool {
			_, err := os.Stat(fmt.Sprintf("/proc/%d", outer)) // its pid within may be the next one's, too
			return err != nil
		})
		seen = len(stepsOf(r.diary(rank)))
	}
	return done
}

// part is which trials are done, of how many parts: FERMI_PART=3/12 is the fourth of twelve.
func part(t *testing.T) (part, parts int) {
	t.Helper()
	asked := os.Getenv("FERMI_PART")
	if asked == "" {
		return 0, 1
	}
	if n, err := fmt.Sscanf(asked, "%d/%d", &part, &parts); n != 2 || err != nil || part < 0 || part >= parts {
		t.Fatalf("FERMI_PART=%q is no part", asked)
	}
	return part, parts
}

// TestTrainers: see the package.
func TestTrainers(t *testing.T) {
	w := newWorld(t)
	for i, c := range trials {
		t.Run(c.name(), func(t *testing.T) {
			if only := os.Getenv("FERMI_ONLY"); only != "" && !slices.Contains(strings.Split(only, ","), c.name()) {
				t.Skip("not verified: not asked for by FERMI_ONLY")
			}
			if part, parts := part(t); i%parts != part {
				t.Skip("not verified here: of another FERMI_PART")
			}
			if c.preload = w.module(t, c.library); c.preload == "" {
				if os.Getenv("FERMI_TRAINERS_SAMPLE") != "" && os.Getenv("FERMI_ONLY") == "" {
					t.Skip("not verified: " + c.library + " is not in the sample")
				}
				t.Fatal(c.library + " is not installed")
			}
			began := time.Now()
			calm := w.calmly(t, c)
			rnd := rand.New(rand.NewPCG(w.seed, uint64(i)))
			for nth, done := 1, 0; done < w.kills; nth++ {
				r := w.begin(t, c, nth)
				kills := w.disturb(t, r, c, w.kills-done, calm.steps, rnd)
				got := w.ends(t, r)
				again, same := w.judge(t, r, c), got.digest == calm.digest
				t.Logf("seed %d: %d kills of %s over %d steps; at most %d steps made again, the same weights: %v; %.0f s", w.seed, kills, r.name, calm.steps, again, same, time.Since(began).Seconds())
				if kills == 0 || got.steps != calm.steps || !c.folder && !same {
					t.Fatalf("%d kills, %d of %d steps, the same weights: %v\n%s", kills, got.steps, calm.steps, same, w.fermi(t, "", "logs", r.name))
				}
				done += kills
			}
		})
	}
}

// judge reads the diaries: how many steps were made again after each kill, and where each start went on.
func (w *world) judge(t *testing.T, r run, c trial) (again int64) {
	t.Helper()
	var saved, last int64
	for _, e := range r.diary(0) {
		switch {
		case e.what == "saved":
			saved = e.step
			continue
		case e.step <= last:
			again = max(again, last-e.step+1)
		}
		from := e.step - 1
		if c.folder && from < last && (from < saved || from%saveSteps != 0) {
			t.Errorf("after step %d it went on from %d, and %d was written whole", last, from, saved)
		}
		if c.folder && from < last {
			saved = from
		}
		last = e.step
	}
	if !c.folder && again > most {
		t.Errorf("%d steps were made again", again)
	}
	w.told(t, r, c)
	return again
}

// told says that the platform tells people where each state came from.
func (w *world) told(t *testing.T, r run, c trial) {
	t.Helper()
	want, words := restored.Instant, "of an instant save in memory"
	switch {
	case c.folder:
		want, words = restored.Folder, "the script's own folder"
	case c.module:
		want, words = restored.Memory, "of memory"
	}
	in := w.task(t, r).Status.Interruptions
	if in == nil || len(in.Last) == 0 {
		t.Fatal("nothing failed, it says")
	}
	seen := 0
	for _, one := range in.Last {
		switch {
		case one.Source == want:
			seen++
		case one.Source == restored.Beginning && one.Restore == 0, one.Source == "": // nothing was saved yet, or the next kill came before all ran
		default:
			t.Errorf("it went on from %q: %+v", one.Source, one)
		}
		if !c.folder && one.LostSteps != nil && *one.LostSteps > most {
			t.Errorf("%d lost steps are told: %+v", *one.LostSteps, one)
		}
	}
	if out := w.fermi(t, "", "describe", "task", r.name); seen > 0 && !strings.Contains(out, words) {
		t.Errorf("%d of the last recoveries from %s; no %q in\n%s", seen, want, words, out)
	}
}
