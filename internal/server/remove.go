package server

import (
	"cmp"
	"context"
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store"
)

// remove deletes. A live task only gets its mark here: the controller ends its work, then
// removes it. Other kinds go at once unless something refers to them.
func (s *Server) remove(ctx context.Context, c *call, row api.KindInfo) (*reply, error) {
	name := c.r.PathValue("name")
	c.note.kind, c.note.name = row.Kind, clip(name, 128)
	f, err := s.resolve(ctx, c, row, name)
	if err != nil {
		return nil, err
	}
	c.note.about(f.object)
	if err := s.mayWrite(ctx, c.who, f.object); err != nil {
		return nil, err
	}
	c.note.before(f.object)
	switch {
	case f.archived:
		return s.forget(ctx, c, f.object)
	case row.Kind == api.KindTrainingTask:
		return s.markDeleted(ctx, c, f.object.(*api.TrainingTask))
	}
	// Who deletes names no revision. That the object changed a moment ago, maybe by the same caller and not seen by our cache yet, is no
	// reason to refuse: it is looked at again, as long as it is the same one.
	rev, err := int64(0), error(nil)
	for o, tries := f.object, 0; tries < retries && (tries == 0 || fault.ReasonOf(err) == "Stale"); tries++ {
		if tries > 0 {
			var again error
			if o, again = s.Store.Get(ctx, api.KeyOf(o), o.GetMeta().Revision+1); again != nil || o.GetMeta().ID != f.object.GetMeta().ID {
				return nil, cmp.Or(again, missing(row, name))
			}
		}
		var guards []store.Op
		guards, err = s.unused(ctx, o)
		if zone, ok := o.(*api.Zone); ok && err == nil {
			err = s.keepBook(ctx, zone, nil)
		}
		if err == nil {
			rev, err = s.commit(ctx, append([]store.Op{store.Delete(api.KeyOf(o), o.GetMeta().Revision)}, guards...)...)
		}
	}
	if err != nil {
		return nil, err
	}
	s.tell(c, f.object, "Deleted", fault.T("Deleted.", "已删除。"))
	return &reply{message: fault.T("Deleted", "删除成功"), data: hide(f.object), revision: rev}, nil
}

// forget removes an archived task: bytes first, so that a crash leaves a row to delete again.
func (s *Server) forget(ctx context.Context, c *call, o api.Object) (*reply, error) {
	id := o.GetMeta().ID
	if err := s.Logs.Delete(ctx, id); err != nil {
		return nil, err
	}
	if err := s.Blob.Delete(ctx, "outputs/"+id+"/"); err != nil {
		return nil, err
	}
	if s.Checkpoints != nil {
		if err := s.Checkpoints.Erase(ctx, id); err != nil {
			return nil, err
		}
	}
	if err := s.History.Forget(ctx, o.Kind(), id); err != nil {
		return nil, err
	}
	if s.Stored != nil {
		s.Stored.Forget(id)
	}
	s.tell(c, o, "Deleted", fault.T("Deleted with its logs and outputs.", "已连同日志和产出一起删除。"))
	return &reply{message: fault.T("Deleted with its logs and outputs", "已连同日志和产出一起删除"), data: hide(o)}, nil
}

func (s *Server) markDeleted(ctx context.Context, c *call, task *api.TrainingTask) (*reply, error) {
	if err := c.freeOf(task); err != nil {
		return nil, err
	}
	next, rev, err := s.edit(ctx, task, func(t *api.TrainingTask) bool {
		if t.Meta.DeletedAt != nil {
			return false
		}
		now := s.Clock.Now().UTC()
		t.Meta.DeletedAt = &now
		return true
	})
	if err != nil {
		return nil, err
	}
	c.note.after(next)
	if rev > 0 {
		s.tell(c, next, "DeleteRequested", fault.T("Deletion was asked for.", "已请求删除。"))
	}
	return &reply{message: fault.T("The task is being deleted", "任务正在删除"), data: next, revision: next.Meta.Revision}, nil
}

// edit changes a task by a server verb: read, change, commit, and again when somebody was
// faster. change says whether there is anything to write; revision 0 means that nothing was.
func (s *Server) edit(ctx context.Context, task *api.TrainingTask, change func(*api.TrainingTask) bool) (*api.TrainingTask, int64, error) {
	var err error
	for range retries {
		next := store.Clone(task)
		if !change(next) {
			return task, 0, nil
		}
		next.Meta.UpdatedAt = s.Clock.Now().UTC()
		var rev int64
		if rev, err = s.commit(ctx, store.Update(next)); err == nil {
			return next, rev, nil
		}
		if fault.ReasonOf(err) != "Stale" {
			return nil, 0, err
		}
		fresh, again := s.again(ctx, task)
		if again != nil {
			return nil, 0, again
		}
		task = fresh
	}
	return nil, 0, err
}

