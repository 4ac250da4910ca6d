package access

import (
	"maps"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Reach is how far somebody gets on a route.
type Reach uint8

const (
	none Reach = iota // refused, whatever it is about
	Own               // what is theirs: objects of their projects, their own user, tokens, sessions
	All
)

// Rule is a row of the table of access: how far each role gets on a route, the least scope a
// token needs there, and whether the token of a task may come, for that task.
type Rule struct {
	Admin, Operator, Member, Viewer Reach
	Scope                           api.TokenScope
	Task                            bool
}

const (
	read  = api.ScopeRead
	tasks = api.ScopeTasks
	power = api.ScopeAdmin
)

// table is who may do what, by operation id, beside the plain verbs of kinds, which are in the kind's row: every
// route has a rule, and a route without one is refused to everybody. What one may not see does not exist: a route
// that is own answers NotFound for what belongs to others. A test tries every rule with every role.
var table = map[string]Rule{
	//                    admin operator member viewer scope task
	"healthz":             {All, All, All, All, read, true}, // these three need nobody
	"readyz":              {All, All, All, All, read, true},
	"signIn":              {All, All, All, All, read, true},
	"version":             {All, All, All, All, read, true},
	"whoami":              {All, All, All, All, read, true},
	"openapi":             {All, All, All, All, read, false},
	"metrics":             {All, All, none, none, read, false},
	"listAudit":           {All, Own, Own, Own, power, false}, // own: of the projects that one is an owner of
	"exportAudit":         {All, Own, Own, Own, power, false},
	"backup":              {All, none, none, none, power, false},
	"rotate":              {All, none, none, none, power, false},
	"listEvents":          {All, All, Own, Own, read, false},
	"listCapacity":        {All, All, All, All, read, false},
	"listDevices":         {All, All, All, All, read, false}, // not by whom they are used
	"listShare":           {All, All, All, All, read, false},
	"getShare":            {All, All, All, All, read, false}, // tasks of others have no name there
	"sumUsage":            {All, All, Own, Own, read, false},
	"sumFigures":          {All, All, Own, Own, read, false},
	"getArchive":          {All, All, All, All, read, false},
	"putArchive":          {All, All, Own, none, tasks, false},
	"getSession":          {All, All, All, All, read, false},
	"signOut":             {Own, Own, Own, Own, power, false},
	"signOutEverywhere":   {All, Own, Own, Own, power, false},
	"makeSignInCode":      {Own, Own, Own, Own, power, false},
	"setPassword":         {All, Own, Own, Own, power, false},
	"addUserKey":          {All, Own, Own, Own, power, false},
	"removeUserKey":       {All, Own, Own, Own, power, false},
	"getSSH":              {All, All, All, All, read, false},
	"stopTask":            {All, none, Own, none, tasks, false},
	"cloneTask":           {All, none, Own, none, tasks, false},
	"restoreTask":         {All, none, Own, none, tasks, false},
	"pinCheckpoint":       {All, none, Own, none, tasks, false},
	"verifyCheckpoints":   {All, none, Own, none, tasks, false},
	"putCheckpointRank":   {All, none, Own, none, tasks, false},
	"importCheckpoint":    {All, none, Own, none, tasks, false},
	"moveTask":            {All, All, Own, none, tasks, false},
	"faultTask":           {All, All, Own, none, tasks, false},
	"profileTask":         {All, All, Own, none, tasks, false},
	"readTaskLog":         {All, All, Own, Own, read, true},
	"listTaskEvents":      {All, All, Own, Own, read, true},
	"explainTask":         {All, All, Own, Own, read, true},
	"listTaskReplicas":    {All, All, Own, Own, read, true},
	"listTaskCheckpoints": {All, All, Own, Own, read, true},
	"readCheckpointRank":  {All, All, Own, Own, read, true},
	"listTaskOutputs":     {All, All, Own, Own, read, true},
	"listTaskMetrics":     {All, All, Own, Own, read, true},
	"readTaskMetrics":     {All, All, Own, Own, read, true},
	"readTaskOutput":      {All, All, Own, Own, read, true},
	"previewPlacement":    {All, All, Own, Own, read, false},
	"previewRecipe":       {All, All, Own, Own, read, false},
	"previewExisting":     {All, All, Own, Own, read, false},
	"createExisting":      {All, none, Own, none, tasks, false},
	"previewOutage":       {All, All, none, none, read, false}, // names tasks of all projects
	"previewDrain":        {All, All, none, none, read, false}, // the same
	"zoneMatrix":          {All, All, All, All, read, false},
	"measureZone":         {All, All, none, none, power, false},
	"cordonNode":          {All, All, none, none, power, false},
	"uncordonNode":        {All, All, none, none, power, false},
	"drainNode":           {All, All, none, none, power, false},
	"testNode":            {All, All, none, none, power, false},
	"faultNode":           {All, All, none, none, power, false},
	"lostNode":            {All, All, none, none, power, false},
	"addNode":             {All, All, none, none, power, false},
	"removeNode":          {All, All, none, none, power, false},
	"upgradeNode":         {All, All, none, none, power, false},
}

// Kind is who may read and write the objects of a kind.
type Kind struct {
	Read, Write Rule
	// Task says that the token of a task reads it, where it is that task.
	Task bool
	// Mine says whether an object is the caller's own; nil: those of the caller's projects are.
	Mine func(w *Caller, o api.Object) bool
	// Of is whose project an object is, of a kind that lives in none: its members are as those of an object in it. "": everybody reads it. May be nil.
	Of func(o api.Object) string
	// Private says that an object is for its owner alone, whoever else is of its project; nil: none is.
	Private func(o api.Object) bool
	// NotMine is why others may not write it, where that needs words of its own.
	NotMine fault.Text
}

// Rules are the table and the rows of all kinds.
type Rules struct {
	by    map[string]Rule
	kinds map[api.Kind]Kind
}

func NewRules() *Rules {
	return &Rules{by: maps.Clone(table), kinds: map[api.Kind]Kind{}}
}

// Of is the rule of an operation; ok is false where there is none.
func (r *Rules) Of(id string) (one Rule, ok bool) {
	one, ok = r.by[id]
	return one, ok
}

// Size is how many operations have a rule.
func (r *Rules) Size() int { return len(r.by) }

// Add gives the plain verbs of a kind their rules.
func (r *Rules) Add(row api.KindInfo, a Kind) {
	r.kinds[row.Kind] = a
	get := a.Read
	get.Task = a.Task
	word := string(row.Kind)
	r.by["list"+word], r.by["watch"+word], r.by["get"+word] = a.Read, a.Read, get
	if row.Users {
		r.by["create"+word], r.by["update"+word], r.by["delete"+word] = a.Write, a.Write, a.Write
	}
}

// AsGet lets who may get one of a kind ask a further question about it.
func (r *Rules) AsGet(id string, kind api.Kind) { r.by[id] = r.by["get"+string(kind)] }

// AsWrite lets who may change one of a kind do a further thing with it.
func (r *Rules) AsWrite(id string, kind api.Kind) { r.by[id] = r.kinds[kind].Write }

// The rules of reading that most kinds have: what is everybody's, and what belongs to projects or people.
var (
	ReadAll = Rule{All, All, All, All, read, false}
	ReadOwn = Rule{All, All, Own, Own, read, false}
	// ReadOperators is what concerns only those who look after the cluster.
	ReadOperators = Rule{All, All, none, none, read, false}
)

// The rules of writing that several kinds have: who looks after the cluster, and who owns all of it.
var (
	WriteOperators = Rule{All, All, none, none, power, false}
	WriteAdmins    = Rule{All, none, none, none, power, false}
	// WriteTasks is of work in projects, WriteSecrets of what only a full token touches there, WriteMine of what
	// everybody has.
	WriteTasks   = Rule{All, none, Own, none, tasks, false}
	WriteSecrets = Rule{All, none, Own, none, power, false}
	WriteImages  = Rule{All, All, Own, none, tasks, false}
	WriteMine    = Rule{All, Own, Own, Own, power, false}
)
