package v1

import (
	"cmp"
	"slices"

	"github.com/fermi-cluster/fermi/internal/fault"
)

var _ = []interface {
	Defaulter
	Validator
}{(*Zone)(nil), (*Queue)(nil), (*Project)(nil), (*User)(nil)}

var _ = []Validator{(*Node)(nil), (*Placement)(nil), (*Token)(nil)}

// Validate lists every refused field.
func (n *Node) Validate() []fault.Field {
	var f faults
	s := &n.Spec
	f.name("spec.zone", s.Zone)
	f.word("spec.rack", s.Rack, false)
	f.word("spec.leaf", s.Leaf, false)
	if s.CPU < 1 || s.CPU > maxCPU {
		f.add("spec.cpu", "%s cores are out of range: 1m to %s are allowed.", "%s 核超出范围：允许 1m 到 %s。", s.CPU, maxCPU)
	}
	if s.Memory < minMemory || s.Memory > maxMemory {
		f.add("spec.memory", "%s is out of range: 1Mi to 1Pi are allowed.", "%s 超出范围：允许 1Mi 到 1Pi。", s.Memory)
	}
	if s.Disk < 0 {
		f.add("spec.disk", "%s is out of range: 0 or more is allowed.", "%s 超出范围：不能为负。", s.Disk)
	}
	f.devices("spec.devices", s.Devices)
	return f.list
}

func (f *faults) devices(at string, devices []Device) {
	if len(devices) > maxDevices {
		f.add(at, "There are %d devices; at most %d are allowed, because a placement marks them in 64 bits.", "设备有 %d 个，最多允许 %d 个（放置信息用 64 位标记设备）。", len(devices), maxDevices)
		return
	}
	seen := map[string]bool{}
	for i, d := range devices {
		path := item(at, i)
		if d.Index != i {
			f.add(path+".index", "The index %d must be the place in the list, %d.", "序号 %d 应等于列表中的位置 %d。", d.Index, i)
		}
		f.word(path+".type", d.Type, true)
		f.word(path+".vendor", d.Vendor, false)
		f.word(path+".island", d.Island, false)
		f.word(path+".uuid", d.UUID, false)
		if d.UUID != "" && seen[d.UUID] {
			f.add(path+".uuid", "%s is another device's; every device has its own.", "%s 与其他设备重复，每个设备应有唯一标识。", quote(d.UUID))
		}
		seen[d.UUID] = true
		if d.Memory < 0 || d.Memory > maxMemory {
			f.add(path+".memory", "%s is out of range: 0 to 1Pi are allowed.", "%s 超出范围：允许 0 到 1Pi。", d.Memory)
		}
	}
}

// Validate lists every refused field.
func (p *Placement) Validate() []fault.Field {
	var f faults
	s := &p.Spec
	f.word("spec.taskId", s.TaskID, true)
	f.count("spec.attempt", s.Attempt, 1, 1<<30)
	if len(s.Roles) == 0 || len(s.Roles) > maxRoles {
		f.add("spec.roles", "A placement has 1 to %[2]d roles, not %[1]d.", "放置信息应有 1 到 %[2]d 个角色，而不是 %[1]d 个。", len(s.Roles), maxRoles)
	}
	seen := map[string]bool{}
	total := 0
	for i, r := range s.Roles {
		path := item("spec.roles", i)
		if !IsName(r.Role) || len(r.Role) > maxRoleName || seen[r.Role] {
			f.add(path+".role", "%s is not a role name of its own.", "%s 不是合法且唯一的角色名。", quote(r.Role))
		}
		seen[r.Role] = true
		if len(r.Slots) == 0 {
			f.add(path+".slots", "Every role has at least one slot.", "每个角色至少有一个槽位。")
		}
		if n := len(r.Indexes); n > 0 && (n != len(r.Slots) || r.Indexes[0] < 0 || r.Indexes[n-1] >= r.Next || !slices.IsSorted(r.Indexes)) {
			f.add(path+".indexes", "Indexes are one for each slot, rising and below next.", "indexes 应与槽位一一对应、递增且小于 next。")
		}
		total += len(r.Slots)
	}
	if total > maxReplicas {
		f.add("spec.roles", "%d slots are more than a task may have, %d.", "槽位共 %d 个，超过任务上限 %d。", total, maxReplicas)
	}
	return f.list
}

