package figure

import (
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/moment"
	"github.com/fermi-cluster/fermi/internal/control/gang"
)

// slack is by how much a figure may differ for each thing that happened: launchers report, and the way back is looked at, once a second.
const slack = 1500 * time.Millisecond

// recorded is a life that was recorded of a real task (testdata/lives/record.py).
type recorded struct {
	Turns []struct {
		Task         *api.TrainingTask
		Members      gang.Members
		After        *api.TrainingTaskStatus
		Over, Leaves bool
		Now          time.Time
		Clock        *moment.Mark
		Changed      bool
	}
	Diaries [][][2]float64 // by rank: step, when it was made
	Ledger  []struct {
		At   float64
		What string
	}
	Told api.TrainingTaskStatus
}

func readLife(t *testing.T, name string) (r recorded) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	plain, err := gzip.NewReader(f)
	if err == nil {
		err = json.NewDecoder(plain).Decode(&r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// replay has the figures of today look at every turn, and says what they made of the whole.
func (r *recorded) replay() (end api.TrainingTaskStatus) {
	for i, turn := range r.Turns {
		turn.Task.Status.Interruptions, turn.Task.Status.Time = end.Interruptions, end.Time
		turn.After.Interruptions, turn.After.Time = end.Interruptions, end.Time
		f := Turn{
			Terms: gang.Terms{Task: turn.Task}, Members: turn.Members, Before: &turn.Task.Status, After: turn.After, Over: turn.Over, Leaves: turn.Leaves,
			Now: turn.Now, Clock: turn.Clock, Changed: turn.Changed,
		}
		f.Recoveries()
		f.Time()
		written := i+1 == len(r.Turns) || r.Turns[i+1].Task.Meta.Revision != turn.Task.Meta.Revision // else somebody else wrote first
		if f.Changed && written {
			end = *turn.After
		}
	}
	return end
}

// account is the plain accounting, by the ranks' own diaries and what was done to them.
func (r *recorded) account(from, to time.Time) (spent map[api.TimeKind]time.Duration, failures, recoveries int, lost int64) {
	type entry struct {
		at   time.Time
		rank int
		step int64
		what string
	}
	at := func(seconds float64) time.Time { return time.UnixMicro(int64(seconds * 1e6)) }
	var all []entry
	for rank, diary := range r.Diaries {
		for _, line := range diary {
			all = append(all, entry{at(line[1]), rank, int64(line[0]), "step"})
		}
	}
	for _, l := range r.Ledger {
		all = append(all, entry{at: at(l.At), what: l.What})
	}
	slices.SortStableFunc(all, func(a, b entry) int { return a.at.Compare(b.at) })
	made := make([]int64, len(r.Diaries))
	spent = map[api.TimeKind]time.Duration{}
	mark, doing, reached, owed := from, api.TimeStarting, int64(0), int64(0)
	paint := func(until time.Time) { spent[doing] += until.Sub(mark); mark = until }
	var last time.Time // of the rank that hangs, the first
	for _, e := range all {
		switch e.what {
		case "step":
			if owed > 0 && e.rank == 0 {
				lost, owed = lost+max(owed-(e.step-1), 0), 0
			}
			if made[e.rank] = e.step; e.rank == 0 {
				last = e.at
			}
			if least := slices.Min(made); least > reached {
				if doing == api.TimeRecovering {
					recoveries++
				}
				paint(e.at)
				doing, reached = api.TimeEffective, least
			}
		case "failed", "hung":
			if e.what == "hung" {
				e.at = last
			}
			if failures++; doing == api.TimeEffective && e.at.After(mark) {
				paint(e.at)
			}
			doing, owed, reached = api.TimeRecovering, max(owed, slices.Max(made)), max(reached, slices.Max(made))
		case "left":
			doing = api.TimeAway
		}
	}
	paint(to)
	return spent, failures, recoveries, lost
}

// TestRecordedLives: the figures of real tasks are those that their ranks' diaries give.
func TestRecordedLives(t *testing.T) {
	names, err := filepath.Glob(filepath.Join("testdata", "lives", "*.json.gz"))
	if err != nil || len(names) < 2 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			r := readLife(t, name)
			end := r.replay()
			if end.Time == nil || end.FinishedAt == nil {
				t.Fatalf("%+v", end)
			}
			got, whole := end.Time.Until(*end.FinishedAt)
			want, failures, recoveries, lost := r.account(end.Time.From, *end.FinishedAt)
			if life := end.FinishedAt.Sub(end.Time.From); whole != life {
				t.Errorf("the parts add up to %s, its life was %s", whole, life)
			}
			near := time.Duration(len(r.Ledger)+1) * slack
			for _, kind := range []api.TimeKind{api.TimeEffective, api.TimeStarting, api.TimeRecovering, api.TimeStalled, api.TimeAway, api.TimeStopped, api.TimeUnknown} {
				if off := (got[kind] - want[kind]).Abs(); off > near {
					t.Errorf("%s: %s, by the diaries %s", kind, got[kind], want[kind])
				}
			}
			in := CopyInterruptions(end.Interruptions)
			if off := in.LostSteps - lost; in.Count != failures || max(off, -off) > int64(2*failures) {
				t.Errorf("%d failures, by the ledger %d; %d steps lost, by the diaries %d", in.Count, failures, in.LostSteps, lost)
			}
			if in.Recovered != recoveries {
				t.Errorf("%d recovered, by the diaries %d", in.Recovered, recoveries)
			}
			t.Logf("%d turns; %v, by the diaries %v; %d failures, %d steps lost, by the diaries %d", len(r.Turns), got, want, in.Count, in.LostSteps, lost)
		})
	}
}
