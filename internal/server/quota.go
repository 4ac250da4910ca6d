package server

import (
	"context"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/quota"
)

// Stored is what is kept for projects, in bytes. Its answers cost no look at a store.
type Stored interface {
	// Used fills the bytes of a project's usage in.
	Used(project *api.Project, into *api.ProjectUsage)
	// KeepArchive counts an archive of so many bytes that a project got, or refuses it with fault Full.
	KeepArchive(project *api.Project, bytes int64) error
	// RoomForCheckpoint refuses so many bytes more with fault Full.
	RoomForCheckpoint(project *api.Project, bytes int64) error
	// Forget says that all bytes of a task were deleted.
	Forget(taskID string)
}

// roomForTask refuses a task of a project that has as many as it may.
func (s *Server) roomForTask(ctx context.Context, p *api.Project) error {
	snap, err := s.Store.List(ctx, api.KindTrainingTask, p.Meta.Name, 0)
	if err != nil {
		return err
	}
	if most := p.StorageLimits().Objects; snap.Len() >= most {
		return quota.OverLimit(p.Meta.Name, "objects", snap.Len(), 1, most)
	}
	return nil
}

// roomForSecret refuses a new secret of a project that has as many as it may.
func (s *Server) roomForSecret(ctx context.Context, p *api.Project) error {
	snap, err := s.Store.List(ctx, api.KindSecret, p.Meta.Name, s.newest.Load())
	if err != nil {
		return err
	}
	if most := p.StorageLimits().Secrets; snap.Len() >= most {
		return quota.OverLimit(p.Meta.Name, "secrets", snap.Len(), 1, most)
	}
	return nil
}

// withUsage is a project with what it keeps now, for who asks for this one.
func (s *Server) withUsage(ctx context.Context, o api.Object) (api.Object, error) {
	p, ok := o.(*api.Project)
	if !ok {
		return o, nil
	}
	shown := *p
	usage := &api.ProjectUsage{}
	if s.Stored != nil {
		s.Stored.Used(p, usage)
	}
	for kind, into := range map[api.Kind]*int{api.KindTrainingTask: &usage.Objects, api.KindSecret: &usage.Secrets} {
		snap, err := s.Store.List(ctx, kind, p.Meta.Name, 0)
		if err != nil {
			return nil, err
		}
		*into = snap.Len()
	}
	shown.Status.Usage = usage
	return &shown, nil
}

// giveArchive opens an archive to a project, once, as far as its limit allows.
func (s *Server) giveArchive(ctx context.Context, p *api.Project, digest string, size int64) error {
	key, err := projectGrant(p.Meta.ID, digest)
	if err != nil {
		return err
	}
	if there, err := has(ctx, s.Blob, key); err != nil || there {
		return err
	}
	if s.Stored != nil {
		if err := s.Stored.KeepArchive(p, size); err != nil {
			return err
		}
	}
	return grant(ctx, s.Blob, key, size)
}

// roomForState refuses an uploaded rank's state that would not fit into what a project may keep.
func (s *Server) roomForState(ctx context.Context, task *api.TrainingTask, bytes int64) error {
	if s.Stored == nil {
		return nil
	}
	o, err := s.find(ctx, api.Key{Kind: api.KindProject, Name: task.Meta.Project}, 0)
	if err != nil {
		return err
	}
	return s.Stored.RoomForCheckpoint(o.(*api.Project), max(bytes, 1))
}
