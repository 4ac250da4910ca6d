package server

import (
	"context"
	"strconv"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Archives with the same bytes are kept once, whoever sent them; who may use one is written beside it. An
// upload opens it to a project, or where none was named to the user who sent it; a task opens it to its
// project. To everybody else it does not exist: an upload takes the same steps and has the same answer
// whether the bytes were there or not, and only who has sent them, or is in a project that has them, may
// name their digest.
const grants = "granted/archives/"

func projectGrant(projectID, digest string) (string, error) {
	return grantKey("projects/"+projectID, digest)
}
func userGrant(userID, digest string) (string, error) { return grantKey("users/"+userID, digest) }

func grantKey(whose, digest string) (string, error) {
	if _, err := blob.ContentKey("archives", digest); err != nil {
		return "", err
	}
	key := grants + whose + "/" + strings.TrimPrefix(digest, "sha256:")
	return key, blob.CheckKey(key)
}

// GrantArchive opens an archive to a project; size is for those who add up what a project has.
func GrantArchive(ctx context.Context, st blob.Store, projectID, digest string, size int64) error {
	key, err := projectGrant(projectID, digest)
	if err != nil {
		return err
	}
	if there, err := has(ctx, st, key); err != nil || there {
		return err
	}
	return grant(ctx, st, key, size)
}

func grant(ctx context.Context, st blob.Store, key string, size int64) error {
	_, err := st.Put(ctx, key, strings.NewReader(strconv.FormatInt(size, 10)))
	return err
}

func has(ctx context.Context, st blob.Store, key string) (bool, error) {
	r, _, err := st.Open(ctx, key)
	if fault.Is(err, fault.NotFound) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	return true, r.Close()
}

// archiveFor is an archive that the caller may use in a project; in any of theirs where project is nil. NotFound
// when there is none, or none for them; Invalid for a bad digest.
func (s *Server) archiveFor(ctx context.Context, w *caller, project *api.Project, digest string) (blob.Info, error) {
	info, err := s.archiveInfo(ctx, digest)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return info, err
	}
	// The same looks whether it is there or not, so that their time says nothing.
	may, lookErr := s.mayUseArchive(ctx, w, project, digest)
	switch {
	case lookErr != nil:
		return blob.Info{}, lookErr
	case err != nil || !may:
		return blob.Info{}, fault.New(fault.NotFound, "NoArchive", fault.T("This archive was not uploaded.", "该代码包尚未上传。"))
	}
	return info, nil
}

func (s *Server) mayUseArchive(ctx context.Context, w *caller, project *api.Project, digest string) (bool, error) {
	if w.role() == api.RoleAdmin && w.seesAll() {
		return true, nil
	}
	key, err := userGrant(w.user.Meta.ID, digest)
	if err != nil {
		return false, err
	}
	if ok, err := has(ctx, s.Blob, key); err != nil || ok {
		return ok, err
	}
	projects := []*api.Project{project}
	if project == nil {
		snap, err := s.Store.List(ctx, api.KindProject, "", 0)
		if err != nil {
			return false, err
		}
		projects = nil
		snap.Ascend("", func(o api.Object) bool {
			if p, ok := o.(*api.Project); ok && (w.belongs(p) || w.seesAll()) {
				projects = append(projects, p)
			}
			return true
		})
	}
	for _, p := range projects {
		key, err := projectGrant(p.Meta.ID, digest)
		if err != nil {
			return false, err
		}
		if ok, err := has(ctx, s.Blob, key); err != nil || ok {
			return ok, err
		}
	}
	return false, nil
}

// archiveProject is the project that an upload or a question names; nil when it names none.
func (s *Server) archiveProject(ctx context.Context, c *call, write bool) (*api.Project, error) {
	name := c.q.text("project")
	if name == "" {
		return nil, nil
	}
	o, err := s.find(ctx, api.Key{Kind: api.KindProject, Name: name}, 0)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	if err == nil {
		p := o.(*api.Project)
		if write {
			return p, s.mayWrite(ctx, c.who, &api.TrainingTask{Meta: api.Meta{Project: name}})
		}
		if c.who.seesAll() || c.who.belongs(p) {
			return p, nil
		}
	}
	return nil, errNotMember(name)
}
