package v1

import "github.com/fermi-cluster/fermi/internal/fault"

// KindInfo is a row of the table of kinds. Store prefixes, REST routes, OpenAPI schemas and CLI
// verbs follow from it; a test walks the table and fails on a missing link.
type KindInfo struct {
	Kind     Kind
	Singular string   // CLI word: "task"
	Plural   string   // REST segment: "training-tasks"
	Aliases  []string // further CLI words
	IDPrefix string
	// Project says that objects live in a project.
	Project bool
	// Phased says that objects finish and are then archived.
	Phased bool
	// Users says that people may create, change and delete it through the plain REST verbs;
	// otherwise it is read-only there.
	Users bool
	// Class is the priority class that work of the kind has when it does not say; "": the kind does not run.
	// What runs implements Work.
	Class string
	New   func() Object
}

// Kinds is the table. Order is the order of documentation.
var Kinds = []KindInfo{
	{KindTrainingTask, "task", "training-tasks", []string{"tasks", "trainingtask", "trainingtasks", "training-task", "train"}, "task", true, true, true, defaultPriorityClass, func() Object { return &TrainingTask{} }},
	{KindPlacement, "placement", "placements", []string{}, "plc", true, false, false, "", func() Object { return &Placement{} }},
	{KindZone, "zone", "zones", []string{}, "zone", false, false, true, "", func() Object { return &Zone{} }},
	{KindNode, "node", "nodes", []string{}, "node", false, false, false, "", func() Object { return &Node{} }},
	{KindQueue, "queue", "queues", []string{}, "queue", false, false, true, "", func() Object { return &Queue{} }},
	{KindProject, "project", "projects", []string{}, "proj", false, false, true, "", func() Object { return &Project{} }},
	{KindUser, "user", "users", []string{}, "user", false, false, true, "", func() Object { return &User{} }},
	{KindToken, "token", "tokens", []string{}, "tok", false, false, true, "", func() Object { return &Token{} }},
	{KindSecret, "secret", "secrets", []string{}, "sec", true, false, true, "", func() Object { return &Secret{} }},
}

// Register adds a row to the table. It is for programs that bring a kind of their own: before anything
// reads the table, once.
func Register(row KindInfo) { Kinds = append(Kinds, row) }

// InfoOf is the row of a kind; ok is false for an unknown one.
func InfoOf(k Kind) (KindInfo, bool) {
	for _, row := range Kinds {
		if row.Kind == k {
			return row, true
		}
	}
	return KindInfo{}, false
}

// MustInfo is InfoOf for kinds known at compile time.
func MustInfo(k Kind) KindInfo {
	row, ok := InfoOf(k)
	if !ok {
		panic("api: no such kind: " + string(k))
	}
	return row
}

// Defaulter fills what the user left out. It never overwrites.
type Defaulter interface{ Default() }

// Validator lists every refused field at once; empty means acceptable. It is called after Default.
type Validator interface{ Validate() []fault.Field }
