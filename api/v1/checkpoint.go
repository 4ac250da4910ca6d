package v1

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// Checkpoints say how often what ranks save in memory is kept longer, and how much of it. Absent: the
// local disk of each node every 5 minutes and, where the server has a store, there every 30.
type Checkpoints struct {
	Local   *CheckpointTier `json:"local,omitempty" doc:"The disks of the nodes: survives processes and launchers, not the node."`
	Shared  *CheckpointTier `json:"shared,omitempty" doc:"The store of the server (--checkpoints-store): survives nodes."`
	From    *CheckpointFrom `json:"from,omitempty" doc:"Begin from a checkpoint of another task of the project, which must be in the shared store, or from one that is uploaded."`
	Peer    bool            `json:"peer,omitempty" doc:"Keep a copy of each rank's state in the memory of another node too: a lost node is replaced alone, and the task goes on from there. Takes four slots of memory for each rank instead of three, and two for another's."`
	Auto    bool            `json:"auto,omitempty" doc:"Tune how often by what was measured: the SDK's should_checkpoint() asks for a save, and tiers without an interval of their own take one, so often that the least time is lost. How often that is, and why, is in status.intervals. Needs fermi.report()."`
	Folder  string          `json:"folder,omitempty" doc:"A folder within the working directory that the script itself saves to: its newest complete file or folder is kept on the tiers (every one, unless an interval is given) and given back as FERMI_RESUME_FROM. Of several replicas the folder of the one with rank 0 counts."`
	Instant string          `json:"instant,omitempty" enum:"auto" doc:"auto: scripts with Transformers, Lightning or Accelerate save in memory every few steps and go on from there, unchanged: model, optimizer, scheduler, scaler, random numbers and the place in the data. Other scripts are not touched."`
}

// CheckpointFolder is where the script itself saves; "": through the SDK, or not at all.
func (s *TrainingTaskSpec) CheckpointFolder() string {
	if s.Checkpoint == nil {
		return ""
	}
	return s.Checkpoint.Folder
}

// MemoryTier is what ranks save themselves, in memory, beside the tiers that follow from it.
const MemoryTier = "memory"

// SaveInterval is how often a task with checkpoint.auto saves in a tier, and why.
type SaveInterval struct {
	Tier  string     `json:"tier" enum:"memory,local,shared"`
	Steps int64      `json:"steps" doc:"Between two; of memory, what should_checkpoint() answers by."`
	Every Duration   `json:"every" doc:"What so many steps take."`
	Lost  float64    `json:"lost,omitempty" doc:"Share of the time that saves, failures and what they undo take at this interval; absent until it was measured."`
	Why   fault.Text `json:"why" doc:"What was measured, and how often that makes it."`
}

// Interval is how often the task saves in a tier; nil: not tuned, or not yet.
func (s *TrainingTaskStatus) Interval(tier string) *SaveInterval {
	for i := range s.Intervals {
		if s.Intervals[i].Tier == tier {
			return &s.Intervals[i]
		}
	}
	return nil
}

// Tunes says that how often a tier, or memory, is used follows from what is measured.
func (s *TrainingTaskSpec) Tunes(tier string) bool {
	if s.Checkpoint == nil || !s.Checkpoint.Auto {
		return false
	}
	t := map[string]*CheckpointTier{"local": s.Checkpoint.Local, "shared": s.Checkpoint.Shared}[tier]
	return t == nil || !t.Disabled && t.Every == 0 && t.EverySteps == 0
}

// CheckpointTier is how one tier is used.
type CheckpointTier struct {
	Disabled   bool            `json:"disabled,omitempty" doc:"Keep nothing here."`
	Every      Duration        `json:"every,omitempty" explicit:"nonzero" doc:"Time between two; when neither this nor everySteps is given 5m for local, 30m for shared."`
	EverySteps int64           `json:"everySteps,omitempty" minimum:"0" doc:"Steps between two; with every, whichever comes first."`
	Keep       *CheckpointKeep `json:"keep,omitempty" doc:"Which stay; the last 2 of local and the last 3 of shared when absent. The newest always does."`
}

// CheckpointKeep says which checkpoints stay: all that any rule names.
type CheckpointKeep struct {
	Last       int             `json:"last,omitempty" minimum:"0" maximum:"1000" doc:"How many of the newest."`
	EverySteps int64           `json:"everySteps,omitempty" minimum:"0" doc:"Those whose step is a multiple of it."`
	Best       *CheckpointBest `json:"best,omitempty" doc:"The best by a number that rank 0 reports."`
}

