package mirror

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// fieldAccelerator is what custom objects have beyond Fermi's own: a sort of accelerator instead of a type, such as huawei-ascend.
const fieldAccelerator = "acceleratorType"

// decode makes Fermi's object of a custom one. A fault names the field that is not taken.
func (m *Mirror) decode(ctx context.Context, key api.Key, p *pair) (api.Object, error) {
	spec, _ := p.custom.Object["spec"].(map[string]any)
	if sort, ok := spec[fieldAccelerator]; ok {
		var err error
		if spec, err = m.accelerate(ctx, key.Kind, spec, sort); err != nil {
			return nil, err
		}
	}
	raw, err := json.Marshal(map[string]any{
		"kind": key.Kind, "metadata": map[string]any{"name": key.Name, "project": key.Project, "labels": map[string]string{labelUID: string(p.custom.GetUID())}}, "spec": spec,
	})
	if err != nil {
		return nil, err
	}
	return api.Decode(key.Kind, raw)
}

// accelerate puts the types that a sort of accelerator stands for wherever accelerators are asked for without one.
func (m *Mirror) accelerate(ctx context.Context, kind api.Kind, spec map[string]any, sort any) (map[string]any, error) {
	name, ok := sort.(string)
	bad := func(en, zh string, args ...any) error {
		return fault.New(fault.Invalid, "BadAccelerator", fault.T(en, zh, args...)).WithFields(fault.Field{Path: "spec." + fieldAccelerator, Message: fault.T(en, zh, args...)})
	}
	if !ok || name == "" {
		return nil, bad("It is a word such as huawei-ascend.", "应为 huawei-ascend 这样的名称。")
	}
	if kind == serving.Kind {
		return nil, bad("Services name their accelerators in spec.template.resources.", "服务请在 spec.template.resources 中指定加速卡。")
	}
	types, err := m.typesOf(ctx, name)
	if err != nil {
		return nil, err
	}
	if len(types) == 0 {
		return nil, bad("No node has accelerators of the sort %s.", "没有节点具有 %s 类型的加速卡。", name)
	}
	out := clone(spec)
	delete(out, fieldAccelerator)
	list := []any{out}
	if roles, ok := out["roles"].([]any); ok { // each asks for its own
		list = roles
	}
	for _, one := range list {
		role, _ := one.(map[string]any)
		resources, _ := role["resources"].(map[string]any)
		if wish, ok := resources["accelerators"].(map[string]any); ok && wish["type"] == nil {
			wish["type"] = strings.Join(types, "|")
		}
	}
	return out, nil
}

func clone(spec map[string]any) (out map[string]any) {
	raw, err := json.Marshal(spec)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		panic(err) // it came as JSON
	}
	return out
}

// typesOf are the types of devices that nodes have of a sort: VENDOR, VENDOR-FAMILY, or a type.
func (m *Mirror) typesOf(ctx context.Context, sort string) (types []string, err error) {
	vendor, family, _ := strings.Cut(strings.ToLower(sort), "-")
	err = m.cfg.Fermi.Walk(ctx, api.KindNode, client.ListOptions{Limit: 500}, func(o api.Object) bool {
		for _, d := range o.(*api.Node).Spec.Devices {
			of := d.Vendor == vendor && strings.Contains(strings.ToLower(d.Type), family) || api.FoldDevice(d.Type) == api.FoldDevice(sort)
			if of && !slices.Contains(types, d.Type) {
				types = append(types, d.Type)
			}
		}
		return true
	})
	slices.Sort(types)
	return types, err
}

// statusOf is what a custom object shows of Fermi's.
func statusOf(o api.Object) map[string]any {
	out := map[string]any{"id": o.GetMeta().ID}
	put := func(phase api.Phase, reason string, message fault.Text) {
		out["phase"], out["reason"], out["message"] = string(phase), reason, message.EN
	}
	times := func(started, finished *time.Time) {
		for name, at := range map[string]*time.Time{"startedAt": started, "finishedAt": finished} {
			if at != nil {
				out[name] = at.UTC().Format(time.RFC3339)
			}
		}
	}
	switch x := o.(type) {
	case *serving.InferenceService:
		put(x.Status.Phase, x.Status.Reason, x.Status.Message)
		times(x.Status.ReadyAt, nil)
		out["replicas"], out["url"] = fmt.Sprintf("%d/%d", x.Status.Replicas.Ready, x.Status.Replicas.Wanted), x.Status.URL
	case api.Work:
		w := x.Workload()
		put(w.Phase, w.Ran.Reason, w.Ran.Message)
		times(w.Ran.StartedAt, w.Ran.FinishedAt)
		var counted struct {
			Replicas api.ReplicaCount
			Restarts []time.Time
		}
		_ = partOf(x, "status", &counted) // one that has none of these shows zeros
		out["replicas"] = fmt.Sprintf("%d/%d", counted.Replicas.Running, counted.Replicas.Total)
		out["restarts"], out["attempt"] = int64(len(counted.Restarts)), int64(w.Attempt)
	}
	return out
}

// specOf is the wish of Fermi's object, as the custom one has it.
func specOf(o api.Object) (spec map[string]any, err error) {
	err = partOf(o, "spec", &spec)
	return spec, err
}

// partOf reads a part of an object as people see it.
func partOf(o api.Object, name string, into any) error {
	var parts map[string]json.RawMessage
	raw, err := json.Marshal(o)
	if err == nil {
		err = json.Unmarshal(raw, &parts)
	}
	if err != nil || parts[name] == nil {
		return err
	}
	return json.Unmarshal(parts[name], into)
}

// withSpecOf is Fermi's object with the wish of another.
func withSpecOf(now, want api.Object) (api.Object, error) {
	var parts [2]map[string]json.RawMessage
	for i, o := range []api.Object{now, want} {
		raw, err := json.Marshal(o)
		if err == nil {
			err = json.Unmarshal(raw, &parts[i])
		}
		if err != nil {
			return nil, err
		}
	}
	parts[0]["spec"] = parts[1]["spec"]
	raw, err := json.Marshal(parts[0])
	if err != nil {
		return nil, err
	}
	out := api.MustInfo(now.Kind()).New()
	return out, json.Unmarshal(raw, out)
}
