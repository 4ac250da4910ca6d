package train

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/image"
	"github.com/fermi-cluster/fermi/api/v1/mount"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/archive"
	"github.com/fermi-cluster/fermi/internal/server/objects"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/tenant"
	"github.com/fermi-cluster/fermi/internal/server/tracker"
	"github.com/fermi-cluster/fermi/internal/server/truth"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Submitted is the answer to a new training task: its true state at that moment.
type Submitted struct {
	TaskID          string            `json:"taskId"`
	Name            string            `json:"name"`
	Status          string            `json:"status" doc:"The phase in lower case."`
	DistributedInfo *DistributedInfo  `json:"distributedInfo,omitempty" doc:"When there is more than one replica."`
	Task            *api.TrainingTask `json:"task"`
}

type DistributedInfo struct {
	NodeCount  int    `json:"nodeCount"`
	TotalGPUs  int    `json:"totalGpus"`
	MasterNode string `json:"masterNode" doc:"Empty until the task is placed."`
	Framework  string `json:"framework"`
}

func submittedOf(t *api.TrainingTask) Submitted {
	out := Submitted{TaskID: t.Meta.ID, Name: t.Meta.Name, Status: strings.ToLower(string(t.Status.Phase)), Task: t}
	replicas, devices := size(t)
	if replicas > 1 {
		out.DistributedInfo = &DistributedInfo{NodeCount: replicas, TotalGPUs: devices, Framework: string(t.Spec.Framework)}
	}
	return out
}

// size is how many replicas and devices a task asks for.
func size(t *api.TrainingTask) (replicas, devices int) {
	for _, role := range t.Spec.Roles {
		replicas += role.Replicas
		devices += role.Replicas * role.Resources.Accelerators.Count
	}
	return replicas, devices
}

const SubmittedReason = "Submitted"

var submittedMessage = fault.T("Waiting for a place.", "等待调度。")

// GateConfig is what admission needs to know of the cluster. All may be nil.
type GateConfig struct {
	// Refuse is nil, or the fault Invalid of a task that could never start, judged by the state at
	// minRevision at least; without it everything may wait. Quick, and safe for concurrent use.
	Refuse func(ctx context.Context, work api.Work, minRevision int64) error
	// SoleOwner is who alone may start processes, where projects can't be kept apart; nil or "": all.
	SoleOwner func() string
	// Folders are those of the machines that an operator named.
	Folders []api.NamedFolder
	// Stored counts what projects keep; nil: nobody counts bytes.
	Stored tenant.Stored
	// Images puts what entries of the catalogue are in the place of their names, and refuses images that are not allowed; nil: nobody does.
	Images func(ctx context.Context, o api.Work, fields []image.Field) error
	// Versions finds those of datasets and models; nil: there are none.
	Versions FindVersion
}

// Gate admits tasks: it settles queue and phase, and refuses what may not be or could never start. Safe for
// concurrent use.
type Gate struct {
	truth      *truth.Truth
	archives   *archive.Archives
	origins    *Origins
	tasks      *tracker.Tracker
	clock      clock.Clock
	impossible func(ctx context.Context, work api.Work, minRevision int64) error
	soleOwner  func() string
	folders    []api.NamedFolder
	stored     tenant.Stored
	versions   FindVersion
	images     func(ctx context.Context, o api.Work, fields []image.Field) error
}

func NewGate(t *truth.Truth, a *archive.Archives, o *Origins, tasks *tracker.Tracker, c clock.Clock, cfg GateConfig) *Gate {
	if cfg.Images == nil {
		cfg.Images = func(context.Context, api.Work, []image.Field) error { return nil }
	}
	return &Gate{
		truth: t, archives: a, origins: o, tasks: tasks, clock: c,
		impossible: cfg.Refuse, soleOwner: cfg.SoleOwner, folders: cfg.Folders, stored: cfg.Stored, versions: cfg.Versions, images: cfg.Images,
	}
}

// NewWork is work on its way through the gate, and what its kind does about it. Images, Own and Saves may be nil.
type NewWork struct {
	Work  api.Work
	Queue func(name string)                   // takes the queue that was settled
	Own   func(ctx context.Context) error     // further checks of the kind
	Begin func(reason string, why fault.Text) // puts its first status
	Saves func() (path string)                // the folder that it saves into within its code; "": none
	// Images is where it names images.
	Images func() []image.Field
}

