package server

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
)

// archives keeps uploaded code, and who may use it.
type archives struct {
	truth   *truth
	judge   *judge
	blob    blob.Store
	stored  Stored // nil: nobody counts bytes
	streams *streams
	limit   int64 // bytes of one
}

func newArchives(t *truth, j *judge, b blob.Store, stored Stored, st *streams, limit int64) *archives {
	return &archives{truth: t, judge: j, blob: b, stored: stored, streams: st, limit: limit}
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

// usableBy is an archive that the caller may use in a project; in any of theirs where project is nil. NotFound
// when there is none, or none for them; Invalid for a bad digest.
func (s *archives) usableBy(ctx context.Context, w *caller, project *api.Project, digest string) (blob.Info, error) {
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

func (s *archives) mayUse(ctx context.Context, w *caller, project *api.Project, digest string) (bool, error) {
	if w.role() == api.RoleAdmin && w.seesAll() {
		return true, nil
	}
	key, err := userGrant(w.user.Meta.ID, digest)
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
		if ok, err := has(ctx, s.blob, key); err != nil || ok {
			return ok, err
		}
	}
	return false, nil
}

// project is the project that an upload or a question names; nil when it names none.
func (s *archives) project(ctx context.Context, c *call, write bool) (*api.Project, error) {
	name := c.q.text("project")
	if name == "" {
		return nil, nil
	}
	o, err := s.truth.find(ctx, api.Key{Kind: api.KindProject, Name: name}, 0)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	if err == nil {
		p := o.(*api.Project)
		if write {
			return p, s.judge.mayWrite(ctx, c.who, &api.TrainingTask{Meta: api.Meta{Project: name}})
		}
		if c.who.seesAll() || c.who.belongs(p) {
			return p, nil
		}
	}
	return nil, notMember(name)
}

// info looks for an uploaded archive; NotFound when absent, Invalid for a bad digest.
func (s *archives) info(ctx context.Context, digest string) (blob.Info, error) {
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

// give opens an archive to a project, once, as far as its limit allows.
func (s *archives) give(ctx context.Context, p *api.Project, digest string, size int64) error {
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

type archive struct {
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
}

func (s *archives) routes(reg *schemas) []*route {
	data := schemaOf[archive](reg)
	return []*route{
		{
			method: http.MethodPost, path: prefix + "/archives", id: "putArchive", summary: "Upload a code archive, for a project, or for yourself where none is named; the same bytes twice are kept once.", tag: "archives", long: true,
			query: []param{{name: "project", doc: "Whose members may use it; only you when absent."}},
			verb:  "upload", kind: "Archive", body: &bodySpec{schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}, media: []string{"application/octet-stream"}, required: true},
			data: data, handle: s.put,
		},
		{
			method: http.MethodGet, path: prefix + "/archives/{digest}", id: "getArchive", summary: "Whether an archive is there for you, or for a project.", tag: "archives",
			query: []param{{name: "project", doc: "Only as a task of this project would find it."}},
			data:  data, handle: s.get,
		},
	}
}

func (s *archives) put(ctx context.Context, c *call) (*reply, error) {
	limit := s.limit
	if c.r.ContentLength > limit {
		return nil, bodyTooLarge(limit)
	}
	project, err := s.project(ctx, c, true)
	if err != nil {
		return nil, err
	}
	defer s.streams.guard(ctx, c, nil)()
	digest, n, err := blob.PutContent(ctx, s.blob, "archives", stalling{c, c.r.Body}, limit)
	if err != nil {
		var ours *fault.Error
		if errors.As(err, &ours) {
			return nil, err
		}
		return nil, bodyFault(err, limit)
	}
	if n == 0 {
		return nil, fault.New(fault.Invalid, "BadBody", fault.T("The archive is empty.", "代码包为空。"))
	}
	if project != nil {
		c.note.project = project.Meta.Name
		err = s.give(ctx, project, digest, n)
	} else {
		var key string
		if key, err = userGrant(c.who.user.Meta.ID, digest); err == nil {
			err = grant(ctx, s.blob, key, n)
		}
	}
	if err != nil {
		return nil, err
	}
	c.note.name, c.note.what = digest, `{"size":`+strconv.FormatInt(n, 10)+`}`
	return &reply{message: fault.T("Archive stored", "代码包已保存"), data: archive{digest, n}}, nil
}

func (s *archives) get(ctx context.Context, c *call) (*reply, error) {
	digest := c.r.PathValue("digest")
	project, err := s.project(ctx, c, false)
	if err != nil {
		return nil, err
	}
	info, err := s.usableBy(ctx, c.who, project, digest)
	if err != nil {
		return nil, err
	}
	return &reply{data: archive{digest, info.Size}}, nil
}