// CheckpointBest keeps the best by a metric. Of equals the older is the better one: a number counts until another
// is reported, so that it was measured nearer to it.
type CheckpointBest struct {
	Metric string `json:"metric" doc:"As in fermi.report(step, loss=…). What rank 0 reported last, at the saved step or before, counts; a checkpoint without it is none of the best."`
	Order  string `json:"order" enum:"min,max" doc:"Whether the least or the most is the best."`
	Count  int    `json:"count,omitempty" explicit:"nonzero" minimum:"1" maximum:"1000" doc:"How many; 1 when absent."`
}

// The orders of a metric.
const (
	OrderMin = "min"
	OrderMax = "max"
)

// MaxMetricName bounds the name of a metric, in bytes.
const MaxMetricName = 128

// CheckpointOrigin names a checkpoint for ever, whatever becomes of its task's name.
type CheckpointOrigin struct {
	TaskID string `json:"taskId"`
	Name   string `json:"name" doc:"Generation and step."`
	Step   int64  `json:"step"`
}

// CheckpointFrom is a checkpoint of another task, as users name it, or one that they bring. Which it was is in status.from.
type CheckpointFrom struct {
	Task   string `json:"task,omitempty" doc:"Name or id of a task of the same project; it may have ended, or be in the archive."`
	Step   int64  `json:"step,omitempty" explicit:"nonzero" minimum:"1" doc:"Of the task; the newest when absent."`
	Upload bool   `json:"upload,omitempty" doc:"Instead of task: the new task waits until a checkpoint was uploaded into it, and begins from that (fermi train checkpoints NAME --import FOLDER)."`
}

// AwaitsCheckpoint says that a task may not start yet: the checkpoint that it begins from is still to be uploaded.
func (t *TrainingTask) AwaitsCheckpoint() bool {
	c := t.Spec.Checkpoint
	return c != nil && c.From != nil && c.From.Upload && t.Status.From == nil
}

// CheckpointPart is a rank's state that was uploaded; all of them together are committed. It is the server's: give it back as it came.
type CheckpointPart struct {
	Rank  int    `json:"rank" minimum:"0"`
	Key   string `json:"key" doc:"Where it lies."`
	Bytes int64  `json:"bytes" minimum:"0" doc:"Of its record."`
	Hash  string `json:"hash" pattern:"^[0-9a-f]{64}$" doc:"Of its record: BLAKE3."`
	Lease string `json:"lease" doc:"What keeps it until it is committed: three hours."`
	Size  int64  `json:"size" minimum:"0" doc:"Bytes of the state."`
	New   int64  `json:"new" minimum:"0" doc:"Of these, what had to be written."`
}

// Rewind is the wish that a task go on from a checkpoint of its own, made once, by the restore verb.
type Rewind struct {
	Name       string    `json:"name" doc:"Of the checkpoint: generation and step."`
	Step       int64     `json:"step"`
	Attempt    int       `json:"attempt" doc:"The newest there was: it and older ones are over."`
	Generation int       `json:"generation" doc:"Likewise. What these committed beyond the checkpoint counts no more."`
	At         time.Time `json:"at"`
}

// Due says that the attempt, counted so far, is one that the wish ends.
func (r *Rewind) Due(attempt int) bool { return r != nil && attempt <= r.Attempt }

// Abandons says that a checkpoint is of the future that was given up: newer than the chosen one, and made before
// the wish. What is made after it is newer than both, whatever its step.
func (r *Rewind) Abandons(name string) bool {
	return r != nil && name > r.Name && name < fmt.Sprintf("%019d", r.Generation+1)
}

// Defaults of the tiers.
const (
	defaultLocalEvery  = Duration(5 * time.Minute)
	defaultSharedEvery = Duration(30 * time.Minute)
	defaultLocalKeep   = 2
	defaultSharedKeep  = 3
	maxCheckpointsKept = 1000
)

// LocalTier is how the nodes' disks are used; Disabled where they are not.
func (s *TrainingTaskSpec) LocalTier() CheckpointTier {
	var t *CheckpointTier
	if s.Checkpoint != nil {
		t = s.Checkpoint.Local
	}
	return t.filled(s.CheckpointFolder() != "", defaultLocalEvery, defaultLocalKeep)
}

