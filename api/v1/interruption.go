package v1

import "time"

// MaxRecoveries is how many of the last recoveries a task's status keeps.
const MaxRecoveries = 8

// Interruptions is what failures cost a task.
type Interruptions struct {
	Count     int            `json:"count" doc:"Failures so far."`
	Causes    map[string]int `json:"causes,omitempty" doc:"Failures by their cause."`
	LostSteps int64          `json:"lostSteps,omitempty" doc:"Steps that had to be made again, of the failures of which that is known."`
	// Untold counts failures whose lost steps nobody can know.
	Untold   int      `json:"untold,omitempty" doc:"Failures after which it is not known how many steps had to be made again: the ranks told none."`
	LostTime Duration `json:"lostTime,omitempty" doc:"From failures until training had passed the step that it had reached, or until all ranks ran where they tell no steps; together."`
	// Recovered and Phases are over all recoveries, not only those that are kept.
	Recovered int                 `json:"recovered,omitempty" doc:"Failures after which training was seen to have passed the step that it had reached."`
	Phases    map[string]Duration `json:"phases,omitempty" doc:"Time of these recoveries by phase: detect, attribute, place, start, restore, catchUp."`
	Last      []Recovery          `json:"last,omitempty" maxItems:"8" doc:"The last ones, newest last."`
}

// Recovery is one failure and the way back. A time that is absent was not reached, or can't be known: the ranks tell no steps.
type Recovery struct {
	Cause      string `json:"cause,omitempty" doc:"Absent until it is found."`
	Action     string `json:"action,omitempty" doc:"What was done about it: restart, swap (to another node) or stop."`
	Replica    string `json:"replica,omitempty" doc:"The one at fault."`
	Rank       *int   `json:"rank,omitempty" doc:"Of the process at fault; absent where the whole replica failed."`
	Node       string `json:"node,omitempty" doc:"That it was on."`
	Role       string `json:"role,omitempty" doc:"The role that starts again by itself; absent: the others."`
	Generation int    `json:"generation,omitempty" doc:"That answered it."`
	RecoverySteps
	FailedAt     time.Time  `json:"failedAt"`
	SeenAt       time.Time  `json:"seenAt" doc:"The leader knew of it."`
	AttributedAt *time.Time `json:"attributedAt,omitempty" doc:"The rank at fault and the cause were found."`
	OpenedAt     *time.Time `json:"openedAt,omitempty" doc:"The next generation was decided."`
	RunningAt    *time.Time `json:"runningAt,omitempty" doc:"All its ranks ran."`
	SteppedAt    *time.Time `json:"steppedAt,omitempty" doc:"All of them had made a step."`
	EndedAt      *time.Time `json:"endedAt,omitempty" doc:"They had passed where it failed; or the task ended or failed again; or all ran, where they tell no steps."`
}

// RecoverySteps is from where to where a recovery led, and what that cost.
type RecoverySteps struct {
	Step      int64  `json:"step,omitempty" doc:"The farthest that training had reached; absent: the ranks told none."`
	Made      int64  `json:"made,omitempty" doc:"The newest that the ranks which failed had made: less than step where they were still catching up."`
	Restore   int64  `json:"restore,omitempty" doc:"The step that it went on from: the one before the first that it made then, or, before that is known, the one that it was told."`
	LostSteps *int64 `json:"lostSteps,omitempty" doc:"Steps that had to be made again; absent: not known."`
	Passed    bool   `json:"passed,omitempty" doc:"Training was seen to have passed the step that it had reached."`
	Found     bool   `json:"found,omitempty" doc:"When it failed is not known: failedAt is when it was found."`
	Reloaded  bool   `json:"reloaded,omitempty" doc:"It went on from a checkpoint of a tier: memory had no step whole."`
	Kept      int    `json:"kept,omitempty" doc:"Ranks that kept their process: a partial restart. 0: all were started again."`
	Source    string `json:"source,omitempty" enum:"memory,instant,peer,local,shared,folder,script,beginning" doc:"Where the state that it went on from came from: memory (the ranks' own), instant (memory that checkpoint.instant saved to), peer (another node's memory), local (the disk of the node), shared (the store), folder (the newest whole entry of checkpoint.folder), script (the platform gave none; the script went on by itself), beginning (there was none). Absent until all ranks run."`
}

// RecoveryPhase is a part of a recovery.
type RecoveryPhase string

// The phases in their order.
const (
	RecoveryDetect    RecoveryPhase = "detect"
	RecoveryAttribute RecoveryPhase = "attribute"
	RecoveryPlace     RecoveryPhase = "place" // back-off and, for a new attempt, the old one's end included
	RecoveryStart     RecoveryPhase = "start"
	RecoveryRestore   RecoveryPhase = "restore"
	RecoveryCatchUp   RecoveryPhase = "catchUp"
)

// RecoveryPhases are all of them.
var RecoveryPhases = []RecoveryPhase{RecoveryDetect, RecoveryAttribute, RecoveryPlace, RecoveryStart, RecoveryRestore, RecoveryCatchUp}

// RecoveryGoal is how long coming back from a failure may take on average.
const RecoveryGoal = 5 * time.Minute

// Phases is how long each phase took, as far as the recovery got. Clocks of several machines may
// disagree: no phase is shorter than nothing.
func (r *Recovery) Phases() map[RecoveryPhase]time.Duration {
	out := map[RecoveryPhase]time.Duration{}
	last := r.FailedAt
	for i, at := range []*time.Time{&r.SeenAt, r.AttributedAt, r.OpenedAt, r.RunningAt, r.SteppedAt, r.EndedAt} {
		if at == nil {
			break
		}
		if i > 0 || !r.Found { // how long it took to be found is not known
			out[RecoveryPhases[i]] = max(at.Sub(last), 0)
		}
		if at.After(last) {
			last = *at
		}
	}
	return out
}

// Newest is the last recovery; nil: nothing failed.
func (in *Interruptions) Newest() *Recovery {
	if in == nil || len(in.Last) == 0 {
		return nil
	}
	return &in.Last[len(in.Last)-1]
}

// Mean is how long coming back took on average, by phase and together; ok is false where nothing came
// back yet.
func (in *Interruptions) Mean() (phases map[RecoveryPhase]time.Duration, whole time.Duration, ok bool) {
	if in == nil || in.Recovered == 0 {
		return nil, 0, false
	}
	phases = map[RecoveryPhase]time.Duration{}
	for _, name := range RecoveryPhases {
		if sum, there := in.Phases[string(name)]; there {
			phases[name] = sum.Std() / time.Duration(in.Recovered)
			whole += phases[name]
		}
	}
	return phases, whole, true
}
