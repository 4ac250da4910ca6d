package archive

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/stream"
	"github.com/fermi-cluster/fermi/internal/server/tenant"
	"github.com/fermi-cluster/fermi/internal/server/truth"
)

// Archives keeps uploaded code, and who may use it.
type Archives struct {
	truth   *truth.Truth
	judge   *access.Judge
	blob    blob.Store
	stored  tenant.Stored // nil: nobody counts bytes
	streams *stream.Streams
	limit   int64 // bytes of one
}

func New(t *truth.Truth, j *access.Judge, b blob.Store, stored tenant.Stored, st *stream.Streams, limit int64) *Archives {
	return &Archives{truth: t, judge: j, blob: b, stored: stored, streams: st, limit: limit}
}

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

// Grant opens an archive to a project; size is for those who add up what a project has.
func Grant(ctx context.Context, st blob.Store, projectID, digest string, size int64) error {
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

// UsableBy is an archive that the caller may use in a project; in any of theirs where project is nil. NotFound
// when there is none, or none for them; Invalid for a bad digest.
func (s *Archives) UsableBy(ctx context.Context, w *access.Caller, project *api.Project, digest string) (blob.Info, error) {
	info, err := s.info(ctx, digest)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return info, err
	}
	// The same looks whether it is there or not, so that their time says nothing.
	may, lookErr := s.mayUse(ctx, w, project, digest)
	switch {
	case lookErr != nil:
		return blob.Info{}, lookErr
	case err != nil || !may:
		return blob.Info{}, fault.New(fault.NotFound, "NoArchive", fault.T("This archive was not uploaded.", "该代码包尚未上传。"))
	}
	return info, nil
}

func (s *Archives) mayUse(ctx context.Context, w *access.Caller, project *api.Project, digest string) (bool, error) {
	if w.Role() == api.RoleAdmin && w.SeesAll() {
		return true, nil
	}
	key, err := userGrant(w.User.Meta.ID, digest)
	if err != nil {
		return false, err
	}
	if ok, err := has(ctx, s.blob, key); err != nil || ok {
		return ok, err
	}
	projects := []*api.Project{project}
	if project == nil {
		snap, err := s.truth.List(ctx, api.KindProject, "", 0)
		if err != nil {
			return false, err
		}
		projects = nil
		snap.Ascend("", func(o api.Object) bool {
			if p, ok := o.(*api.Project); ok && (w.Belongs(p) || w.SeesAll()) {
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
		if ok, err := has(ctx, s.blob, key); err != nil || ok {
			return ok, err
		}
	}
	return false, nil
}

// project is the project that an upload or a question names; nil when it names none.
func (s *Archives) project(ctx context.Context, c *rest.Call, write bool) (*api.Project, error) {
	name := c.Query.Text("project")
	if name == "" {
		return nil, nil
	}
	o, err := s.truth.Find(ctx, api.Key{Kind: api.KindProject, Name: name}, 0)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	if err == nil {
		p := o.(*api.Project)
		if write {
			return p, s.judge.MayWrite(ctx, c.Who, &api.TrainingTask{Meta: api.Meta{Project: name}})
		}
		if c.Who.SeesAll() || c.Who.Belongs(p) {
			return p, nil
		}
	}
	return nil, refuse.NotMember(name)
}

// info looks for an uploaded archive; NotFound when absent, Invalid for a bad digest.
func (s *Archives) info(ctx context.Context, digest string) (blob.Info, error) {
	key, err := blob.ContentKey("archives", digest)
	if err != nil {
		return blob.Info{}, err
	}
	r, info, err := s.blob.Open(ctx, key)
	if err != nil {
		return blob.Info{}, err
	}
	return info, r.Close()
}

// Give opens an archive to a project, once, as far as its limit allows.
func (s *Archives) Give(ctx context.Context, p *api.Project, digest string, size int64) error {
	key, err := projectGrant(p.Meta.ID, digest)
	if err != nil {
		return err
	}
	if there, err := has(ctx, s.blob, key); err != nil || there {
		return err
	}
	if s.stored != nil {
		if err := s.stored.KeepArchive(p, size); err != nil {
			return err
		}
	}
	return grant(ctx, s.blob, key, size)
}

type Archive struct {
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
}

func (s *Archives) Routes(reg *rest.Schemas) []*rest.Route {
	data := rest.SchemaOf[Archive](reg)
	return []*rest.Route{
		{
			Method: http.MethodPost, Path: rest.Prefix + "/archives", ID: "putArchive", Summary: "Upload a code archive, for a project, or for yourself where none is named; the same bytes twice are kept once.", Tag: "archives", Long: true,
			Query: []rest.Param{{Name: "project", Doc: "Whose members may use it; only you when absent."}},
			Verb:  "upload", Kind: "Archive", Body: &rest.BodySpec{Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}, Media: []string{"application/octet-stream"}, Required: true},
			Data: data, Handle: s.put,
		},
		{
			Method: http.MethodGet, Path: rest.Prefix + "/archives/{digest}", ID: "getArchive", Summary: "Whether an archive is there for you, or for a project.", Tag: "archives",
			Query: []rest.Param{{Name: "project", Doc: "Only as a task of this project would find it."}},
			Data:  data, Handle: s.get,
		},
	}
}

func (s *Archives) put(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	limit := s.limit
	if c.R.ContentLength > limit {
		return nil, rest.BodyTooLarge(limit)
	}
	project, err := s.project(ctx, c, true)
	if err != nil {
		return nil, err
	}
	defer s.streams.Guard(ctx, c, nil)()
	digest, n, err := blob.PutContent(ctx, s.blob, "archives", c.Uploaded(), limit)
	if err != nil {
		var ours *fault.Error
		if errors.As(err, &ours) {
			return nil, err
		}
		return nil, rest.BodyFault(err, limit)
	}
	if n == 0 {
		return nil, fault.New(fault.Invalid, "BadBody", fault.T("The archive is empty.", "代码包为空。"))
	}
	if project != nil {
		c.Note.Project = project.Meta.Name
		err = s.Give(ctx, project, digest, n)
	} else {
		var key string
		if key, err = userGrant(c.Who.User.Meta.ID, digest); err == nil {
			err = grant(ctx, s.blob, key, n)
		}
	}
	if err != nil {
		return nil, err
	}
	c.Note.Name, c.Note.What = digest, `{"size":`+strconv.FormatInt(n, 10)+`}`
	return &rest.Reply{Message: fault.T("Archive stored", "代码包已保存"), Data: Archive{digest, n}}, nil
}

func (s *Archives) get(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	digest := c.R.PathValue("digest")
	project, err := s.project(ctx, c, false)
	if err != nil {
		return nil, err
	}
	info, err := s.UsableBy(ctx, c.Who, project, digest)
	if err != nil {
		return nil, err
	}
	return &rest.Reply{Data: Archive{digest, info.Size}}, nil
}
