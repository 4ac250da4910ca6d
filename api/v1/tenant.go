package v1

import (
	"time"

	"github.com/fermi-cluster/fermi/api/v1/quota"
	"github.com/fermi-cluster/fermi/api/v1/terminal"
	"github.com/fermi-cluster/fermi/api/v1/where"
)

// Queue is a share of the cluster.
type Queue struct {
	Meta   Meta        `json:"metadata"`
	Spec   QueueSpec   `json:"spec" required:"false"`
	Status QueueStatus `json:"status,omitzero"`
}

// Kind is Queue.
func (*Queue) Kind() Kind { return KindQueue }

// GetMeta is the metadata.
func (q *Queue) GetMeta() *Meta { return &q.Meta }

// QueueSpec is the operator's wish.
type QueueSpec struct {
	Paused     bool `json:"paused,omitempty"` // keeps everything in the queue waiting
	MaxPending int  `json:"maxPending,omitempty" explicit:"nonzero" doc:"How many may wait; beyond it a submit is answered 429. 100000 when absent."`
	// Parent makes queues a tree; its guarantee and limit hold for all below it together.
	Parent string `json:"parent,omitempty" doc:"The queue this one is a part of; none when absent."`
	// Guarantee, Limit: by resource: cpu in cores, memory in GiB, devices of any type, or a device type.
	Guarantee map[string]int `json:"guarantee,omitempty" doc:"What it gets back when others borrowed it: cpu (cores), memory (GiB), devices, or a device type such as A100."`
	Weight    int            `json:"weight,omitempty" explicit:"nonzero" doc:"Share of what is left among its siblings; 1 when absent."`
	Limit     map[string]int `json:"limit,omitempty" doc:"The most it may hold, in the words of guarantee."`
	Projects  []string       `json:"projects,omitempty" doc:"Projects that may use it beside those whose spec.queue it is; * is every project. Its parent and children say their own."`
	// Prefer and Stay hold for tasks of the queue itself, not of those below it.
	Prefer *where.Weights `json:"prefer,omitempty" doc:"What counts between zones that have room, for its tasks that say nothing themselves; the price alone when absent."`
	Stay   bool           `json:"stay,omitempty" doc:"None of its tasks is moved so that others find room."`
}

// QueueStatus is computed on read.
type QueueStatus struct {
	Pending      int `json:"pending,omitempty" doc:"Work of all kinds that waits for a place."`
	Running      int `json:"running,omitempty" doc:"Work of all kinds that has one."`
	PendingTasks int `json:"pendingTasks,omitempty" doc:"The training tasks among what waits."`
	RunningTasks int `json:"runningTasks,omitempty" doc:"The training tasks among what runs."`
}

// Project is a tenant.
type Project struct {
	Meta   Meta          `json:"metadata"`
	Spec   ProjectSpec   `json:"spec" required:"false"`
	Status ProjectStatus `json:"status,omitzero"`
}

// Kind is Project.
func (*Project) Kind() Kind { return KindProject }

// GetMeta is the metadata.
func (p *Project) GetMeta() *Meta { return &p.Meta }

// ProjectSpec is the operator's wish.
type ProjectSpec struct {
	Description string   `json:"description,omitempty"`
	Queue       string   `json:"queue,omitempty" doc:"default when absent."`
	Members     []string `json:"members,omitempty" doc:"User names."`
	// MaxPriority is absolute. What a kind has by default is always allowed.
	MaxPriority int `json:"maxPriority,omitempty" minimum:"0" maximum:"10000" doc:"The highest priority that its work may have; what a kind has by default (training 500) is always allowed, and is the most when absent."`
	// Limits bound what the project keeps; DefaultProjectLimits where they say nothing.
	Limits       *ProjectLimits      `json:"limits,omitempty" doc:"How much it may keep stored, and how many objects it may have; generous when absent."`
	Owners       []string            `json:"owners,omitempty" doc:"User names: they read the audit of the project. Members or not."`
	Folders      []string            `json:"folders,omitempty" doc:"Names of folders of the machines that its tasks may use, as operators gave them (fermi up --folder NAME=PATH)."`
	Environments *quota.Environments `json:"environments,omitempty" doc:"What all its environments may have together; no bound when absent."`
}

// ProjectStatus is what the platform gave it.
type ProjectStatus struct {
	// UID is whom the project's processes run as where projects are kept apart; never reused.
	UID int `json:"uid,omitempty" doc:"User and group id of its processes; given with the first one."`
	// Grants is GrantsVersion once what the project may use was written down; 0 is a project of a
	// release that asked nobody, until the leader has looked at what it uses.
	Grants int `json:"grants,omitempty" doc:"Set once queues and priorities that it used before they needed a grant were granted."`
	// Usage is filled in for who reads one project; it is never stored.
	Usage *ProjectUsage `json:"usage,omitempty" doc:"What it keeps now; told of one project, not in lists."`
}

