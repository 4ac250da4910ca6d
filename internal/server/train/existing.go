package train

import (
	"bytes"
	"context"
	"encoding/json"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/selection"
	"github.com/fermi-cluster/fermi/internal/server/rest"
)

// previewExisting shows what running environments would be together as the nodes of a training.
func (s *Previews) previewExisting(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	data, err := c.ReadBody(s.body)
	if err != nil {
		return nil, err
	}
	_, out, _, err := s.existing(ctx, c, "previewExisting", data)
	if err != nil {
		return nil, err
	}
	return &rest.Reply{Data: out}, nil
}

func (s *Previews) createExisting(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	data, err := c.ReadBody(s.body)
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
func (s *Previews) submitExisting(ctx context.Context, c *rest.Call, data []byte) (*rest.Reply, error) {
	r, out, project, err := s.existing(ctx, c, "createExisting", data)
	if err != nil {
		return nil, err
	}
	t := selection.Task(r, out)
	t.Meta.Project = project
	t.Spec.Datasets, t.Spec.Models = namedAssets(r.DatasetID, r.DatasetVersionID, r.ModelID)
	made, err := s.writer.Make(ctx, c, t)
	if err != nil {
		return nil, err
	}
	if answer, ok := made.Data.(Submitted); ok {
		answer.DistributedInfo = &DistributedInfo{NodeCount: out.NodeCount, TotalGPUs: out.TotalGPUs, MasterNode: out.MasterNode, Framework: string(out.Framework)}
		made.Data = answer
	}
	return made, nil
}

// existing reads a request and finds its environments.
func (s *Previews) existing(ctx context.Context, c *rest.Call, id string, data []byte) (r *api.ExistingRequest, out *api.ExistingPreview, project string, err error) {
	r = &api.ExistingRequest{}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(r); err != nil || dec.More() {
		return nil, nil, "", fault.New(fault.Invalid, "BadBody", fault.T(
			`The body is not the JSON expected here, such as {"taskName":"t","launchMode":"existing","distributedConfig":{"enabled":true,"nodeIds":["a","b"]}}.`,
			`请求体不是此处要求的 JSON，例如 {"taskName":"t","launchMode":"existing","distributedConfig":{"enabled":true,"nodeIds":["a","b"]}}。`)).Because(err)
	}
	about := &api.TrainingTask{Meta: api.Meta{Owner: c.Who.Name()}}
	if err := s.writer.Scope(ctx, c, &about.Meta, api.MustInfo(api.KindTrainingTask)); err != nil {
		return nil, nil, "", err
	}
	if err := s.judge.MayAbout(ctx, c.Who, id, about); err != nil {
		return nil, nil, "", err
	}
	if fields := selection.Check(r); len(fields) > 0 {
		return nil, nil, "", selection.Refuse(fields)
	}
	nodes, err := s.around.environments(ctx, c.Who, about.Meta.Project, "distributedConfig.nodeIds", r.Distributed.NodeIDs)
	if err != nil {
		return nil, nil, "", err
	}
	if out, err = selection.Preview(r, nodes, s.around.roundTrip(ctx)); err != nil {
		return nil, nil, "", err
	}
	out.StartSeconds, err = s.around.startSeconds(ctx, about.Meta.Project)
	return r, out, about.Meta.Project, err
}
