package upgrade

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// kept is everything that must be the same before and after, by what it is.
type kept map[string]any

// keep looks at all that is stored: objects as they are, and the past.
func (w *world) keep() kept {
	w.t.Helper()
	out := kept{}
	for _, kind := range []string{"users", "projects", "queues", "tokens", "secrets", "zones", "nodes"} {
		for _, item := range items(w.raw("/"+kind, "limit=500")) {
			meta := item["metadata"].(map[string]any)
			if kind == "nodes" { // their state is what is seen, not what is stored
				delete(item, "status")
			}
			// What the program writes at a start or on use says when and how often, not what.
			delete(meta, "revision")
			delete(meta, "updatedAt")
			if status, ok := item["status"].(map[string]any); ok {
				delete(status, "lastUsedAt")
			}
			out[fmt.Sprintf("%s %v/%v", kind, meta["project"], meta["name"])] = item
		}
	}
	for name := range finished {
		task := w.raw("/training-tasks/"+name, "project="+project)
		delete(task["metadata"].(map[string]any), "revision")
		delete(task["metadata"].(map[string]any), "updatedAt")
		out["task "+name] = task
		out["events of "+name] = items(w.raw("/events", "limit=1000&kind=TrainingTask&project="+project+"&name="+name))
		out["outputs of "+name] = items(w.raw("/training-tasks/"+name+"/outputs", "project="+project))
		out["log of "+name] = w.must("", "logs", name)
		id := task["metadata"].(map[string]any)["id"]
		for _, sum := range items(w.raw("/usage", "by=task&limit=1000&from=2026-01-01T00:00:00Z")) {
			if sum["key"] == id {
				out["usage of "+name] = sum
			}
		}
	}
	out["checkpoints of saved"] = items(w.raw("/training-tasks/saved/checkpoints", "project="+project))
	out["the model of saved"] = w.file("saved", w.model("saved"))
	for _, entry := range items(w.raw("/audit", "limit=1000")) {
		out[fmt.Sprintf("audit %v", entry["seq"])] = entry
	}
	return out
}

// places are the placements by their owners' ids: name and spec.
func (w *world) places() map[string]map[string]any {
	w.t.Helper()
	out := map[string]map[string]any{}
	for _, item := range items(w.raw("/placements", "limit=500")) {
		spec := item["spec"].(map[string]any)
		out[spec["taskId"].(string)] = map[string]any{"name": item["metadata"].(map[string]any)["name"], "spec": spec}
	}
	return out
}

// model is where a sample's weights are among its outputs.
func (w *world) model(name string) string {
	w.t.Helper()
	for _, file := range items(w.raw("/training-tasks/"+name+"/outputs", "project="+project)) {
		if path := file["path"].(string); strings.HasSuffix(path, "model.json") {
			return path
		}
	}
	w.t.Fatalf("%s left no model", name)
	return ""
}

func items(page map[string]any) (out []map[string]any) {
	list, _ := page["items"].([]any)
	for _, item := range list {
		out = append(out, item.(map[string]any))
	}
	return out
}

// lost is what is not in after as it was in before. What is new beside it is fine: a newer program
// may say more of a thing.
func lost(at string, before, after any) (out []string) {
	switch b := before.(type) {
	case kept:
		return lost(at, map[string]any(b), map[string]any(after.(kept)))
	case map[string]any:
		a, ok := after.(map[string]any)
		if !ok {
			return []string{fmt.Sprintf("%s: %v became %v", at, before, after)}
		}
		for _, key := range slices.Sorted(maps.Keys(b)) {
			out = append(out, lost(at+"."+key, b[key], a[key])...)
		}
		return out
	case []map[string]any:
		a, _ := after.([]map[string]any)
		for i := range b {
			if i >= len(a) {
				return append(out, fmt.Sprintf("%s: %d entries became %d", at, len(b), len(a)))
			}
			out = append(out, lost(fmt.Sprintf("%s[%d]", at, i), b[i], a[i])...)
		}
		return out
	case []any:
		a, _ := after.([]any)
		for i := range b {
			if i >= len(a) {
				return append(out, fmt.Sprintf("%s: %d entries became %d", at, len(b), len(a)))
			}
			out = append(out, lost(fmt.Sprintf("%s[%d]", at, i), b[i], a[i])...)
		}
		return out
	}
	if !reflect.DeepEqual(before, after) {
		out = append(out, fmt.Sprintf("%s: %v became %v", at, before, after))
	}
	return out
}
