package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store"
)

func indexed(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

// update changes spec, displayName and labels of the revision the caller read.
func (s *Server) update(ctx context.Context, c *call, row api.KindInfo) (*reply, error) {
	data, err := c.readBody(s.Limits.Body)
	if err != nil {
		return nil, err
	}
	given, err := api.Decode(row.Kind, data)
	if err != nil {
		return nil, err
	}
	if err := s.nameZones(ctx, given); err != nil {
		return nil, err
	}
	current, err := s.currentFor(ctx, c, row, given)
	if err != nil {
		return nil, err
	}
	c.note.about(current)
	if err := s.mayWrite(ctx, c.who, current); err != nil {
		return nil, err
	}
	if m := current.GetMeta(); m.DeletedAt != nil {
		return nil, fault.New(fault.Conflict, "Deleting", fault.T("%s is being deleted.", "%s 正在删除。", m.Name))
	}
	if given.GetMeta().Revision != current.GetMeta().Revision {
		return nil, stale(row, current)
	}
	next, guards, err := s.changed(ctx, current, given)
	if err != nil {
		return nil, err
	}
	if err := s.mayWrite(ctx, c.who, next); err != nil {
		return nil, err
	}
	if t, ok := next.(*api.Token); ok && !sameJSON(t.Spec.ExpiresAt, current.(*api.Token).Spec.ExpiresAt) {
		if err := s.boundLife(c.who, t); err != nil {
			return nil, err
		}
	}
	if c.q.yes("dryRun") {
		c.note.skip = true
		return &reply{message: fault.T("Valid; nothing was changed.", "校验通过，未作任何修改。"), data: hide(next)}, nil
	}
	c.note.before(current)
	if zone, ok := next.(*api.Zone); ok {
		if err := s.keepBook(ctx, current.(*api.Zone), zone); err != nil {
			return nil, err
		}
	}
	rev, err := s.commit(ctx, append([]store.Op{store.Update(next)}, guards...)...)
	if err != nil {
		return nil, err
	}
	c.note.after(next)
	s.tell(c, next, "Updated", fault.T("Changed.", "已修改。"))
	return &reply{message: fault.T("Changed", "修改成功"), data: hide(next), revision: rev}, nil
}

// currentFor finds what a PUT is about, at least as new as the revision it carries.
func (s *Server) currentFor(ctx context.Context, c *call, row api.KindInfo, given api.Object) (api.Object, error) {
	m, name := given.GetMeta(), c.r.PathValue("name")
	c.note.kind, c.note.name = row.Kind, clip(name, 128)
	if m.Revision <= 0 {
		return nil, invalid("metadata.revision", fault.T(
			"Give the revision that you read; the change is refused if somebody else changed it since.", "请填写读取时的 revision；若期间被他人修改，本次修改会被拒绝。"))
	}
	if row.Project && c.q.text("project") == "" && m.Project != "" {
		c.q.by["project"] = []string{m.Project}
	}
	f, err := s.resolve(ctx, c, row, name)
	// Another server may have made or changed it a moment ago.
	if fault.Is(err, fault.NotFound) && c.q.number("minRevision") < m.Revision || err == nil && !f.archived && f.object.GetMeta().Revision < m.Revision {
		c.q.by["minRevision"] = []string{fmt.Sprint(m.Revision)}
		f, err = s.resolve(ctx, c, row, name)
	}
	if err != nil {
		return nil, err
	}
	have := f.object.GetMeta()
	switch {
	case f.archived:
		return nil, fault.New(fault.Conflict, "Finished", fault.T("%s has finished and can no longer be changed.", "%s 已结束，不能再修改。", have.Name))
	case m.Name != "" && m.Name != have.Name:
		return nil, invalid("metadata.name", fault.T("The path says %q; a name never changes.", "路径中为 %q；名称不可更改。", have.Name))
	case m.Project != "" && m.Project != have.Project:
		return nil, invalid("metadata.project", fault.T("It is in the project %q; a project never changes.", "该对象属于项目 %q；项目不可更改。", have.Project))
	}
	return f.object, nil
}

func stale(row api.KindInfo, o api.Object) error {
	m := o.GetMeta()
	return fault.New(fault.Conflict, "Stale", fault.T(
		"The %s %q was changed by somebody else; it is now at revision %d.", "%s %q 已被他人修改，当前 revision 为 %d。", row.Singular, m.Name, m.Revision)).
		WithHint(fault.T("Read it again and repeat the change.", "请重新读取后再修改。"))
}

// changed is the next state of an object, checked, and what must hold still at the commit.
func (s *Server) changed(ctx context.Context, current, given api.Object) (api.Object, []store.Op, error) {
	next := store.Clone(current)
	m, g := next.GetMeta(), given.GetMeta()
	if g.DisplayName != "" {
		m.DisplayName = g.DisplayName
	}
	m.Labels, m.UpdatedAt = g.Labels, s.Clock.Now().UTC()
	var guards []store.Op
	var check func() error
	switch next := next.(type) {
	case *api.TrainingTask:
		given := given.(*api.TrainingTask)
		s.keepFolder(given, current.(*api.TrainingTask))
		fixed := changeTask(next, current.(*api.TrainingTask), given)
		check = func() error {
			if err := fixed(); err != nil {
				return err
			}
			return s.mayRaise(ctx, next, current.(*api.TrainingTask))
		}
	case *api.Zone:
		next.Spec = given.(*api.Zone).Spec
	case *api.Queue:
		next.Spec = given.(*api.Queue).Spec
		check = func() (err error) {
			guards, err = s.checkQueue(ctx, next, current.(*api.Queue).Spec.Projects)
			return err
		}
	case *api.Project:
		next.Spec = given.(*api.Project).Spec
		check = func() (err error) {
			guards, err = s.checkProject(ctx, next, current.(*api.Project).Spec.Members)
			return err
		}
	case *api.User:
		next.Spec = given.(*api.User).Spec
		if next.Spec.Disabled && !current.(*api.User).Spec.Disabled {
			next.Status.SignOuts++ // sessions don't come back with the user
		}
		check = func() (err error) { guards, err = s.keepAdmin(ctx, current.(*api.User), next); return err }
	case *api.Secret:
		next.Spec = given.(*api.Secret).Spec
		if next.Spec.Type == "" {
			next.Spec.Type = secretType(current.(*api.Secret))
		}
		check = func() (err error) { guards, err = s.admitSecret(ctx, next, current.(*api.Secret)); return err }
	case *api.Token:
		check = s.changeToken(next, current.(*api.Token), given.(*api.Token))
	}
	if err := api.Prepare(next, s.IDs.Random); err != nil {
		return nil, nil, err
	}
	if check != nil {
		if err := check(); err != nil {
			return nil, nil, err
		}
	}
	return next, guards, nil
}

func (s *Server) changeToken(next, current, given *api.Token) func() error {
	next.Spec.ExpiresAt = given.Spec.ExpiresAt
	return func() error {
		var fields []fault.Field
		if given.Spec.User != "" && given.Spec.User != current.Spec.User {
			fields = append(fields, fixedField("spec.user"))
		}
		if given.Spec.Task != "" && given.Spec.Task != current.Spec.Task {
			fields = append(fields, fixedField("spec.task"))
		}
		if given.Spec.Hash != "" {
			fields = append(fields, fixedField("spec.hash"))
		}
		if given.Spec.Scope != current.Spec.Scope {
			fields = append(fields, fixedField("spec.scope"))
		}
		if !slices.Equal(given.Spec.Projects, current.Spec.Projects) {
			fields = append(fields, fixedField("spec.projects"))
		}
		if current.Spec.Use != "" || given.Spec.Use != "" {
			fields = append(fields, fixedField("spec.use"))
		}
		if len(fields) > 0 {
			return immutable(fields)
		}
		if next.Spec.ExpiresAt != nil && (current.Spec.ExpiresAt == nil || !next.Spec.ExpiresAt.Equal(*current.Spec.ExpiresAt)) {
			return s.checkExpiry(next)
		}
		return nil
	}
}

// changeTask takes over what may change once a task is made, and refuses the rest by name.
// Queue, stop and restore, which the server filled in, may be left out.
func changeTask(next, current, given *api.TrainingTask) func() error {
	next.Spec = given.Spec
	if next.Spec.Queue == "" {
		next.Spec.Queue = current.Spec.Queue
	}
	if !next.Spec.Stop {
		next.Spec.Stop = current.Spec.Stop
	}
	if next.Spec.Restore == nil {
		next.Spec.Restore = current.Spec.Restore
	}
	// Somebody who read both and changed one of them means that one.
	samePriority := sameJSON(given.Spec.Priority, current.Spec.Priority)
	sameClass := given.Spec.PriorityClass == current.Spec.PriorityClass
	switch {
	case given.Spec.Priority != nil && !samePriority && sameClass:
		next.Spec.PriorityClass = ""
	case given.Spec.PriorityClass != "" && !sameClass && samePriority:
		next.Spec.Priority = nil
	}
	return func() error {
		if fields := immutableFields(&next.Spec, &current.Spec); len(fields) > 0 {
			return immutable(fields)
		}
		return nil
	}
}

var mutableTask = map[string]bool{"Description": true, "Priority": true, "PriorityClass": true}

func immutableFields(next, current *api.TrainingTaskSpec) []fault.Field {
	var fields []fault.Field
	a, b := reflect.ValueOf(next).Elem(), reflect.ValueOf(current).Elem()
	for i := range a.NumField() {
		field := a.Type().Field(i)
		if mutableTask[field.Name] || sameJSON(a.Field(i).Interface(), b.Field(i).Interface()) {
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		fields = append(fields, fixedField("spec."+name))
	}
	return fields
}

// sameJSON compares as clients see it: absent, null and empty are alike.
func sameJSON(a, b any) bool {
	x, errA := json.Marshal(a)
	y, errB := json.Marshal(b)
	return errA == nil && errB == nil && (bytes.Equal(x, y) || emptyJSON(x) && emptyJSON(y))
}

func emptyJSON(data []byte) bool {
	switch string(data) {
	case "null", "[]", "{}", `""`:
		return true
	}
	return false
}

func fixedField(path string) fault.Field {
	return fault.Field{Path: path, Message: fault.T("It cannot be changed once the object is made.", "对象创建后不可更改。")}
}

func immutable(fields []fault.Field) error {
	return fault.New(fault.Invalid, "Immutable", fault.T("Some fields cannot be changed.", "部分字段不可更改。")).WithFields(fields...).WithHint(
		fault.T("Of a task, displayName, labels, description and priority may change; clone it for more.", "任务只能修改 displayName、labels、description 和优先级；其他修改请克隆任务。"))
}
