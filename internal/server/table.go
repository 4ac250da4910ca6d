package server

import (
	"maps"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// reach is how far somebody gets on a route.
type reach uint8

const (
	none reach = iota // refused, whatever it is about
	own               // what is theirs: objects of their projects, their own user, tokens, sessions
	all
)

// rule is a row of the table of access: how far each role gets on a route, the least scope a
// token needs there, and whether the token of a task may come, for that task.
type rule struct {
	admin, operator, member, viewer reach
	scope                           api.TokenScope
	task                            bool
}

const (
	read  = api.ScopeRead
	tasks = api.ScopeTasks
	power = api.ScopeAdmin
)

// table is who may do what, by operation id, beside the plain verbs of kinds, which are in the kind's row: every
// route has a rule, and a route without one is refused to everybody. What one may not see does not exist: a route
// that is own answers NotFound for what belongs to others. A test tries every rule with every role.
var table = map[string]rule{
	//                    admin operator member viewer scope task
	"healthz":             {all, all, all, all, read, true}, // these three need nobody
	"readyz":              {all, all, all, all, read, true},
	"signIn":              {all, all, all, all, read, true},
	"version":             {all, all, all, all, read, true},
	"whoami":              {all, all, all, all, read, true},
	"openapi":             {all, all, all, all, read, false},
	"metrics":             {all, all, none, none, read, false},
	"listAudit":           {all, own, own, own, power, false}, // own: of the projects that one is an owner of
	"exportAudit":         {all, own, own, own, power, false},
	"backup":              {all, none, none, none, power, false},
	"rotate":              {all, none, none, none, power, false},
	"listEvents":          {all, all, own, own, read, false},
	"listCapacity":        {all, all, all, all, read, false},
	"listDevices":         {all, all, all, all, read, false}, // not by whom they are used
	"listShare":           {all, all, all, all, read, false},
	"getShare":            {all, all, all, all, read, false}, // tasks of others have no name there
	"sumUsage":            {all, all, own, own, read, false},
	"sumFigures":          {all, all, own, own, read, false},
	"getArchive":          {all, all, all, all, read, false},
	"putArchive":          {all, all, all, none, tasks, false},
	"getSession":          {all, all, all, all, read, false},
	"signOut":             {own, own, own, own, power, false},
	"signOutEverywhere":   {all, own, own, own, power, false},
	"makeSignInCode":      {own, own, own, own, power, false},
	"setPassword":         {all, own, own, own, power, false},
	"stopTask":            {all, none, own, none, tasks, false},
	"cloneTask":           {all, none, own, none, tasks, false},
	"restoreTask":         {all, none, own, none, tasks, false},
	"pinCheckpoint":       {all, none, own, none, tasks, false},
	"verifyCheckpoints":   {all, none, own, none, tasks, false},
	"putCheckpointRank":   {all, none, own, none, tasks, false},
	"importCheckpoint":    {all, none, own, none, tasks, false},
	"moveTask":            {all, all, own, none, tasks, false},
	"faultTask":           {all, all, own, none, tasks, false},
	"profileTask":         {all, all, own, none, tasks, false},
	"readTaskLog":         {all, all, own, own, read, true},
	"listTaskEvents":      {all, all, own, own, read, true},
	"explainTask":         {all, all, own, own, read, true},
	"listTaskReplicas":    {all, all, own, own, read, true},
	"listTaskCheckpoints": {all, all, own, own, read, true},
	"readCheckpointRank":  {all, all, own, own, read, true},
	"listTaskOutputs":     {all, all, own, own, read, true},
	"readTaskOutput":      {all, all, own, own, read, true},
	"previewPlacement":    {all, all, own, own, read, false},
	"previewRecipe":       {all, all, own, own, read, false},
	"previewExisting":     {all, all, own, own, read, false},
	"createExisting":      {all, none, own, none, tasks, false},
	"previewOutage":       {all, all, none, none, read, false}, // names tasks of all projects
	"previewDrain":        {all, all, none, none, read, false}, // the same
	"measureZone":         {all, all, none, none, power, false},
	"cordonNode":          {all, all, none, none, power, false},
	"uncordonNode":        {all, all, none, none, power, false},
	"drainNode":           {all, all, none, none, power, false},
}

// kindAccess is who may read and write the objects of a kind.
type kindAccess struct {
	read, write rule
	// task says that the token of a task reads it, where it is that task.
	task bool
	// mine says whether an object is the caller's own; nil: those of the caller's projects are.
	mine func(w *caller, o api.Object) bool
	// notMine is why others may not write it, where that needs words of its own.
	notMine fault.Text
}

// rules are the table and the rows of all kinds.
type rules struct {
	by    map[string]rule
	kinds map[api.Kind]kindAccess
}

func newRules() *rules {
	return &rules{by: maps.Clone(table), kinds: map[api.Kind]kindAccess{}}
}

// add gives the plain verbs of a kind their rules.
func (r *rules) add(row api.KindInfo, a kindAccess) {
	r.kinds[row.Kind] = a
	get := a.read
	get.task = a.task
	word := string(row.Kind)
	r.by["list"+word], r.by["watch"+word], r.by["get"+word] = a.read, a.read, get
	if row.Users {
		r.by["create"+word], r.by["update"+word], r.by["delete"+word] = a.write, a.write, a.write
	}
}

// The rules of reading that most kinds have: what is everybody's, and what belongs to projects or people.
var (
	readAll = rule{all, all, all, all, read, false}
	readOwn = rule{all, all, own, own, read, false}
)

// The rules of writing that several kinds have: who looks after the cluster, and who owns all of it.
var (
	writeOperators = rule{all, all, none, none, power, false}
	writeAdmins    = rule{all, none, none, none, power, false}
)
