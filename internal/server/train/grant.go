package train

import (
	"context"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/image"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/quota"
	"github.com/fermi-cluster/fermi/internal/server/objects"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/store"
)

// granted refuses work whose project may not use its queue, or not at its priority. It judges the
// wish of whoever asks, an admin's too: the rule is the project's, and who may change it says so there.
func (s *Gate) granted(ctx context.Context, w *api.Workload, p *api.Project, q *api.Queue) error {
	var wrong *fault.Error
	if !q.Admits(p) {
		var err error
		if wrong, err = s.queueNotAllowed(ctx, p, q); err != nil {
			return err
		}
	}
	if high := priorityNotAllowed(w, p); high != nil {
		if wrong == nil {
			return high
		}
		wrong = wrong.WithFields(high.Fields...)
	}
	if wrong == nil {
		return nil
	}
	return wrong
}

// queueNotAllowed names the queues that the project may use.
func (s *Gate) queueNotAllowed(ctx context.Context, p *api.Project, q *api.Queue) (*fault.Error, error) {
	snap, err := s.truth.List(ctx, api.KindQueue, "", 0)
	if err != nil {
		return nil, err
	}
	var may []string
	snap.Ascend("", func(o api.Object) bool {
		if other := o.(*api.Queue); other.Admits(p) && len(may) < 20 {
			may = append(may, other.Meta.Name)
		}
		return true
	})
	project, queue := p.Meta.Name, q.Meta.Name
	text := fault.T("The project %q may not use the queue %q, whose spec.projects does not name it; it may use %s.",
		"项目 %q 不能使用队列 %q：该队列的 spec.projects 未包含此项目；可用的队列：%s。", project, queue, strings.Join(may, ", "))
	return fault.New(fault.Forbidden, "QueueNotAllowed", text).WithFields(fault.Field{Path: "spec.queue", Message: text}).WithHint(fault.T(
		"Leave the queue out, use one of these, or ask an operator: fermi queue set %s --add-project %s.",
		"请去掉 queue，或改用上述队列；也可请运维人员执行：fermi queue set %s --add-project %s。", queue, project)), nil
}

// priorityNotAllowed is nil where the priority is no higher than the project's rule, or the kind's own.
func priorityNotAllowed(w *api.Workload, p *api.Project) *fault.Error {
	top := p.TopPriority(w.Kind)
	if w.Priority <= top {
		return nil
	}
	path := "spec.priority"
	if w.Class != "" {
		path = "spec.priorityClass"
	}
	text := fault.T("The priority %d is above %d, the highest that tasks of the project %q may have (its spec.maxPriority).",
		"优先级 %d 高于项目 %[3]q 的任务允许的最高值 %[2]d（项目的 spec.maxPriority）。", w.Priority, top, p.Meta.Name)
	return fault.New(fault.Forbidden, "PriorityNotAllowed", text).WithFields(fault.Field{Path: path, Message: text}).WithHint(fault.T(
		"Use %d or less, or ask an admin: fermi project set %s --max-priority %d.",
		"请使用不高于 %d 的优先级，或请管理员执行：fermi project set %s --max-priority %d。", top, p.Meta.Name, w.Priority))
}

// mayRaise refuses a change of a task's priority to more than its project may give. What it has stays
// valid, and less than it has is always allowed.
func (s *Gate) mayRaise(ctx context.Context, next, current *api.TrainingTask) error {
	if next.Spec.Priority == nil || current.Spec.Priority != nil && *next.Spec.Priority <= *current.Spec.Priority {
		return nil
	}
	o, err := s.truth.Find(ctx, api.Key{Kind: api.KindProject, Name: next.Meta.Project}, 0)
	if err != nil {
		return err
	}
	w := next.Workload()
	if wrong := priorityNotAllowed(&w, o.(*api.Project)); wrong != nil {
		return wrong
	}
	return nil
}

// MayReturn judges ended work that is to run again by the rules of now.
func (s *Gate) MayReturn(ctx context.Context, o api.Work) error {
	w := o.Workload()
	if _, err := s.grantedNow(ctx, &w); err != nil {
		return err
	}
	return stillThere(ctx, s.versions, &w)
}

