package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// adapters are which services have an adapter of a name, so that it is found by that alone. Safe for concurrent use.
type adapters struct {
	mu sync.RWMutex
	of map[string][]*service // by the adapter's name
}

// take makes those count that a service has now, instead of those that it had.
func (a *adapters) take(s *service, had, has []string) {
	if slices.Equal(had, has) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of == nil {
		a.of = map[string][]*service{}
	}
	for _, name := range had {
		if a.of[name] = slices.DeleteFunc(slices.Clone(a.of[name]), func(x *service) bool { return x == s }); len(a.of[name]) == 0 {
			delete(a.of, name)
		}
	}
	for _, name := range has {
		a.of[name] = append(slices.Clone(a.of[name]), s)
	}
}

func (a *adapters) named(name string) []*service {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.of[name]
}

// finder finds the services that models mean.
type finder struct{ g *Gateway }

// adapterOf is the one service that the caller may ask and that has an adapter of this name; nil: there is none.
func (f finder) adapterOf(ctx context.Context, who *pass, name string) (*service, error) {
	var found []*service
	for _, s := range f.g.adapters.named(name) {
		ok, err := f.g.reaches(ctx, who, s.settings().Project)
		if err != nil {
			return nil, err
		}
		if ok {
			found = append(found, s)
		}
	}
	if len(found) < 2 {
		return append(found, nil)[0], nil
	}
	names := make([]string, len(found))
	for i, s := range found {
		names[i] = s.name + ":" + name
	}
	slices.Sort(names)
	return nil, fault.New(fault.Invalid, "AmbiguousModel", fault.T("Several services have an adapter %.64q; say which: %s.", "有多个服务带有适配器 %.64q，请指明：%s。", name, strings.Join(names[:min(len(names), 10)], ", ")))
}

// whom is the service that a question's model means, and the adapter where it names one: a service's own name goes before an adapter's.
func (f finder) whom(r *http.Request, model, adapter string) (*service, *pass, string, error) {
	s, who, err := f.g.admit(r, model)
	if adapter != "" || !fault.Is(err, fault.NotFound) {
		return s, who, adapter, err
	}
	if who, missing := f.g.present(r.Context(), r); missing == nil {
		s, several := f.adapterOf(r.Context(), who, model)
		if several != nil {
			return nil, nil, "", several
		}
		if s != nil {
			return s, who, model, renamed(r, s.name+":"+model)
		}
	}
	return nil, nil, "", err
}

// renamed has a question that is in memory name another model.
func renamed(r *http.Request, model string) error {
	held, ok := r.Body.(*inMemory)
	if !ok { // its model stands in the query
		q := r.URL.Query()
		q.Set("model", model)
		r.URL.RawQuery = q.Encode()
		return nil
	}
	body, err := withModel(held.all, model)
	if err != nil {
		return fault.New(fault.Invalid, reasonBadBody, fault.T("The body is not JSON.", "请求体不是 JSON。")).Because(err)
	}
	r.Body, r.ContentLength = &inMemory{bytes.NewReader(body), body}, int64(len(body))
	return nil
}

// withModel is a JSON object whose field model says something else; all else stays as it was, byte by byte.
func withModel(body []byte, model string) ([]byte, error) {
	name, err := json.Marshal(model)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(body))
	if _, err := d.Token(); err != nil { // {
		return nil, err
	}
	var out []byte
	from := int64(0)
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		if text, _ := key.(string); strings.EqualFold(text, "model") { // as it was read
			end := d.InputOffset()
			out = append(append(out, body[from:end-int64(len(value))]...), name...)
			from = end
		}
	}
	return append(out, body[from:]...), nil
}
