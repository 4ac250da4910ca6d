package v1

// ExistingRequest asks to train within environments that run already: the request of the console's
// form.
type ExistingRequest struct {
	TaskName         string      `json:"taskName" maxLength:"256"`
	DatasetID        string      `json:"datasetId,omitempty" doc:"Name or id of a dataset, found at /data/NAME."`
	DatasetVersionID string      `json:"datasetVersionId,omitempty" doc:"Its version; the newest when absent."`
	ModelID          string      `json:"modelId,omitempty" doc:"Name or id of a model, found at /models/NAME."`
	LaunchMode       string      `json:"launchMode" enum:"existing"`
	Distributed      Distributed `json:"distributedConfig"`
	// Command and Env are what the form does not ask for.
	Command []string `json:"command,omitempty" doc:"python3 train.py in the first environment's folder when absent."`
	Env     []EnvVar `json:"env,omitempty"`
}

// Distributed is which environments work together, and how.
type Distributed struct {
	Enabled        bool              `json:"enabled,omitempty"`
	NodeIDs        []string          `json:"nodeIds" nullable:"false" minItems:"1" maxItems:"1024" doc:"Names or ids of running environments, or of running tasks of one replica."`
	MasterNode     string            `json:"masterNode,omitempty" doc:"One of nodeIds; the first when absent."`
	Framework      Framework         `json:"framework,omitempty" doc:"pytorch-ddp when absent."`
	Strategy       *ExistingStrategy `json:"strategy,omitempty" doc:"The framework's usual way when absent."`
	TrainBatchSize int               `json:"trainBatchSize,omitempty" minimum:"0" maximum:"1073741824"`
}

// ExistingStrategy is the sizes whose product is the number of processes.
type ExistingStrategy struct {
	DataParallel     int `json:"dataParallel,omitempty" minimum:"0" maximum:"1048576"`
	PipelineParallel int `json:"pipelineParallel,omitempty" minimum:"0" maximum:"1048576"`
	TensorParallel   int `json:"tensorParallel,omitempty" minimum:"0" maximum:"1048576"`
}

// ExistingPreview is what the chosen environments are together.
type ExistingPreview struct {
	NodeCount     int            `json:"nodeCount"`
	TotalGPUs     int            `json:"totalGpus"`
	GPUTypes      []string       `json:"gpuTypes" nullable:"false"`
	Devices       map[string]int `json:"devices,omitempty" doc:"By type."`
	TotalCPUs     MilliCPU       `json:"totalCpus"`
	TotalMemory   Bytes          `json:"totalMemory"`
	Zones         []string       `json:"zones" nullable:"false"`
	IsDistributed bool           `json:"isDistributed"`
	MasterNode    string         `json:"masterNode"`
	Framework     Framework      `json:"framework"`
	Nodes         []ExistingNode `json:"nodes" nullable:"false" doc:"The master first, which has rank 0."`
	Warnings      []Text         `json:"warnings,omitempty"`
	StartSeconds  float64        `json:"startSeconds,omitempty" doc:"How long the last tasks inside environments took to start there, the median; absent: none was measured."`
	Message       Text           `json:"message"`
	Recipe        Recipe         `json:"recipe" doc:"What the framework makes of it."`
}

// ExistingNode is one environment.
type ExistingNode struct {
	ID      string         `json:"id" doc:"As it was asked for."`
	Name    string         `json:"name"`
	Node    string         `json:"node"`
	Zone    string         `json:"zone"`
	Devices map[string]int `json:"devices,omitempty" doc:"By type."`
	CPU     MilliCPU       `json:"cpu"`
	Memory  Bytes          `json:"memory"`
}
