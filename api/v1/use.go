package v1

import "time"

// DeviceUseGoal is the platform's goal for the share of time in which devices work.
const DeviceUseGoal = 0.85

// Use is what a task uses, as its launchers see it, over the running generation.
type Use struct {
	At           time.Time `json:"at" doc:"When it was taken: more and more rarely as the task gets older, at least every 10 minutes."`
	Ranks        int       `json:"ranks"`
	Cores        float64   `json:"cores" doc:"CPU time of its processes over the time that passed."`
	CPUUse       float64   `json:"cpuUse,omitempty" doc:"Of the cores it asked for; absent on virtual nodes, where those are nominal."`
	Memory       Bytes     `json:"memory" doc:"Resident, of all its processes."`
	Devices      int       `json:"devices,omitempty" doc:"Whose driver could be asked; absent where there are none, or only virtual ones."`
	DeviceUse    float64   `json:"deviceUse,omitempty" doc:"Mean share of time in which they worked, by samples every 30 s."`
	DeviceMemory Bytes     `json:"deviceMemory,omitempty" doc:"In use on them."`
	DeviceTotal  Bytes     `json:"deviceTotal,omitempty" doc:"That they have."`
	Saves        int64     `json:"saves,omitempty" doc:"Checkpoints that ranks began, each rank counted."`
	WholeSaves   int64     `json:"wholeSaves,omitempty" doc:"Of these those that are, or were, whole."`
	// CrossZone is not measured: who talks to whom only the framework knows.
	CrossZone Bytes `json:"crossZone,omitempty" doc:"Bytes a second between zones, estimated: a ring all-reduce of 4 bytes for each parameter that ranks report, once a step. Absent within one zone, for other strategies than data parallel, and where ranks don't report parameters."`
	// Scaling is nil without a smaller world to compare with.
	Scaling *Scaling `json:"scaling,omitempty" doc:"How well it scales; absent until the same work was seen with fewer ranks."`
}

// Scaling compares the pace of a rank with its pace in a smaller world.
type Scaling struct {
	Efficiency float64 `json:"efficiency" doc:"Samples (or tokens, where ranks report no samples) a second and rank, against those of the smaller world."`
	BaseRanks  int     `json:"baseRanks" doc:"Ranks of the smallest world that the leader saw with the same project, name, framework, command and hyper-parameters."`
	BaseTask   string  `json:"baseTask" doc:"Whose that was; this task's own where it is elastic."`
}
