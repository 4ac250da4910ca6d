package v1

// Move is what moving a running task means, and whether it was begun.
type Move struct {
	// Moving: the new place is reserved and the task was asked to go there.
	Moving bool `json:"moving"`
	// Fits says that there is a place now; where there is none Reason and Message say why.
	Fits    bool   `json:"fits"`
	Reason  string `json:"reason,omitempty" doc:"Machine-readable: why there is no place."`
	Message Text   `json:"message,omitzero"`

	From PlacementOption  `json:"from"`
	To   *PlacementOption `json:"to,omitempty"`
	Lost MoveLoss         `json:"lost"`
	// Bytes is not known before tasks name their data.
	Bytes *Bytes `json:"bytes,omitempty" doc:"What must be copied to the new zone first; absent when unknown."`
}

// MoveLoss is the work a move throws away if the task saves nothing in its grace.
type MoveLoss struct {
	SinceSeconds   int64    `json:"sinceSeconds" doc:"Since its last checkpoint, or since it started where none is known."`
	RestartSeconds int64    `json:"restartSeconds" doc:"What a restart costs."`
	Devices        int      `json:"devices"`
	DeviceSeconds  int64    `json:"deviceSeconds" doc:"(since + restart) × devices, one for a task without."`
	Grace          Duration `json:"grace" doc:"How long its processes have to save, between SIGTERM and SIGKILL."`
}

// TaskMove is one running task that would have to move so that a waiting one starts.
type TaskMove struct {
	Project string   `json:"project,omitempty" doc:"Absent with its name where the reader may not see the task."`
	Name    string   `json:"name,omitempty"`
	From    []string `json:"from" doc:"Nodes."`
	To      []string `json:"to" doc:"Nodes; they have room for it now."`
	// DeviceSeconds as in MoveLoss.
	DeviceSeconds int64 `json:"deviceSeconds" doc:"What it loses if it saves nothing in its grace."`
}