// SharedTier is how the store is used; Disabled where it is not.
func (s *TrainingTaskSpec) SharedTier() CheckpointTier {
	var t *CheckpointTier
	if s.Checkpoint != nil {
		t = s.Checkpoint.Shared
	}
	return t.filled(s.CheckpointFolder() != "", defaultSharedEvery, defaultSharedKeep)
}

// filled has the defaults; each is of files that the script decides when to write.
func (t *CheckpointTier) filled(each bool, every Duration, last int) CheckpointTier {
	var out CheckpointTier
	if t != nil {
		out = *t
	}
	if out.Every == 0 && out.EverySteps == 0 {
		if out.Every = every; each {
			out.Every, out.EverySteps = 0, 1
		}
	}
	keep := CheckpointKeep{}
	if out.Keep != nil {
		keep = *out.Keep
	}
	if keep.EverySteps == 0 {
		keep.Last = cmp.Or(keep.Last, last)
	}
	out.Keep = &keep
	return out
}

func (f *faults) checkpoints(s *TrainingTaskSpec) {
	c := s.Checkpoint
	if c == nil {
		return
	}
	f.checkpointTier("spec.checkpoint.local", c.Local)
	f.checkpointTier("spec.checkpoint.shared", c.Shared)
	f.peerMemory(s)
	f.checkpointFrom(s)
	f.checkpointFolder(s)
	f.checkpointSelf(s)
}

// checkpointSelf checks what is saved by itself: as often as is best, or every few steps by the framework.
func (f *faults) checkpointSelf(s *TrainingTaskSpec) {
	c, at := s.Checkpoint, "spec.checkpoint.auto"
	if c.Auto && c.Folder != "" {
		f.add(at, "A script with a folder of its own decides itself when it saves; give one or the other.", "使用自有目录的脚本自行决定何时保存，请二选一。")
	}
	if c.Auto && slices.ContainsFunc(s.Roles, func(r Role) bool { return r.Alone() }) {
		f.add(at, "Tasks with a role that restarts by itself have no interval in common; leave it out.", "含有单独重启角色的任务没有统一的保存间隔，请去掉该设置。")
	}
	at = "spec.checkpoint.instant"
	switch {
	case c.Instant != "" && c.Instant != "auto":
		f.add(at, "%q is not known; give auto, or leave it out.", "不支持 %q；请填写 auto 或去掉该设置。", c.Instant)
	case c.Instant != "" && c.Folder != "":
		f.add(at, "What is saved in memory and what lies in the folder would both be gone on from; give one or the other.", "内存中的状态与目录中的文件会同时用于恢复，请二选一。")
	}
}

func (f *faults) checkpointFrom(s *TrainingTaskSpec) {
	from, at := s.Checkpoint.From, "spec.checkpoint.from"
	if from == nil {
		return
	}
	switch {
	case from.Upload && (from.Task != "" || from.Step != 0):
		f.add(at+".upload", "It stands alone: give task and step, or upload.", "不能与 task、step 同时使用。")
	case !from.Upload && !IsName(from.Task):
		f.add(at+".task", "%q is no name of a task.", "%q 不是任务名称。", from.Task)
	}
	if from.Step < 0 {
		f.add(at+".step", "At least 1; the newest when absent.", "至少为 1；默认取最新。")
	}
}

func (f *faults) checkpointFolder(s *TrainingTaskSpec) {
	c, at := s.Checkpoint, "spec.checkpoint.folder"
	if c.Folder == "" {
		return
	}
	f.relative(at, c.Folder)
	if path.Clean(c.Folder) == "." {
		f.add(at, "Give a folder within the working directory, not the directory itself.", "请指定工作目录内的子目录，而不是工作目录本身。")
	}
	if s.LocalTier().Disabled && s.SharedTier().Disabled {
		f.add(at, "Its files have no place to go to: both tiers are disabled.", "两个层级均已停用，文件无处保存。")
	}
	if c.Peer {
		f.add(at, "A peer's memory keeps what is saved through the SDK; give one or the other.", "对等内存仅保存通过 SDK 存储的状态，请二选一。")
	}
	if slices.ContainsFunc(s.Roles, func(r Role) bool { return r.Alone() }) {
		f.add(at, "Roles that restart by themselves keep no files; leave it out.", "单独重启的角色不保存文件检查点，请去掉该设置。")
	}
}