// admitTask admits a training task.
func (s *Gate) admitTask(ctx context.Context, c *rest.Call, b *objects.Birth, t *api.TrainingTask, dry bool) error {
	var from *api.CheckpointOrigin
	return s.Admit(ctx, c, b, NewWork{
		Work:  t,
		Queue: func(name string) { t.Spec.Queue = name },
		Saves: t.Spec.CheckpointFolder, Images: func() []image.Field { return image.FieldsOf(&t.Spec) },
		Own: func(ctx context.Context) (err error) {
			from, err = s.origins.beginsFrom(ctx, c, t)
			return err
		},
		Begin: func(reason string, why fault.Text) {
			t.Status = api.TrainingTaskStatus{From: from, Phase: api.PhasePending, Reason: reason, Message: why}
			if t.AwaitsCheckpoint() {
				t.Status.Reason, t.Status.Message = "AwaitsCheckpoint", fault.T("Waiting for the checkpoint that it begins from to be uploaded.", "等待上传起始检查点。")
			}
		},
	}, dry)
}

// Admit settles queue and phase of new work of any kind, and refuses what could never start or does not fit the
// queue. Project and queue must hold still until the commit.
func (s *Gate) Admit(ctx context.Context, c *rest.Call, b *objects.Birth, e NewWork, dry bool) error {
	meta := e.Work.GetMeta()
	o, err := s.truth.Refer(ctx, api.Key{Kind: api.KindProject, Name: meta.Project}, "metadata.project")
	if err != nil {
		return err
	}
	project := o.(*api.Project)
	if err := s.mayStart(meta.Owner); err != nil {
		return err
	}
	if e.Work.Workload().Queue == "" {
		e.Queue(project.HomeQueue())
	}
	if err := s.References(ctx, c, e.Work); err != nil {
		return err
	}
	held, err := s.SettleAssets(ctx, c.Who, e.Work)
	if err == nil && e.Images != nil {
		err = s.images(ctx, e.Work, e.Images())
	}
	if err != nil {
		return err
	}
	w := e.Work.Workload()
	queue, err := s.truth.Refer(ctx, api.Key{Kind: api.KindQueue, Name: w.Queue}, "spec.queue")
	if err != nil {
		return err
	}
	if err := checkVolumes(w.Program.Volumes, project, s.folders, s.soleOwner); err != nil {
		return err
	}
	if err := s.checkFolder(w.Program.Code, e.Saves, project); err != nil {
		return err
	}
	if err := s.granted(ctx, &w, project, queue.(*api.Queue)); err != nil {
		return err
	}
	if err := s.roomForWork(ctx, project); err != nil {
		return err
	}
	if e.Own != nil {
		if err := e.Own(ctx); err != nil {
			return err
		}
	}
	if err := s.takeArchive(ctx, c, w.Program.Code, project, dry); err != nil { // who runs it again need not have sent it
		return err
	}
	if err := s.refuse(ctx, e.Work); err != nil {
		return err
	}
	e.Begin(SubmittedReason, submittedMessage)
	b.Ops = []store.Op{
		store.Unchanged(api.KeyOf(project), project.Meta.Revision),
		store.Unchanged(api.KeyOf(queue), queue.GetMeta().Revision),
	}
	b.Ops = append(b.Ops, held...)
	if dry {
		return nil
	}
	return s.reserve(ctx, b, meta.ID, queue.(*api.Queue))
}

// References makes sure that what work names is there; all that is not is said at once.
func (s *Gate) References(ctx context.Context, c *rest.Call, o api.Work) error {
	var all refuse.Gathered
	w := o.Workload()
	if w.Queue != "" {
		_, err := s.truth.Refer(ctx, api.Key{Kind: api.KindQueue, Name: w.Queue}, "spec.queue")
		all.Take(err)
	}
	all.Take(s.checkSecrets(ctx, &w))
	all.Take(s.checkInside(ctx, c.Who, &w))
	if code := w.Program.Code; code != nil && code.Archive != "" {
		_, err := s.archives.UsableBy(ctx, c.Who, nil, code.Archive)
		if fault.Is(err, fault.NotFound) {
			err = refuse.Invalid("spec.code.archive", fault.T("This archive was not uploaded; send it to /api/v1/archives first.", "该代码包尚未上传，请先上传到 /api/v1/archives。"))
		}
		all.Take(err)
	}
	return all.Err()
}