// grantedNow is granted by the rules of now, and what must hold still until the commit for that to be true.
func (s *Gate) grantedNow(ctx context.Context, w *api.Workload) ([]store.Op, error) {
	p, err := s.truth.Refer(ctx, api.Key{Kind: api.KindProject, Name: w.Meta.Project}, "metadata.project")
	if err != nil {
		return nil, err
	}
	q, err := s.truth.Refer(ctx, api.Key{Kind: api.KindQueue, Name: w.Queue}, "spec.queue")
	if err != nil {
		return nil, err
	}
	guards := []store.Op{store.Unchanged(api.KeyOf(p), p.GetMeta().Revision), store.Unchanged(api.KeyOf(q), q.GetMeta().Revision)}
	return guards, s.granted(ctx, w, p.(*api.Project), q.(*api.Queue))
}

// MayChange judges work whose spec was changed as if it were new, in what is new about it: who may start processes, its queue and priority, its code,
// what it names (images in these fields), and whether it could ever start. What stays as it was stays valid. The guards must hold until the commit.
func (s *Gate) MayChange(ctx context.Context, c *rest.Call, next, current api.Work, images []image.Field) (guards []store.Op, err error) {
	n, w := next.Workload(), current.Workload()
	program := !objects.SameJSON(n.Roles, w.Roles) || !objects.SameJSON(n.Program, w.Program)
	if program {
		if err := s.mayStart(c.Who.Name()); err != nil {
			return nil, err
		}
		if err := s.images(ctx, next, images); err != nil {
			return nil, err
		}
	}
	if err := s.References(ctx, c, next); err != nil {
		return nil, err
	}
	if n.Queue != w.Queue || n.Priority > w.Priority {
		if guards, err = s.grantedNow(ctx, &n); err != nil {
			return nil, err
		}
	}
	if !objects.SameJSON(n.Program.Code, w.Program.Code) || !objects.SameJSON(n.Program.Volumes, w.Program.Volumes) {
		o, err := s.truth.Refer(ctx, api.Key{Kind: api.KindProject, Name: n.Meta.Project}, "metadata.project")
		if err != nil {
			return nil, err
		}
		project := o.(*api.Project)
		if err := checkVolumes(n.Program.Volumes, project, s.folders, s.soleOwner); err != nil {
			return nil, err
		}
		if err := s.checkFolder(n.Program.Code, nil, project); err != nil {
			return nil, err
		}
		if err := s.takeArchive(ctx, c, n.Program.Code, project, c.Query.Yes("dryRun")); err != nil {
			return nil, err
		}
	}
	if program || n.Queue != w.Queue {
		return guards, s.refuse(ctx, next)
	}
	return guards, nil
}

// takeArchive makes an archive of code the project's.
func (s *Gate) takeArchive(ctx context.Context, c *rest.Call, code *api.Code, p *api.Project, dry bool) error {
	if code == nil || code.Archive == "" || dry {
		return nil
	}
	info, err := s.archives.UsableBy(ctx, c.Who, nil, code.Archive)
	if err != nil {
		return err
	}
	return s.archives.Give(ctx, p, code.Archive, info.Size)
}

// mayStart refuses who may start no processes on a machine that keeps nobody apart.
func (s *Gate) mayStart(user string) error {
	if s.soleOwner == nil {
		return nil
	}
	if sole := s.soleOwner(); sole != "" && sole != user {
		return fault.New(fault.Forbidden, "SingleTenant", fault.T(
			"This machine can't keep projects apart, so only user %q may start processes on it.", "本机无法隔离项目，只有用户 %q 可以在其上启动进程。", sole)).
			WithHint(fault.T("Ask for Fermi to be run as root, or use a zone with containers.", "请让管理员以 root 运行 Fermi，或使用容器可用区。"))
	}
	return nil
}

// roomForWork refuses new work of a project that has as much as it may, of all kinds.
func (s *Gate) roomForWork(ctx context.Context, p *api.Project) error {
	n, err := s.truth.CountWork(ctx, p.Meta.Name)
	if err != nil {
		return err
	}
	if most := p.StorageLimits().Objects; n >= most {
		return quota.OverLimit(p.Meta.Name, "objects", n, 1, most)
	}
	return nil
}

// roomForState refuses an uploaded rank's state that would not fit into what a project may keep.
func (s *Gate) roomForState(ctx context.Context, task *api.TrainingTask, bytes int64) error {
	if s.stored == nil {
		return nil
	}
	o, err := s.truth.Find(ctx, api.Key{Kind: api.KindProject, Name: task.Meta.Project}, 0)
	if err != nil {
		return err
	}
	return s.stored.RoomForCheckpoint(o.(*api.Project), max(bytes, 1))
}