// Default fills what the operator left out.
func (q *Queue) Default() {
	q.Spec.MaxPending = cmp.Or(q.Spec.MaxPending, DefaultMaxPending)
}

// DefaultMaxPending is how many tasks may wait in a queue that does not say.
const DefaultMaxPending = 100_000

// Default fills what the operator left out.
func (p *Project) Default() {
	p.Spec.Queue = cmp.Or(p.Spec.Queue, DefaultQueue)
}

// Validate lists every refused field.
func (p *Project) Validate() []fault.Field {
	var f faults
	f.description("spec.description", p.Spec.Description)
	f.name("spec.queue", p.Spec.Queue)
	f.names("spec.members", p.Spec.Members)
	f.count("spec.maxPriority", p.Spec.MaxPriority, 0, maxPriority)
	f.projectLimits("spec.limits", p.Spec.Limits)
	f.list = append(f.list, p.Spec.Environments.Check("spec.environments")...)
	f.names("spec.owners", p.Spec.Owners)
	f.folders("spec.folders", p.Spec.Folders)
	return f.list
}

var userRoles = []UserRole{RoleAdmin, RoleOperator, RoleMember, RoleViewer}

// Default fills what the operator left out.
func (u *User) Default() {
	u.Spec.Role = cmp.Or(u.Spec.Role, RoleMember)
}

// Validate lists every refused field.
func (u *User) Validate() []fault.Field {
	var f faults
	if !slices.Contains(userRoles, u.Spec.Role) {
		f.add("spec.role", "%s is no role; use one of %s.", "%s 不是已知的角色，请使用 %s 之一。", quote(string(u.Spec.Role)), list(userRoles))
	}
	return append(f.list, u.Spec.Environments.Check("spec.environments")...)
}

var (
	tokenScopes = []TokenScope{"inference", ScopeRead, ScopeTasks, ScopeAdmin}
	tokenUses   = []TokenUse{UseSession, UseCode, "join"}
)

// Validate lists every refused field. Whether the expiry lies ahead is judged by who has a clock.
func (t *Token) Validate() []fault.Field {
	var f faults
	f.name("spec.user", t.Spec.User)
	if t.Spec.Hash != "" && !hex64.MatchString(t.Spec.Hash) {
		f.add("spec.hash", "The hash is 64 hexadecimal digits in lower case.", "hash 应为 64 位小写十六进制数字。")
	}
	f.word("spec.task", t.Spec.Task, false)
	if t.Spec.Scope != "" && !slices.Contains(tokenScopes, t.Spec.Scope) {
		f.add("spec.scope", "%s is no scope; use one of %s.", "%s 不是已知的权限范围，请使用 %s 之一。", quote(string(t.Spec.Scope)), list(tokenScopes))
	}
	if t.Spec.Use != "" && !slices.Contains(tokenUses, t.Spec.Use) {
		f.add("spec.use", "%s is no use of a token; use one of %s.", "%s 不是已知的令牌用途，请使用 %s 之一。", quote(string(t.Spec.Use)), list(tokenUses))
	}
	f.names("spec.projects", t.Spec.Projects)
	if l := t.Spec.Limits; l != nil && (min(l.RequestsPerMinute, l.TokensPerMinute) < 0 || max(l.RequestsPerMinute, l.TokensPerMinute) > 1e9 || min(l.RequestsPerMonth, l.TokensPerMonth) < 0 || max(l.RequestsPerMonth, l.TokensPerMonth) > 1e12) {
		f.add("spec.limits", "A limit is 0 (none) to 1,000,000,000 a minute, and to 1,000,000,000,000 a month.", "额度应为每分钟 0（不限）到 1000000000，每月 0（不限）到 1000000000000。")
	}
	f.word("spec.epoch", t.Spec.Epoch, false)
	return f.list
}
