package v1

import "time"

// What the platform aims at, shown beside what is measured.
const MFUGoal = 0.55

// Pace is how fast a task trains, as its ranks report it, over the steps of the running generation.
type Pace struct {
	At               time.Time `json:"at" doc:"When it was taken: more and more rarely as the task gets older, at least every 5 minutes."`
	Step             int64     `json:"step" doc:"That every rank had reached."`
	StepTime         Duration  `json:"stepTime" doc:"Mean; pauses for evaluation and saving are left out."`
	SamplesPerSecond float64   `json:"samplesPerSecond,omitempty"`
	TokensPerSecond  float64   `json:"tokensPerSecond,omitempty"`
	FlopsPerSecond   float64   `json:"flopsPerSecond,omitempty"`
	MFU              float64   `json:"mfu,omitempty" doc:"Share of what the devices could do at most; absent where that is not known, and for virtual devices."`
	DataWait         float64   `json:"dataWait,omitempty" doc:"Share of the steps' time in which ranks waited for data."`
	LossScale        float64   `json:"lossScale,omitempty" doc:"Of fp16 with fermi.precision, as it was last reported; absent where none is used."`
	SkippedSteps     int64     `json:"skippedSteps,omitempty" doc:"Steps that were left out since the training began because a gradient was not finite under the loss scale."`
}
