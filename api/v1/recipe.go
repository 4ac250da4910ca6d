package v1

// Recipe is what would be made of a distributed task: environment, files and commands.
type Recipe struct {
	Framework Framework    `json:"framework"`
	Strategy  StrategyKind `json:"strategy,omitempty" doc:"Absent for plain."`
	Sizes     RecipeSizes  `json:"sizes"`
	// Warnings are what will work, but perhaps not as meant.
	Warnings []Text `json:"warnings,omitempty"`
	// RankCount is of all; Ranks are the first few.
	RankCount int          `json:"rankCount" doc:"Processes of the whole task."`
	Ranks     []RecipeRank `json:"ranks" nullable:"false" doc:"The first 8."`
	Files     []RecipeFile `json:"files" nullable:"false" doc:"Found in the folder $FERMI_RECIPE of every replica."`
}

// RecipeSizes are the sizes in use: data × pipeline × tensor processes.
type RecipeSizes struct {
	World    int `json:"world" doc:"Processes that share the work."`
	Nodes    int `json:"nodes" doc:"Replicas they run in."`
	Data     int `json:"data"`
	Tensor   int `json:"tensor"`
	Pipeline int `json:"pipeline"`
	Expert   int `json:"expert"`
}

// RecipeRank is one process.
type RecipeRank struct {
	Rank    int      `json:"rank" doc:"Within its role."`
	Role    string   `json:"role"`
	Replica int      `json:"replica" doc:"Index of its replica within the role."`
	Backend string   `json:"backend" doc:"nccl, rccl, hccl, cncl or gloo."`
	Env     []EnvVar `json:"env" nullable:"false"`
	// Command is empty where another process starts this one, as mpirun does.
	Command []string `json:"command" nullable:"false"`
}

// RecipeFile is one file, whole.
type RecipeFile struct {
	Name string `json:"name"`
	Text string `json:"text"`
}
