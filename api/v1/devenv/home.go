package devenv

import (
	"strconv"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// HomeState is what became of its home.
type HomeState struct {
	Filled   bool      `json:"filled,omitempty" doc:"Its home has what spec.from names."`
	Snapshot *Snapshot `json:"snapshot,omitempty" doc:"The last snapshot of its home."`
	// HomeCount is the number of the move that made its home; 0: it was never moved.
	HomeCount int        `json:"homeCount,omitempty" doc:"Which move made its home; absent: it is the first one."`
	Moved     *HomeMoved `json:"moved,omitempty" doc:"What became of the newest move of its home."`
}

// Snapshot is one of a home: a version of a dataset that its owner alone sees, where its environment is not shared.
type Snapshot struct {
	Count   int        `json:"count" doc:"That of spec.snapshots by which it was asked for."`
	Running bool       `json:"running,omitempty" doc:"It is being made."`
	Dataset string     `json:"dataset" doc:"What keeps the snapshots of this home."`
	Version int        `json:"version,omitempty" doc:"Its number; 0: there is none."`
	Size    api.Bytes  `json:"size,omitempty"`
	At      *time.Time `json:"at,omitempty" doc:"When it was made, or why not was known."`
	Message fault.Text `json:"message,omitzero" doc:"What came of it."`
}

// HomeMark is the key of the metadata of a version that is a home, HomeFormat its value.
const (
	HomeMark   = "fermi-home"
	HomeFormat = "1"
)

// What tells who keeps a home of what was written over its image: the file that has it, and the image's digest.
const (
	LayerFile  = "FERMI_LAYER"
	LayerImage = "FERMI_LAYER_IMAGE"
)

// Snapshots are what people and the controller do about those of an environment's home.
type Snapshots struct{ Of *DevEnvironment }

// SaveHome is the argument of the program that writes a home down.
const SaveHome = "save-home"

// What such a replica has: it reads, hashes and sends.
const (
	saverCores  = api.MilliCPU(1000)
	saverMemory = api.Bytes(1 << 30)
)

// role is the role of an environment while a snapshot of its home is made.
func (x Snapshots) role() api.Role {
	return api.Role{
		Name: Role, Replicas: 1, Ranks: 1, Resources: api.Resources{CPU: saverCores, Memory: saverMemory}, Standby: &api.Standby{Disabled: true},
		Command: x.Command(),
	}
}

// dataset is where the one goes that is being made, or would be now.
func (x Snapshots) dataset() string {
	if x.Of.Saves() {
		return x.Of.Status.Snapshot.Dataset
	}
	return SnapshotsOf(x.Of)
}

// Command is what makes one, as a process of the environment.
func (x Snapshots) Command() []string {
	argv := []string{"fermi", SaveHome}
	if x.Of.Spec.Shared {
		argv = append(argv, "--shared")
	}
	return append(argv, "--", x.dataset())
}

// Saves says that what runs of it makes a snapshot of its home, or waits to.
func (e *DevEnvironment) Saves() bool { return e.Status.Snapshot != nil && e.Status.Snapshot.Running }

// Due says that a snapshot was asked for that was not begun.
func (x Snapshots) Due() bool {
	e := x.Of
	was := 0
	if s := e.Status.Snapshot; s != nil {
		was = s.Count
	}
	return e.Status.Phase.Finished() && e.Meta.DeletedAt == nil && e.Spec.Snapshots > was
}

// longestDataset is asset.MaxName.
const longestDataset = 40

// SnapshotsOf is the dataset that keeps the snapshots of its home; no other environment has the same. What others may enter is kept where others see it.
func SnapshotsOf(e *DevEnvironment) string {
	first, id := "home-", "-"+e.Meta.ID[max(0, len(e.Meta.ID)-9):]
	if e.Spec.Shared {
		first = "shared-home-"
	}
	return first + e.Meta.Name[:min(len(e.Meta.Name), longestDataset-len(first)-len(id))] + id
}

// Ask asks for one, if that may be; said is for people.
func (x Snapshots) Ask() (said fault.Text, changed bool) {
	e := x.Of
	if e.Saves() || x.Due() {
		return fault.T("A snapshot is being made already", "快照已在创建中"), false
	}
	if s := e.Status.Snapshot; s != nil {
		e.Spec.Snapshots = max(e.Spec.Snapshots, s.Count)
	}
	e.Spec.Snapshots++
	return fault.T("A snapshot of its home is being made", "正在创建主目录快照"), true
}

// May refuses where there is no home, or where it is not still.
func (x Snapshots) May() error {
	e := x.Of
	switch {
	case e.Saves() || x.Due():
		return nil
	case !e.Status.Phase.Finished() || e.IsDue():
		return fault.New(fault.Conflict, "Running", fault.T("The environment %s runs; stop it first, so that its home holds still.", "环境 %s 正在运行；请先停止，以确保主目录内容一致。", e.Meta.Name)).
			WithHint(fault.T("fermi env stop %s", "fermi env stop %s", e.Meta.Name))
	case e.Status.Attempt == 0:
		return fault.New(fault.Conflict, "NoHome", fault.T("The environment %s has never run; it has no home yet.", "环境 %s 从未运行过，还没有主目录。", e.Meta.Name))
	}
	return nil
}

// Leave gives up the one that is being made; false: none is.
func (x Snapshots) Leave() bool {
	e := x.Of
	if !e.Saves() || e.Spec.Snapshots < e.Status.Snapshot.Count {
		return false
	}
	e.Spec.Snapshots = e.Status.Snapshot.Count - 1
	return true
}

// Begin is its status while the one is made that was asked for.
func (x Snapshots) Begin() Status {
	e := x.Of
	was := &e.Status
	next := Status{Schedule: was.Schedule, Lent: was.Lent, HomeState: was.HomeState}
	next.Phase, next.Reason, next.Message = api.PhasePending, "SnapshotRequested", fault.T("Waiting for a place where its home can be read.", "等待可读取其主目录的位置。")
	next.Attempt, next.Zones, next.Starts, next.Home = was.Attempt, was.Zones, was.Starts, was.Home
	next.Snapshot = &Snapshot{Count: e.Spec.Snapshots, Running: true, Dataset: SnapshotsOf(e)}
	return next
}

// End writes into a status that has just become final what came of a snapshot. version and size are of the newest one of its dataset; 0: there is none.
func (x Snapshots) End(next *Status, version int, size api.Bytes, now time.Time) {
	e, s := x.Of, *next.Snapshot
	s.Running, s.At = false, &now
	switch {
	case next.Phase == api.PhaseCompleted && version > 0:
		s.Version, s.Size = version, size
		next.Reason = "SnapshotMade"
		s.Message = fault.T("Snapshot %s of its home is made: fermi env create NEW --from %s.", "主目录快照 %s 已创建：fermi env create 新环境 --from %[2]s。", s.Dataset+"@"+strconv.Itoa(s.Version), e.Meta.Name)
	case next.Phase == api.PhaseStopped:
		next.Reason, s.Message = "SnapshotStopped", fault.T("The snapshot of its home was given up.", "主目录快照已取消。")
	default:
		next.Reason = "SnapshotFailed"
		s.Message = fault.T("No snapshot of its home was made: %[1]s Its log says more: fermi env logs %[3]s.", "未能创建主目录快照：%[2]s详见日志：fermi env logs %[3]s。", next.Message.EN, next.Message.ZH, e.Meta.Name)
	}
	next.Phase, next.Message, next.Snapshot = api.PhaseStopped, s.Message, &s
}
