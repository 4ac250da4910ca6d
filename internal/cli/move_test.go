package cli

import (
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/cli/clitest"
)

func TestTrainMove(t *testing.T) {
	f := clitest.New(t)
	f.Add(&api.TrainingTask{Meta: api.Meta{ID: "task-1", Name: "gpt-1", Project: "default"}})
	check(t, fermi(f, t, "", "train", "move", "gpt-1", "--zone", "b"), result{out: `task/gpt-1 moves to b (2 × node); its place there is reserved.
It loses at most 24 device-minutes: 60s since its last checkpoint or start, 120s to restart, 8 devices; it has 2m0s to save.
`})
	check(t, fermi(f, t, "", "train", "move", "gpt-1", "--zone", "b", "--preview"), result{out: `It could move now.
OPTION   ZONES  NODES  LATENCY  EFFICIENCY  PRICE/H  CO₂/H  RACK LOSS
now      a          2        -        ≈90%               -         0%
planned  b          2        -        ≈90%               -         0%
It loses at most 24 device-minutes: 60s since its last checkpoint or start, 120s to restart, 8 devices; it has 2m0s to save.
`})
	if got := fermi(f, t, "", "train", "move", "gpt-1", "--zone", "full"); got.code == 0 || !strings.Contains(got.err, "All busy.") {
		t.Errorf("%+v", got)
	}
	if got := fermi(f, t, "", "train", "move", "gpt-1"); got.code != 2 || !strings.Contains(got.err, "--zone") {
		t.Errorf("%+v", got)
	}
}

// TestWhyMoves: what could move is said with the command that does it, but not whose it is to others.
func TestWhyMoves(t *testing.T) {
	f := clitest.New(t)
	f.Add(&api.TrainingTask{Meta: api.Meta{ID: "task-1", Name: "gpt-1", Project: "default"}})
	f.Moves = []api.TaskMove{
		{Project: "default", Name: "small", From: []string{"n1"}, To: []string{"n2", "n3"}, DeviceSeconds: 180},
		{Project: "lab", Name: "other", From: []string{"n1"}, To: []string{"n4"}, DeviceSeconds: 7200},
		{From: []string{"n5"}, To: []string{"n4"}, DeviceSeconds: 7},
	}
	got := fermi(f, t, "", "why", "gpt-1")
	if want := `  moving small (loses 3 device-minutes), and: fermi train move small --node n2,n3
  moving other (loses 2.0 device-hours), and: fermi train move other --node n4 --project lab
  moving a task of another project (loses 7 device-seconds) would admit it
`; !strings.HasSuffix(got.out, want) {
		t.Errorf("%s", got.out)
	}
}
