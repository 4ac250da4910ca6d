package v1

import (
	"encoding/binary"
	"encoding/json"
	"slices"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/quantity"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Placement is where all replicas of a gang stand: one object, one write, assignment only. Its
// project is that of the work it is for, its owner; its name is the owner's id, and its display name the
// owner's name.
type Placement struct {
	Meta Meta          `json:"metadata"`
	Spec PlacementSpec `json:"spec"`
}

// Kind is Placement.
func (*Placement) Kind() Kind { return KindPlacement }

// GetMeta is the metadata.
func (p *Placement) GetMeta() *Meta { return &p.Meta }

// OwnerName is the name of whose place it is.
func (p *Placement) OwnerName() string { return p.Meta.DisplayName }

// PlacementSpec is the assignment.
type PlacementSpec struct {
	// TaskID is the owner's id, whatever its kind.
	TaskID   string           `json:"taskId"`
	Attempt  int              `json:"attempt" doc:"The first attempt that may use this placement."`
	Roles    []RoleAssignment `json:"roles"`
	PlacedAt time.Time        `json:"placedAt"`
	// Evict asks the task to leave: its processes are ended with their grace. Then, in one write, the
	// placement goes and the task waits again, or Evict.To becomes Roles. What it leaves is free only
	// then; until then To is its own as well.
	Evict *Eviction `json:"evict,omitempty"`
	// Shrink asks an elastic task to go on with fewer replicas; once the others have ended, Keep becomes
	// Roles in one write. What they leave is free only then.
	Shrink *Shrinking `json:"shrink,omitempty"`
	// Lost is set where replicas were lost with their nodes and others are looked for in their stead.
	Lost *Loss `json:"lost,omitempty"`
	// Inside is whose place this is, in the order of the only role's slots: they are borrowed, and
	// counted there. Absent: the place is the task's own.
	Inside []Lender `json:"inside,omitempty"`
}

// Shrinking says why an elastic gang gives up replicas, and which it keeps.
type Shrinking struct {
	Reason  string           `json:"reason"`
	Message fault.Text       `json:"message"`
	At      time.Time        `json:"at"`
	Keep    []RoleAssignment `json:"keep"`
}

// Loss is what a gang lost with a node.
type Loss struct {
	Until time.Time      `json:"until,omitzero" doc:"How long a replacement is waited for; absent: as long as it takes, nobody waits."`
	Roles map[string]int `json:"roles" doc:"Replicas by role."`
	Avoid []uint32       `json:"avoid,omitempty" doc:"Numbers of nodes at fault: none is looked for there."`
	// Around is where two faults were: what is found outside of it is better than what is not.
	Around string `json:"around,omitempty" doc:"The node, rack, leaf or zone of a node had two faults: others are looked for outside of it first."`
	Of     uint32 `json:"of,omitempty" doc:"The number of that node."`
}

// Lender is the replica of a task inside which another task's replica runs.
type Lender struct {
	Task    string `json:"task" doc:"Its name."`
	TaskID  string `json:"taskId"`
	Role    string `json:"role"`
	Attempt int    `json:"attempt" doc:"The replica that was there when the place was given; a later one is another."`
}

// Key finds the work that lends.
func (l Lender) Key(project string) Key {
	kind, _ := KindOfID(l.TaskID)
	return Key{Kind: kind, Project: project, Name: l.Task}
}

// Eviction says why a gang must leave its place.
type Eviction struct {
	Reason  string     `json:"reason" doc:"Preempted, Drained, Moved, MakesRoom or Restored."`
	Message fault.Text `json:"message"`
	At      time.Time  `json:"at"`
	// Grace is for a checkpoint; a task that sets stopGrace itself has that instead.
	Grace Duration `json:"grace,omitempty" doc:"How long its processes have to save, between SIGTERM and SIGKILL."`
	// To is reserved: nobody else gets it, whatever becomes of the servers.
	To []RoleAssignment `json:"to,omitempty" doc:"Where it goes on, already its own; absent: it waits for a place."`
}

// RoleAssignment has one slot for each replica of the role, in index order.
type RoleAssignment struct {
	Role  string `json:"role"`
	Slots Slots  `json:"slots"`
	// Indexes are rising. A replica that goes takes its index with it: no other ever has its name.
	Indexes []int `json:"indexes,omitempty" doc:"Of the replicas, where some came or went; absent: counted from 0."`
	Next    int   `json:"next,omitempty" doc:"Indexes from here on were never used; absent: from the number of slots on."`
}

// Index is that of the replica in slot i.
func (r *RoleAssignment) Index(i int) int {
	if i < len(r.Indexes) {
		return r.Indexes[i]
	}
	return i
}

// Unused is the lowest index that no replica ever had.
func (r *RoleAssignment) Unused() int { return max(r.Next, len(r.Slots)) }

// Add gives the role more replicas, with indexes of their own.
func (r RoleAssignment) Add(slots ...Slot) RoleAssignment {
	out := r.numbered()
	for _, s := range slots {
		out.Slots, out.Indexes = append(out.Slots, s), append(out.Indexes, out.Next)
		out.Next++
	}
	return out
}

// Keep leaves the role only the replicas that are wanted, by their slot.
func (r RoleAssignment) Keep(wanted func(i int) bool) RoleAssignment {
	all := r.numbered()
	out := RoleAssignment{Role: r.Role, Slots: Slots{}, Next: all.Next}
	for i, s := range all.Slots {
		if wanted(i) {
			out.Slots, out.Indexes = append(out.Slots, s), append(out.Indexes, all.Indexes[i])
		}
	}
	return out
}

// numbered is a copy that says its indexes.
func (r RoleAssignment) numbered() RoleAssignment {
	out := RoleAssignment{Role: r.Role, Slots: slices.Clone(r.Slots), Indexes: make([]int, len(r.Slots)), Next: r.Unused()}
	for i := range out.Indexes {
		out.Indexes[i] = r.Index(i)
	}
	return out
}

// Slot is one replica's place: the node's number and a mask of its devices.
type Slot struct {
	Node    uint32
	Devices uint64
}

// Slots is kept as 12 bytes a replica, base64 in JSON (16 characters).
type Slots []Slot

const slotBytes = 12

// MarshalJSON packs the slots.
func (s Slots) MarshalJSON() ([]byte, error) {
	buf := make([]byte, 0, len(s)*slotBytes)
	for _, slot := range s {
		buf = binary.BigEndian.AppendUint32(buf, slot.Node)
		buf = binary.BigEndian.AppendUint64(buf, slot.Devices)
	}
	return json.Marshal(buf)
}

// UnmarshalJSON unpacks them.
func (s *Slots) UnmarshalJSON(data []byte) error {
	var buf []byte
	if err := json.Unmarshal(data, &buf); err != nil {
		return quantity.Wrong("Expected the packed slots as base64 text.", "此处应为 base64 编码的槽位数据。")
	}
	if len(buf)%slotBytes != 0 || len(buf) > maxReplicas*slotBytes {
		return quantity.Wrong("Packed slots of %d bytes: expected %d for each replica, and at most %d replicas.", "槽位数据为 %d 字节：每个副本应为 %d 字节，且最多 %d 个副本。", len(buf), slotBytes, maxReplicas)
	}
	*s = make(Slots, 0, len(buf)/slotBytes)
	for ; len(buf) > 0; buf = buf[slotBytes:] {
		*s = append(*s, Slot{binary.BigEndian.Uint32(buf), binary.BigEndian.Uint64(buf[4:])})
	}
	return nil
}