// again reads a task that has moved, at least one revision further than it was known.
func (s *Server) again(ctx context.Context, task *api.TrainingTask) (*api.TrainingTask, error) {
	o, err := s.Store.Get(ctx, api.KeyOf(task), task.Meta.Revision+1)
	if err != nil {
		return nil, err
	}
	fresh := o.(*api.TrainingTask)
	if fresh.Meta.ID != task.Meta.ID {
		return nil, missing(api.MustInfo(api.KindTrainingTask), task.Meta.ID)
	}
	return fresh, nil
}

// unused refuses with InUse when something refers to the object; guards must hold at the commit.
func (s *Server) unused(ctx context.Context, o api.Object) ([]store.Op, error) {
	// Everything committed so far must be looked at, not only what the cache has seen.
	rev, err := s.Store.Commit(ctx, store.Txn{Ops: []store.Op{store.Unchanged(api.KeyOf(o), o.GetMeta().Revision)}})
	if err != nil {
		return nil, err
	}
	name := o.GetMeta().Name
	switch o := o.(type) {
	case *api.Queue:
		if err := s.noneOf(ctx, api.KindQueue, "", rev, func(x api.Object) bool { return x.(*api.Queue).Spec.Parent == name }); err != nil {
			return nil, err
		}
		if err := s.noneOf(ctx, api.KindProject, "", rev, func(x api.Object) bool { return x.(*api.Project).HomeQueue() == name }); err != nil {
			return nil, err
		}
		return nil, s.noneOf(ctx, api.KindTrainingTask, "", rev, func(x api.Object) bool { return x.(*api.TrainingTask).Spec.Queue == name })
	case *api.Zone:
		return nil, s.noneOf(ctx, api.KindNode, "", rev, func(x api.Object) bool { return x.(*api.Node).Spec.Zone == name })
	case *api.Project:
		// Another project of the same name would inherit what a queue allows this one.
		if err := s.noneOf(ctx, api.KindQueue, "", rev, func(x api.Object) bool { return slices.Contains(x.(*api.Queue).Spec.Projects, name) }); err != nil {
			return nil, err
		}
		if err := s.noneOf(ctx, api.KindSecret, name, rev, func(api.Object) bool { return true }); err != nil {
			return nil, err
		}
		return nil, s.noneOf(ctx, api.KindTrainingTask, name, rev, func(api.Object) bool { return true })
	case *api.User:
		if err := s.noneOf(ctx, api.KindToken, "", rev, func(x api.Object) bool {
			t := x.(*api.Token)
			return t.Spec.User == name && t.Spec.Use == "" // sessions end with their user
		}); err != nil {
			return nil, err
		}
		if err := s.noneOf(ctx, api.KindTrainingTask, "", rev, func(x api.Object) bool { return x.GetMeta().Owner == name }); err != nil {
			return nil, err
		}
		return s.keepAdmin(ctx, o, nil)
	}
	return nil, nil
}

func (s *Server) noneOf(ctx context.Context, kind api.Kind, project string, rev int64, refers func(api.Object) bool) error {
	snap, err := s.Store.List(ctx, kind, project, rev)
	if err != nil {
		return err
	}
	var user api.Object
	snap.Ascend("", func(x api.Object) bool {
		if refers(x) {
			user = x
		}
		return user == nil
	})
	if user == nil {
		return nil
	}
	row := api.MustInfo(kind)
	return fault.New(fault.Conflict, "InUse", fault.T(
		"It is in use by the %s %q.", "仍被 %s %q 使用。", row.Singular, user.GetMeta().Name)).WithHint(fault.T(
		"Delete or change what uses it first.", "请先删除或修改引用它的对象。"))
}

func activeAdmin(u *api.User) bool {
	return u != nil && u.Spec.Role == api.RoleAdmin && !u.Spec.Disabled
}

// keepAdmin makes sure that an admin is left when this one changes (next nil: goes): another one
// is found and must hold still at the commit, so that two cannot remove each other.
func (s *Server) keepAdmin(ctx context.Context, current, next *api.User) ([]store.Op, error) {
	if !activeAdmin(current) || activeAdmin(next) {
		return nil, nil
	}
	snap, err := s.Store.List(ctx, api.KindUser, "", current.Meta.Revision)
	if err != nil {
		return nil, err
	}
	var other *api.User
	snap.Ascend("", func(o api.Object) bool {
		if u := o.(*api.User); u.Meta.ID != current.Meta.ID && activeAdmin(u) {
			other = u
		}
		return other == nil
	})
	if other == nil {
		return nil, fault.New(fault.Conflict, "LastAdmin", fault.T(
			"%s is the last admin.", "%s 是最后一个管理员。", current.Meta.Name)).WithHint(fault.T(
			"Make another admin first.", "请先设置另一个管理员。"))
	}
	return []store.Op{store.Unchanged(api.KeyOf(other), other.Meta.Revision)}, nil
}
