package server

import (
	"bytes"
	"context"
	"encoding/json"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/selection"
)

// previewExisting shows what running environments would be together as the nodes of a training.
func (s *previews) previewExisting(ctx context.Context, c *call) (*reply, error) {
	data, err := c.readBody(s.writer.body)
	if err != nil {
		return nil, err
	}
	_, out, _, err := s.existing(ctx, c, "previewExisting", data)
	if err != nil {
		return nil, err
	}
	return &reply{data: out}, nil
}

func (s *previews) createExisting(ctx context.Context, c *call) (*reply, error) {
	data, err := c.readBody(s.writer.body)
	if err != nil {
		return nil, err
	}
	return s.submitExisting(ctx, c, data)
}

// wantsExisting says that a flat request is for running environments.
func wantsExisting(data []byte) bool {
	flat, ok := flatFields(data)
	return ok && string(flat["launchMode"]) == `"existing"`
}

// submitExisting submits the training: a task that runs inside the environments, the master's first.
func (s *previews) submitExisting(ctx context.Context, c *call, data []byte) (*reply, error) {
	r, out, project, err := s.existing(ctx, c, "createExisting", data)
	if err != nil {
		return nil, err
	}
	t := selection.Task(r, out)
	t.Meta.Project = project
	made, err := s.writer.make(ctx, c, t)
	if err != nil {
		return nil, err
	}
	if answer, ok := made.data.(submitted); ok {
		answer.DistributedInfo = &distributedInfo{NodeCount: out.NodeCount, TotalGPUs: out.TotalGPUs, MasterNode: out.MasterNode, Framework: string(out.Framework)}
		made.data = answer
	}
	return made, nil
}

// existing reads a request and finds its environments.
func (s *previews) existing(ctx context.Context, c *call, id string, data []byte) (r *api.ExistingRequest, out *api.ExistingPreview, project string, err error) {
	r = &api.ExistingRequest{}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(r); err != nil || dec.More() {
		return nil, nil, "", fault.New(fault.Invalid, "BadBody", fault.T(
			`The body is not the JSON expected here, such as {"taskName":"t","launchMode":"existing","distributedConfig":{"enabled":true,"nodeIds":["a","b"]}}.`,
			`请求体不是此处要求的 JSON，例如 {"taskName":"t","launchMode":"existing","distributedConfig":{"enabled":true,"nodeIds":["a","b"]}}。`)).Because(err)
	}
	about := &api.TrainingTask{Meta: api.Meta{Owner: c.who.name()}}
	if err := s.writer.scope(ctx, c, &about.Meta, api.MustInfo(api.KindTrainingTask)); err != nil {
		return nil, nil, "", err
	}
	if err := s.judge.mayAbout(ctx, c.who, id, about); err != nil {
		return nil, nil, "", err
	}
	if fields := selection.Check(r); len(fields) > 0 {
		return nil, nil, "", selection.Refuse(fields)
	}
	nodes, err := s.around.environments(ctx, about.Meta.Project, "distributedConfig.nodeIds", r.Distributed.NodeIDs)
	if err != nil {
		return nil, nil, "", err
	}
	out, err = selection.Preview(r, nodes, s.around.roundTrip(ctx))
	return r, out, about.Meta.Project, err
}
