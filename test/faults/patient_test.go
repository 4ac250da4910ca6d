package faults

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/test/harness"
)

// patient is a training of Debian's PyTorch that goes wrong as it is told, time and again: scripts/patient.py in two
// replicas of two ranks.
type patient struct {
	w      *world
	name   string
	dir    string
	orders int
	silent bool // it was, in a hang or while a process was stopped
}

// folder is one that the tasks may write to, with a script of ours as train.py.
func (w *world) folder(script string) string {
	w.t.Helper()
	dir := harness.Folder(w.t)
	text, err := os.ReadFile(filepath.Join("scripts", script))
	if err := errors.Join(err, os.WriteFile(filepath.Join(dir, "train.py"), text, 0o644)); err != nil {
		w.t.Fatal(err)
	}
	return dir
}

func (w *world) patient(name string) *patient {
	return &patient{w: w, name: name, dir: w.folder("patient.py")}
}

// begin submits it; an order to fail at the start is there already.
func (p *patient) begin() {
	p.w.t.Helper()
	if _, err := p.w.cl.Submit(p.w.t.Context(), &api.TrainingTask{
		Meta: api.Meta{Name: p.name},
		Spec: api.TrainingTaskSpec{
			Restart: &api.RestartPolicy{MaxRestarts: 1000}, Code: &api.Code{Folder: p.dir},
			Roles: []api.Role{{
				Name: "worker", Replicas: 2, Ranks: 2, Resources: api.Resources{CPU: 500, Memory: 1 << 30}, Standby: &api.Standby{Preload: []string{"torch"}},
				Command: []string{"/usr/bin/python3", "train.py"}, Env: []api.EnvVar{{Name: "OMP_NUM_THREADS", Value: "1"}},
			}},
		},
	}, false); err != nil {
		p.w.t.Fatal(err)
	}
}

// order tells a rank to go wrong.
func (p *patient) order(k kind, rank int) {
	p.w.t.Helper()
	p.orders++
	when, often := "step", "once"
	if k.start {
		when = "start"
	}
	if k.every {
		often = "every"
	}
	number := strconv.Itoa(p.orders)
	err := os.WriteFile(filepath.Join(p.dir, "order."+number), fmt.Appendf(nil, "%d %s %s %s", rank, k.how, when, often), 0o644)
	next := filepath.Join(p.dir, "next")
	if err := errors.Join(err, os.WriteFile(next, []byte(number), 0o644), os.Rename(next, filepath.Join(p.dir, "order"))); err != nil {
		p.w.t.Fatal(err)
	}
}

// read is what the script has written.
func (p *patient) read(file string) string {
	text, _ := os.ReadFile(filepath.Join(p.dir, file))
	return string(text)
}

// made is how many steps rank 0 has made, if it began after then.
func (p *patient) made(then time.Time) int {
	begun, steps, _ := strings.Cut(p.read("steps"), " ")
	at, _ := strconv.ParseFloat(begun, 64)
	n, _ := strconv.Atoi(steps)
	if at < float64(then.UnixMicro())/1e6 {
		return 0
	}
	return n
}

// trains waits until it has made steps, begun after then, or has ended.
func (p *patient) trains(then time.Time) *api.TrainingTask {
	p.w.t.Helper()
	return p.w.until(p.name, "trains", func(t *api.TrainingTask) bool { return t.Status.Phase.Finished() || p.made(then) >= 5 })
}

// end lets it come to a good end, also where a process fails on its way out and the task goes back a step.
func (p *patient) end() {
	p.w.t.Helper()
	if p.w.task(p.name).Status.Phase.Finished() {
		return
	}
	p.order(kind{how: "end", every: true}, 0)
	p.w.done(p.name)
}

// hurt has one fault happen to it and says what that was taken for.
func (p *patient) hurt(k kind, rank int) verdict {
	p.w.t.Helper()
	before := 0
	if k.start {
		p.order(k, rank)
		p.begin()
	} else {
		before = failures(p.trains(time.Time{}))
		if k.fault == "node" {
			k.replica = p.read("replica." + strconv.Itoa(rank))
		}
		if k.fault != "" {
			p.w.hurtRank(p.name, rank, k.fault)
		} else {
			p.order(k, rank)
		}
	}
	t := p.w.until(p.name, "over "+k.String(), func(t *api.TrainingTask) bool {
		r := t.Status.Interruptions.Newest()
		known := failures(t) > before && r.AttributedAt != nil
		return t.Status.Phase.Finished() || !k.every && known && p.made(*r.AttributedAt) >= 5
	})
	v := judged(k, rank, t)
	wanted := 1
	if k.every {
		wanted = 2
	}
	if n := failures(t) - before; n != wanted {
		v.got += fmt.Sprintf(", failed %d times", n)
		v.right = false
	}
	return v
}

func failures(t *api.TrainingTask) int {
	if t.Status.Interruptions == nil {
		return 0
	}
	return t.Status.Interruptions.Count
}
