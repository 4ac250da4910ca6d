package disk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/test/harness"
)

// picture is what a server answers to every question about what was acknowledged; until is when it was drawn first: what
// happened later is not in it.
type picture struct {
	until   time.Time
	answers map[string]string
}

func (p picture) questions() []string { return slices.Sorted(maps.Keys(p.answers)) }

// live lets a server acknowledge something of every kind, and is the picture of it: tasks that ended and are archived, with
// outputs, logs, curves and checkpoints; one that waits; a project, a user, a token, a secret; usage and audit.
func (w *world) live() picture {
	t, ctx := w.t, w.t.Context()
	for _, o := range []api.Object{
		&api.Project{Meta: api.Meta{Name: "lab"}, Spec: api.ProjectSpec{Queue: "default"}},
		&api.User{Meta: api.Meta{Name: "ann"}, Spec: api.UserSpec{Role: api.RoleMember}},
	} {
		if _, err := w.api.Create(ctx, o, false); err != nil {
			t.Fatal(err)
		}
	}
	value := filepath.Join(filepath.Dir(w.Dir), "value")
	if err := os.WriteFile(value, []byte("opensesame"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"secret", "set", "key", "value=" + value}, {"token", "create", "--user", "ann", "hers"}} {
		if out, err := w.fermi(args...); err != nil {
			t.Fatalf("%v: %v %s", args, err, out)
		}
	}
	w.submit(shell("one", `i=0; while [ $i -lt 10000 ]; do printf 0123456789abcdef; i=$((i+1)); done > $FERMI_OUTPUT/f; echo said by $FERMI_REPLICA`))
	two := shell("two", "")
	two.Spec.Roles[0].Command = []string{"fermi", "sample", "train", "--steps", "60", "--step-time", "5ms"}
	two.Spec.Checkpoint = &api.Checkpoints{Shared: &api.CheckpointTier{EverySteps: 20}}
	w.submit(two)
	w.submit(shell("bad", "echo it fails; exit 3"))
	w.phase("one", api.PhaseCompleted)
	w.phase("two", api.PhaseCompleted)
	w.phase("bad", api.PhaseFailed)
	for _, o := range w.nodes(w.t) {
		if _, err := w.api.NodeVerb(ctx, "cordon", o.GetMeta().Name, -1); err != nil {
			t.Fatal(err)
		}
	}
	w.submit(shell("waits", "echo it ran > $FERMI_OUTPUT/f"))
	harness.Eventually(t, "all that ended are archived, and what is counted is written", func() bool {
		return w.archived() == 3
	})
	until := time.Now()
	p := w.look(ctx, until)
	for _, question := range p.questions() {
		if strings.HasPrefix(p.answers[question], "error: ") {
			t.Fatalf("%s: %s", question, p.answers[question])
		}
	}
	return p
}

// archived is how many tasks have left the store: the first thing that a watch tells of is what is in it.
func (w *world) archived() (n int) {
	live, enough := map[string]bool{}, errors.New("enough")
	err := w.api.Watch(w.t.Context(), api.KindTrainingTask, client.WatchOptions{}, func(c client.Change) error {
		if c.Object == nil {
			return enough
		}
		live[c.Object.GetMeta().Name] = true
		return nil
	})
	if !errors.Is(err, enough) {
		return 0
	}
	for _, name := range []string{"one", "two", "bad"} {
		if !live[name] {
			n++
		}
	}
	return n
}

// look asks everything.
func (w *world) look(ctx context.Context, until time.Time) picture {
	p := picture{until, map[string]string{}}
	at := until.UTC().Format(time.RFC3339Nano)
	ask := func(path string, query url.Values) {
		raw, err := w.api.Raw(ctx, path, query)
		p.answers["get "+path+"?"+query.Encode()] = said(steady(raw), err)
	}
	for _, path := range []string{"/projects", "/users", "/tokens", "/secrets", "/queues"} {
		ask(path, url.Values{"limit": {"100"}})
	}
	ask("/audit", url.Values{"until": {at}, "limit": {"1000"}})
	for _, by := range []string{"task", "user", "zone"} {
		ask("/usage", url.Values{"by": {by}, "from": {until.Add(-time.Hour).UTC().Format(time.RFC3339Nano)}, "to": {at}})
	}
	for _, name := range []string{"one", "two", "bad"} {
		task := "/training-tasks/" + name
		ask(task, nil)
		for _, part := range []string{"events", "replicas", "metrics"} {
			ask(task+"/"+part, nil)
		}
		raw, err := w.api.Raw(ctx, task+"/outputs", nil)
		p.answers["outputs of "+name] = said(steady(raw), err)
		raw, err = w.api.Raw(ctx, task+"/metrics/points", url.Values{"points": {"20000"}, "rank": {"all"}})
		p.answers["points of "+name] = said(steady(raw), err)
		var log bytes.Buffer
		err = w.api.Logs(ctx, "default", name, client.LogOptions{}, func(l client.LogLine) error {
			_, err := fmt.Fprintln(&log, l.Text)
			return err
		})
		p.answers["logs of "+name] = said(log.String(), err)
	}
	for name, path := range map[string]string{"one": "worker-0/f", "two": "worker-0/model.json"} {
		got, err := w.output(ctx, name, path)
		p.answers["outputs of "+name+": "+path] = said(string(got), err)
	}
	raw, err := w.api.Raw(ctx, "/training-tasks/two/checkpoints", nil)
	p.answers["checkpoints of two"] = said(steady(raw), err)
	o, err := w.api.Get(ctx, api.KindTrainingTask, "default", "waits")
	if err == nil {
		raw, _ = json.Marshal(o.(*api.TrainingTask).Spec)
		p.answers["what waits"] = o.GetMeta().ID + string(raw)
	} else {
		p.answers["what waits"] = said("", err)
	}
	return p
}

func said(text string, err error) string {
	if err != nil {
		return "error: " + err.Error() + " " + text
	}
	return text
}

// passing are parts of an answer that tell of now.
var passing = []string{"revision", "updatedAt", "lastUsedAt", "lastUsed", "cursor", "modified", "committedAt"}

// steady is an answer without them.
func steady(raw json.RawMessage) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return string(raw)
	}
	var strip func(v any)
	strip = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if items, ok := v["items"].([]any); ok { // codes to sign in with are made at each start, a token at that of a new folder
				v["items"] = slices.DeleteFunc(items, func(one any) bool {
					token, _ := one.(map[string]any)
					spec, _ := token["spec"].(map[string]any)
					meta, _ := token["metadata"].(map[string]any)
					return spec["use"] == "code" || meta["displayName"] == "Administrator's token of this folder"
				})
			}
			for _, key := range passing {
				delete(v, key)
			}
			for _, one := range v {
				strip(one)
			}
		case []any:
			for _, one := range v {
				strip(one)
			}
		}
	}
	strip(v)
	out, _ := json.Marshal(v)
	return string(out)
}