// checkFolder settles which folder of the machines new work means, and refuses one that its project was not granted. The owner of a machine that
// keeps nobody apart may use any.
func (s *Gate) checkFolder(code *api.Code, saves func() string, p *api.Project) error {
	if code == nil || code.Folder == "" {
		return nil
	}
	granted := api.Granted(s.folders, p.Spec.Folders)
	sole := s.soleOwner != nil && s.soleOwner() != ""
	if sole {
		granted = s.folders
	}
	in, rest := api.ResolveFolder(code.Folder, granted)
	switch {
	case in == nil && sole && path.IsAbs(code.Folder):
		return nil
	case in == nil:
		return api.FolderNotAllowed("spec.code.folder", code.Folder, p.Meta.Name, granted)
	case in.ReadOnly && saves != nil && saves() != "" && !sole:
		return refuse.Invalid("spec.checkpoint.folder", fault.T("The code lies in folder %s, which is read-only; checkpoints can't be saved there.", "代码位于只读目录 %s，无法在其中保存检查点。", in.Name))
	}
	code.Folder = api.FolderOf(in, rest)
	return nil
}

// checkVolumes refuses volumes that the project was not granted.
func checkVolumes(list []mount.Volume, p *api.Project, all []api.NamedFolder, soleOwner func() string) error {
	for i, v := range list {
		if err := checkGranted(fmt.Sprintf("spec.volumes[%d].name", i), v.Name, p, all, soleOwner); err != nil {
			return err
		}
	}
	return nil
}

// checkGranted refuses a folder of the machines that the project was not granted; at names it.
func checkGranted(at, name string, p *api.Project, all []api.NamedFolder, soleOwner func() string) error {
	granted := api.Granted(all, p.Spec.Folders)
	if soleOwner != nil && soleOwner() != "" {
		granted = all
	}
	if in, _ := api.ResolveFolder(name, granted); in != nil {
		return nil
	}
	no := api.FolderNotAllowed(at, name, p.Meta.Name, granted)
	if len(granted) == 0 {
		no = no.WithHint(fault.T("The project was granted none: an operator names one (fermi up --folder NAME=PATH) and grants it (project spec.folders).", "该项目尚未获授任何目录：请运维人员命名目录（fermi up --folder NAME=PATH）并授予项目（spec.folders）。"))
	}
	return no
}

// keepFolder takes the path that a task was made with for the name that it was given.
func (s *Gate) keepFolder(given, current *api.TrainingTask) {
	if given.Spec.Code == nil || current.Spec.Code == nil || given.Spec.Code.Folder == "" {
		return
	}
	if in, rest := api.ResolveFolder(given.Spec.Code.Folder, s.folders); in != nil && api.FolderOf(in, rest) == current.Spec.Code.Folder {
		code := *given.Spec.Code
		code.Folder = current.Spec.Code.Folder
		given.Spec.Code = &code
	}
}

// refuse is why work could never start. Before it says no it looks again at everything written so
// far, here and on other servers: a limit may have been raised a moment ago.
func (s *Gate) refuse(ctx context.Context, t api.Work) error {
	if s.impossible == nil || len(t.Workload().Wish.Inside) > 0 {
		return nil
	}
	err := s.impossible(ctx, t, 0)
	if !fault.Is(err, fault.Invalid) {
		return err
	}
	newer, unknown := s.truth.Newer(ctx, 0)
	if unknown != nil {
		return unknown
	}
	if now := max(s.truth.Newest(), newer); now > 0 {
		err = s.impossible(ctx, t, now)
	}
	return err
}

// maxPending is the limit of a queue that names none.
const maxPending = 100000

func (s *Gate) reserve(ctx context.Context, b *objects.Birth, id string, q *api.Queue) error {
	limit := q.Spec.MaxPending
	if limit == 0 {
		limit = maxPending
	}
	if !s.tasks.Ready() {
		n, err := s.countPending(ctx, q.Meta.Name)
		if err != nil {
			return err
		}
		if n >= limit {
			return queueFull(q.Meta.Name, limit)
		}
		return nil
	}
	if !s.tasks.Reserve(id, q.Meta.Name, limit, s.clock.Now()) {
		return queueFull(q.Meta.Name, limit)
	}
	b.Undo = func() { s.tasks.Release(id) }
	return nil
}

// countPending is the slow way, for a server whose Run has not counted yet.
func (s *Gate) countPending(ctx context.Context, queue string) (n int, err error) {
	err = s.truth.EachWork(ctx, "", 0, func(o api.Work) bool {
		if w := o.Workload(); w.Queue == queue && w.Phase == api.PhasePending {
			n++
		}
		return true
	})
	return n, err
}

func queueFull(queue string, limit int) error {
	e := fault.New(fault.TooMany, "QueueFull", fault.T(
		"The queue %q holds %d waiting tasks, which is its limit.", "队列 %q 已有 %d 个等待中的任务，达到上限。", queue, limit)).
		WithHint(fault.T("Wait until some have started, use another queue, or ask an operator to raise maxPending.", "请等待部分任务启动、使用其他队列，或请运维人员提高 maxPending。"))
	e.RetryAfter = 10 * time.Second
	return e
}
