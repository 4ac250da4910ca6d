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
	if err := refuseIDs(r); err != nil {
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

// refuseIDs refuses what names things that are not there: nothing that was asked for is ignored.
func refuseIDs(r *api.ExistingRequest) error {
	var fields []fault.Field
	for _, one := range []struct{ name, value string }{{"datasetId", r.DatasetID}, {"datasetVersionId", r.DatasetVersionID}, {"modelId", r.ModelID}} {
		if one.value != "" {
			wait := later[one.name]
			fields = append(fields, fault.Field{Path: one.name, Message: fault.Text{EN: wait.en, ZH: wait.zh}})
		}
	}
	if len(fields) == 0 {
		return nil
	}
	return fault.New(fault.Invalid, "NotBuilt", fault.T(
		"The request names data or a model that can't be used.", "请求中指定了无法使用的数据集或模型。")).WithFields(fields...)
}