func (f *faults) checkpointTier(at string, t *CheckpointTier) {
	if t == nil {
		return
	}
	f.span(at+".every", t.Every)
	f.notNegative(at+".everySteps", t.EverySteps)
	if t.Every > 0 && t.Every < Duration(time.Second) {
		f.add(at+".every", "At least 1s; for more use everySteps.", "至少 1s；如需更频繁请使用 everySteps。")
	}
	if t.Disabled && (t.Every != 0 || t.EverySteps != 0 || t.Keep != nil) {
		f.add(at+".disabled", "A tier that is disabled has no interval and keeps nothing; give one or the other.", "已停用的层级不能再设置间隔或保留规则，请二选一。")
	}
	if t.Keep != nil {
		f.count(at+".keep.last", t.Keep.Last, 0, maxCheckpointsKept)
		f.notNegative(at+".keep.everySteps", t.Keep.EverySteps)
		f.checkpointBest(at+".keep.best", t.Keep.Best)
	}
}

func (f *faults) checkpointBest(at string, b *CheckpointBest) {
	if b == nil {
		return
	}
	if b.Metric == "" || len(b.Metric) > MaxMetricName || strings.ContainsFunc(b.Metric, unicode.IsControl) {
		f.add(at+".metric", "Name the metric as it is reported, in 1 to %d bytes, such as loss.", "请填写所上报的指标名称（1 到 %d 字节），例如 loss。", MaxMetricName)
	}
	if b.Order != OrderMin && b.Order != OrderMax {
		f.add(at+".order", "%q is neither min (the least is the best) nor max.", "%q 不是 min（越小越好）或 max（越大越好）。", b.Order)
	}
	if b.Count != 0 {
		f.count(at+".count", b.Count, 1, maxCheckpointsKept)
	}
}

func (f *faults) notNegative(at string, n int64) {
	if n < 0 {
		f.add(at, "%d is below 0.", "%d 小于 0。", n)
	}
}

// Checkpoint is one that a task has.
type Checkpoint struct {
	Name       string             `json:"name" doc:"Generation and step."`
	Step       int64              `json:"step"`
	Generation int64              `json:"generation"`
	Ranks      int                `json:"ranks" doc:"How many wrote it; another number can restore it where tensors say how they are shared."`
	Size       Bytes              `json:"size" doc:"Of the state of all ranks."`
	Metrics    map[string]float64 `json:"metrics,omitempty" doc:"What rank 0 reported last, at the step or before."`
	Tiers      []CheckpointCopy   `json:"tiers"`
}

// In says that a tier has it.
func (c *Checkpoint) In(tier string) bool {
	return slices.ContainsFunc(c.Tiers, func(t CheckpointCopy) bool { return t.Tier == tier })
}

// Whole says that a tier has it and it is not known to be damaged there; "" is any tier.
func (c *Checkpoint) Whole(tier string) bool {
	return slices.ContainsFunc(c.Tiers, func(t CheckpointCopy) bool { return (tier == "" || t.Tier == tier) && t.Damage == nil })
}

// CheckpointDamage is what was found when its bytes were read back.
type CheckpointDamage struct {
	At      time.Time  `json:"at"`
	Message fault.Text `json:"message" doc:"What is wrong, and with which object."`
}

// CheckpointCopy is a checkpoint in one tier. It exists: all bytes were hashed and durable before. That is not to say
// that they still are there.
type CheckpointCopy struct {
	Tier        string            `json:"tier" enum:"local,shared"`
	CommittedAt time.Time         `json:"committedAt"`
	New         Bytes             `json:"new" doc:"What had to be written; the rest was there from an earlier one."`
	Pinned      bool              `json:"pinned,omitempty" doc:"Kept whatever the policy says."`
	VerifiedAt  *time.Time        `json:"verifiedAt,omitempty" doc:"When every byte was read back last, and matched its hash. Absent: not since it was written."`
	Damage      *CheckpointDamage `json:"damage,omitempty" doc:"What did not match instead. No restore takes it from here, and retention does not count it."`
	Verifying   bool              `json:"verifying,omitempty" doc:"The server that answers reads it back, or is about to."`
}
