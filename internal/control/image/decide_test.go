package image

import (
	"context"
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	kind "github.com/fermi-cluster/fermi/api/v1/image"
	"github.com/fermi-cluster/fermi/internal/control/work"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const digest = "sha256:0000000000000000000000000000000000000000000000000000000000000000"

// ending is a job whose one replica has ended so.
func ending(exit engine.Exit) *work.Seen {
	j := &kind.ImageJob{Meta: api.Meta{ID: "imgjob-1", Name: "look", Project: "lab"}, Spec: kind.ImageJobSpec{Do: kind.Inspect, Image: "x:1"}}
	j.Status.Status = work.Status{Phase: api.PhaseRunning, Attempt: 1}
	name := engine.NameOf("imgjob-1", kind.RoleName, 0, 1)
	return &work.Seen{
		Work: j, View: j.Workload(), ArchiveAfter: time.Minute, Placement: &api.Placement{Spec: api.PlacementSpec{Attempt: 1}},
		Members: []work.Member{{Name: name, Role: kind.RoleName, Attempt: 1, Node: &api.Node{}, Known: engine.Observation{Name: name, State: engine.StateDone, Exit: &exit}}},
	}
}

// TestEnds: a job is what it found, or why it did not; only what was lost begins again.
func TestEnds(t *testing.T) {
	well, badly := engine.Exit{Reason: engine.ReasonSucceeded}, engine.Exit{Code: 1, Reason: engine.ReasonNonZero}
	found := kind.Result{Found: &kind.ImageFound{Digest: digest}}
	refused := kind.Result{Refused: &kind.Refusal{Reason: "NoBaseImage", Message: fault.T("Not there.", "不存在。"), Hint: fault.T("Look.", "请检查。")}}
	for name, c := range map[string]struct {
		exit   engine.Exit
		res    kind.Result
		known  bool
		phase  api.Phase
		reason string
		words  string
	}{
		"found":           {well, found, true, api.PhaseCompleted, "Succeeded", digest},
		"nothing left":    {well, kind.Result{}, false, api.PhaseFailed, "NoResult", "no result"},
		"refused":         {badly, refused, true, api.PhaseFailed, "NoBaseImage", "Not there. Look."},
		"refused unsaid":  {badly, kind.Result{}, false, api.PhaseFailed, engine.ReasonNonZero, "exit code 1"},
		"not started":     {engine.Exit{Code: 126, Reason: engine.ReasonStartFailed, Message: fault.T("No image.", "没有镜像。").Pack()}, kind.Result{}, false, api.PhaseFailed, engine.ReasonStartFailed, "No image."},
		"lost, once more": {engine.Exit{Code: -1, Reason: engine.ReasonLauncherLost}, kind.Result{}, false, api.PhaseRecovering, engine.ReasonLauncherLost, ""},
	} {
		p := decide(ending(c.exit), c.res, c.known, now)
		if p.Next == nil {
			t.Errorf("%s: nothing happens", name)
			continue
		}
		st := p.Next.(*kind.ImageJob).Status
		if st.Phase != c.phase || st.Reason != c.reason || !strings.Contains(st.Message.EN, c.words) || (st.Found != nil) != (c.phase == api.PhaseCompleted) {
			t.Errorf("%s: %s %s %q %v", name, st.Phase, st.Reason, st.Message.EN, st.Found)
		}
	}
}

// TestLook: what a job leaves is input.
func TestLook(t *testing.T) {
	for text, want := range map[string]bool{
		`{"found":{"reference":"x:1","digest":"` + digest + `"}}`:  true,
		`{"refused":{"reason":"A","message":{"en":"a","zh":"b"}}}`: true,
		`{"found":{"digest":"sha256:0"}}`:                          false,
		`{"found":{"digest":"` + digest + `","size":-1}}`:          false,
		`{"found":{"digest":"` + digest + `"}} {}`:                 false,
		`{"other":1}`: false,
		`{"refused":{"reason":"` + strings.Repeat("A", 5000) + `","message":{}}}`: false,
		``: false,
	} {
		s := ending(engine.Exit{Reason: engine.ReasonSucceeded})
		r := &rules{results: map[string]kind.Result{}, output: func(_ context.Context, n engine.Name, file string, most int64) ([]byte, error) {
			if n != s.Members[0].Name || file != kind.ResultFile || most < 1 {
				t.Errorf("%s of %s", file, n)
			}
			return []byte(text), nil
		}}
		r.Look(t.Context(), s, now)
		if _, known := r.result("imgjob-1"); known != want {
			t.Errorf("%.80s: %v", text, known)
		}
	}
}

func TestFill(t *testing.T) {
	r := &rules{allowed: []string{"a.example", "b.example/x"}}
	j := &kind.ImageJob{Spec: kind.ImageJobSpec{Do: kind.Build, Image: "x:1", Build: &kind.ImageRecipe{}}}
	replica := engine.Replica{Command: j.Workload().Roles[0].Command}
	r.Fill(j, nil, &replica)
	if got := strings.Join(replica.Command, " "); got != "fermi image-job build --file Dockerfile --allow a.example --allow b.example/x -- x:1" || replica.Images != engine.ImageBuild {
		t.Errorf("%q %s", got, replica.Images)
	}
}
