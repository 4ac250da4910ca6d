package image

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"sync"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	kind "github.com/fermi-cluster/fermi/api/v1/image"
	"github.com/fermi-cluster/fermi/internal/control/work"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// New makes the controller of image jobs; allowed are the beginnings of names that images may have, none: any.
func New(cfg work.Config, allowed []string) *work.Controller {
	cfg.Rules = &rules{allowed: allowed, output: cfg.Output, results: map[string]kind.Result{}}
	return work.New(cfg)
}

// maxResult bounds what a job leaves.
const maxResult = 256 << 10

// rules are what image jobs add to what all work has.
type rules struct {
	allowed []string
	output  func(ctx context.Context, replica engine.Name, file string, most int64) ([]byte, error)

	mu      sync.Mutex
	results map[string]kind.Result // by id, of jobs that are about to end
}

func (*rules) Kind() api.Kind { return kind.JobKind }

// Look reads what a job left whose replica has handed over. It comes from the tenant's process: input.
func (r *rules) Look(ctx context.Context, s *work.Seen, _ time.Time) {
	j := s.Work.(*kind.ImageJob)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.results, j.Meta.ID)
	if j.Status.Phase.Finished() || len(s.Members) != 1 || s.Members[0].Known.State != engine.StateDone {
		return
	}
	if res, err := r.read(ctx, s.Members[0].Name); err == nil {
		r.results[j.Meta.ID] = res
	}
}

func (r *rules) read(ctx context.Context, replica engine.Name) (res kind.Result, err error) {
	raw, err := r.output(ctx, replica, kind.ResultFile, maxResult)
	if err != nil {
		return res, err
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&res); err != nil {
		return res, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return res, fault.New(fault.Invalid, "BadResult", fault.T("More follows the result.", "结果之后还有内容。"))
	}
	return res, res.Check()
}

// result is what a job that is about to end left; ok is false where it left nothing that counts.
func (r *rules) result(id string) (res kind.Result, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	res, ok = r.results[id]
	return res, ok
}

// Fill says what the launcher does beside running it.
func (r *rules) Fill(w api.Work, _ *api.Role, replica *engine.Replica) {
	j := w.(*kind.ImageJob)
	switch j.Spec.Do {
	case kind.Build:
		replica.Images = engine.ImageBuild
		replica.Command = withAllowed(replica.Command, r.allowed)
	case kind.Pull:
		replica.Images, replica.Image = engine.ImagePull, j.Spec.Image
	case kind.Save:
		if s := j.Spec.Saved; s != nil {
			replica.Images, replica.Image, replica.Home = engine.ImageSave, s.Image, s.ID
		}
	}
}

// withAllowed tells a build which base images it may begin from.
func withAllowed(command, allowed []string) (out []string) {
	for _, word := range command {
		if word == "--" {
			for _, a := range allowed {
				out = append(out, "--allow", a)
			}
			allowed = nil
		}
		out = append(out, word)
	}
	return out
}