// User is a person or a robot.
type User struct {
	Meta   Meta       `json:"metadata"`
	Spec   UserSpec   `json:"spec" required:"false"`
	Status UserStatus `json:"status,omitzero"`
}

// Kind is User.
func (*User) Kind() Kind { return KindUser }

// GetMeta is the metadata.
func (u *User) GetMeta() *Meta { return &u.Meta }

// UserSpec is the operator's wish.
type UserSpec struct {
	Role         UserRole            `json:"role,omitempty" doc:"admin, operator, member (default) or viewer."`
	Disabled     bool                `json:"disabled,omitempty"`
	Environments *quota.Environments `json:"environments,omitempty" doc:"What the user's environments in all projects may have together; as the operator set it for everybody when absent."`
}

// UserStatus is what the server knows of how a person signs in.
type UserStatus struct {
	PasswordHash  string         `json:"passwordHash,omitempty" doc:"Never shown."` // argon2id in its usual text form
	PasswordSetAt *time.Time     `json:"passwordSetAt,omitempty" doc:"Absent when there is no password."`
	SignOuts      int64          `json:"signOuts,omitempty" doc:"How often all sessions were ended."` // counts what ends every session at once: a changed password, a sign-out everywhere
	SSHKeys       []terminal.Key `json:"sshKeys,omitempty" doc:"Public keys that open the user's environments over SSH."`
}

// UserRole is what a user may do.
type UserRole string

// The roles.
const (
	RoleAdmin    UserRole = "admin"
	RoleOperator UserRole = "operator"
	RoleMember   UserRole = "member"
	RoleViewer   UserRole = "viewer"
)

// Token lets a program speak for a user. The secret itself is shown once and never stored.
type Token struct {
	Meta Meta      `json:"metadata"`
	Spec TokenSpec `json:"spec" required:"false"`
}

// Kind is Token.
func (*Token) Kind() Kind { return KindToken }

// GetMeta is the metadata.
func (t *Token) GetMeta() *Meta { return &t.Meta }

// TokenSpec is for whom and how long.
type TokenSpec struct {
	User      string     `json:"user" required:"false" doc:"For whom the token speaks; yourself when absent."`
	Hash      string     `json:"hash,omitempty" doc:"Never shown."` // hex SHA-256 of the secret
	ExpiresAt *time.Time `json:"expiresAt,omitempty" doc:"Never when absent."`
	Task      string     `json:"task,omitempty" doc:"Set on tokens handed to a task's processes."` // limits the token to one task's own calls
	// Scope and Projects narrow what the token may do below what its user may; they never widen it.
	Scope    TokenScope `json:"scope,omitempty" doc:"inference (asks services, and nothing else), read, tasks (also writes tasks) or admin (all that the user may; when absent)."`
	Projects []string   `json:"projects,omitempty" doc:"Only these projects; all of the user's when absent."`
	Limits   *KeyLimits `json:"limits,omitempty" doc:"Of what it asks of services, at each gateway; none when absent."`
	// Use, Epoch and IdleAt are the server's: sessions and sign-in codes are tokens of their own use.
	Use    TokenUse   `json:"use,omitempty" doc:"Absent for programs; session or code are made by signing in."`
	Epoch  string     `json:"epoch,omitempty" doc:"Of a session or code: ends with the user's next sign-out everywhere."`
	IdleAt *time.Time `json:"idleAt,omitempty" doc:"Of a session: when it ends unless it is used."`
	// Until is the server's: the end of the token that the code, and with it the session, came from.
	Until *time.Time `json:"until,omitempty" doc:"Of a session or code that came from a token with an end: what it makes ends then at the latest."`
}

// KeyLimits bound what a token may ask of services.
type KeyLimits struct {
	RequestsPerMinute int   `json:"requestsPerMinute,omitempty" minimum:"0" maximum:"1000000000" doc:"No limit when absent."`
	TokensPerMinute   int   `json:"tokensPerMinute,omitempty" minimum:"0" maximum:"1000000000" doc:"That answers took; no limit when absent."`
	RequestsPerMonth  int64 `json:"requestsPerMonth,omitempty" minimum:"0" maximum:"1000000000000" doc:"Of a calendar month in UTC, at all gateways together; no limit when absent."`
	TokensPerMonth    int64 `json:"tokensPerMonth,omitempty" minimum:"0" maximum:"1000000000000" doc:"Likewise."`
}

// TokenScope is how much of its user's power a token carries.
type TokenScope string

// The scopes.
const (
	ScopeRead  TokenScope = "read"
	ScopeTasks TokenScope = "tasks"
	ScopeAdmin TokenScope = "admin"
)

// TokenUse is which door a token opens.
type TokenUse string

// The uses. A token for programs has none.
const (
	UseSession TokenUse = "session" // a browser's cookie
	UseCode    TokenUse = "code"    // good for one sign-in
)
