package server

import (
	"context"
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store"
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

// access is who may do what, by operation id: every route has a row, and a route without one is
// refused to everybody. What one may not see does not exist: a route that is own answers NotFound
// for what belongs to others. A test tries every row with every role.
var access = map[string]rule{
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
	"listTrainingTask":    {all, all, own, own, read, false},
	"getTrainingTask":     {all, all, own, own, read, true},
	"watchTrainingTask":   {all, all, own, own, read, false},
	"createTrainingTask":  {all, none, own, none, tasks, false},
	"updateTrainingTask":  {all, none, own, none, tasks, false},
	"deleteTrainingTask":  {all, none, own, none, tasks, false},
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
	"listPlacement":       {all, all, own, own, read, false},
	"getPlacement":        {all, all, own, own, read, false},
	"watchPlacement":      {all, all, own, own, read, false},
	"previewPlacement":    {all, all, own, own, read, false},
	"previewRecipe":       {all, all, own, own, read, false},
	"previewExisting":     {all, all, own, own, read, false},
	"createExisting":      {all, none, own, none, tasks, false},
	"listSecret":          {all, all, own, own, read, false}, // never with its values
	"getSecret":           {all, all, own, own, read, false},
	"watchSecret":         {all, all, own, own, read, false},
	"createSecret":        {all, none, own, none, power, false},
	"updateSecret":        {all, none, own, none, power, false},
	"deleteSecret":        {all, none, own, none, power, false},
	"listZone":            {all, all, all, all, read, false},
	"getZone":             {all, all, all, all, read, false},
	"watchZone":           {all, all, all, all, read, false},
	"createZone":          {all, all, none, none, power, false},
	"updateZone":          {all, all, none, none, power, false},
	"deleteZone":          {all, all, none, none, power, false},
	"previewOutage":       {all, all, none, none, read, false}, // names tasks of all projects
	"previewDrain":        {all, all, none, none, read, false}, // the same
	"measureZone":         {all, all, none, none, power, false},
	"listNode":            {all, all, all, all, read, false},
	"getNode":             {all, all, all, all, read, false},
	"watchNode":           {all, all, all, all, read, false},
	"cordonNode":          {all, all, none, none, power, false},
	"uncordonNode":        {all, all, none, none, power, false},
	"drainNode":           {all, all, none, none, power, false},
	"listQueue":           {all, all, all, all, read, false},
	"getQueue":            {all, all, all, all, read, false},
	"watchQueue":          {all, all, all, all, read, false},
	"createQueue":         {all, all, none, none, power, false},
	"updateQueue":         {all, all, none, none, power, false},
	"deleteQueue":         {all, all, none, none, power, false},
	"listProject":         {all, all, own, own, read, false},
	"getProject":          {all, all, own, own, read, false},
	"watchProject":        {all, all, own, own, read, false},
	"createProject":       {all, none, none, none, power, false},
	"updateProject":       {all, none, none, none, power, false},
	"deleteProject":       {all, none, none, none, power, false},
	"listUser":            {all, all, own, own, read, false},
	"getUser":             {all, all, own, own, read, false},
	"watchUser":           {all, all, own, own, read, false},
	"createUser":          {all, none, none, none, power, false},
	"updateUser":          {all, none, none, none, power, false},
	"deleteUser":          {all, none, none, none, power, false},
	"listToken":           {all, all, own, own, read, false},
	"getToken":            {all, all, own, own, read, false},
	"watchToken":          {all, all, own, own, read, false},
	"createToken":         {all, own, own, own, power, false},
	"updateToken":         {all, own, own, own, power, false},
	"deleteToken":         {all, own, own, own, power, false},
}

// readRule and writeRule name the rows that judge an object itself.
func readRule(kind api.Kind) string { return "get" + string(kind) }

func writeRule(kind api.Kind) string {
	if kind == api.KindNode {
		return "cordonNode"
	}
	return "update" + string(kind)
}

var scopeOrder = []api.TokenScope{read, tasks, power}

// scope is the largest a token has. One that is limited to projects never has more than tasks: it
// could make itself a token without that limit.
func (w *caller) scope() api.TokenScope {
	switch s := w.token.Spec.Scope; {
	case s == read:
		return read
	case s == tasks || len(w.token.Spec.Projects) > 0:
		return tasks
	}
	return power
}

// limited says that the token is for some projects only.
func (w *caller) limited() bool { return len(w.token.Spec.Projects) > 0 }

// reach looks into the table.
func (w *caller) reach(id string) reach {
	r := access[id]
	if w.token.Spec.Task != "" {
		if r.task {
			return own
		}
		return none
	}
	if slices.Index(scopeOrder, w.scope()) < slices.Index(scopeOrder, r.scope) {
		return none
	}
	got := none
	switch w.role() {
	case api.RoleAdmin:
		got = r.admin
	case api.RoleOperator:
		got = r.operator
	case api.RoleMember:
		got = r.member
	case api.RoleViewer:
		got = r.viewer
	}
	if w.limited() && got == all && r.viewer != all {
		if r.member == own || r.viewer == own {
			return own
		}
		return none
	}
	return got
}

// mayCall refuses who gets nowhere on a route, and says why.
func (w *caller) mayCall(id string) error {
	if w.reach(id) != none {
		return nil
	}
	t := w.token.Spec
	switch {
	case t.Task != "":
		return fault.New(fault.Forbidden, "TaskToken", fault.T(
			"This token belongs to a task and reads that task only.", "该令牌属于某个任务，只能读取该任务。"))
	case (&caller{user: w.user, token: &api.Token{}}).reach(id) != none:
		return fault.New(fault.Forbidden, "ScopeTooSmall", fault.T(
			"You may do this, but this token may not: its scope is %s.", "您有此权限，但该令牌没有：其权限范围为 %s。", w.scope()))
	}
	return notAllowed(w)
}

func notAllowed(w *caller) error {
	return fault.New(fault.Forbidden, "NotAllowed", fault.T("The role %s may not do this.", "角色 %s 无权执行此操作。", w.role()))
}

// seesAll is for those who look after the cluster.
func (w *caller) seesAll() bool {
	return w.token.Spec.Task == "" && !w.limited() && (w.role() == api.RoleAdmin || w.role() == api.RoleOperator)
}

// belongs says whether a project is among the caller's own. A token that is limited to projects
// sees only those; admins and operators need not be members of them.
func (w *caller) belongs(p *api.Project) bool {
	if w.limited() && !slices.Contains(w.token.Spec.Projects, p.Meta.Name) {
		return false
	}
	if w.limited() && (w.role() == api.RoleAdmin || w.role() == api.RoleOperator) {
		return true
	}
	return slices.Contains(p.Spec.Members, w.name())
}

// memberOf says whether the caller belongs to a project; false for one that does not exist.
func (s *Server) memberOf(ctx context.Context, w *caller, project string) (bool, error) {
	o, err := s.find(ctx, api.Key{Kind: api.KindProject, Name: project}, 0)
	if fault.Is(err, fault.NotFound) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	return w.belongs(o.(*api.Project)), nil
}

// owns says whether an object is the caller's own, or of a project of theirs.
func (s *Server) owns(ctx context.Context, w *caller, o api.Object) (bool, error) {
	m := o.GetMeta()
	switch o := o.(type) {
	case *api.User:
		return m.Name == w.name(), nil
	case *api.Token:
		return o.Spec.User == w.name(), nil
	case *api.Project:
		return w.belongs(o), nil
	}
	if m.Project == "" {
		return false, nil
	}
	return s.memberOf(ctx, w, m.Project)
}

// mayRead says whether the caller sees this object. It is cheap: at most one look at the cache.
func (s *Server) mayRead(ctx context.Context, w *caller, o api.Object) (bool, error) {
	if scope := w.token.Spec.Task; scope != "" {
		return o.Kind() == api.KindTrainingTask && scope == o.GetMeta().ID, nil
	}
	switch w.reach(readRule(o.Kind())) {
	case all:
		return true, nil
	case own:
		return s.owns(ctx, w, o)
	}
	return false, nil
}

// mayWrite refuses with Forbidden and why. o carries at least project, name and what decides.
func (s *Server) mayWrite(ctx context.Context, w *caller, o api.Object) error {
	id := writeRule(o.Kind())
	if err := w.mayCall(id); err != nil {
		return err
	}
	if w.reach(id) == all {
		return nil
	}
	ok, err := s.owns(ctx, w, o)
	switch {
	case err != nil || ok:
		return err
	case o.Kind() == api.KindToken:
		return fault.New(fault.Forbidden, "NotAllowed", fault.T("Only an admin makes or changes tokens of others.", "只有管理员可以管理他人的令牌。"))
	case o.GetMeta().Project != "":
		return fault.New(fault.Forbidden, "NotMember", fault.T(
			"The project %q does not exist, or you are not a member of it.", "项目 %q 不存在，或您不是其成员。", clip(o.GetMeta().Project, 64)))
	}
	return notAllowed(w)
}

// projectsOf lists the projects of a caller; all is true for those who see everything.
func (s *Server) projectsOf(ctx context.Context, w *caller) (names []string, all bool, err error) {
	if w.seesAll() {
		return nil, true, nil
	}
	snap, err := s.Store.List(ctx, api.KindProject, "", 0)
	if err != nil {
		return nil, false, err
	}
	return w.memberships(snap), false, nil
}

func (w *caller) memberships(snap store.Snapshot) []string {
	var names []string
	snap.Ascend("", func(o api.Object) bool {
		if p, ok := o.(*api.Project); ok && w.belongs(p) {
			names = append(names, p.Meta.Name)
		}
		return true
	})
	slices.Sort(names)
	return names
}
