package gateway

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// maxOpenAI is the largest question of which the model's name is read.
const maxOpenAI = 32 << 20

// openAI is the entrance for OpenAI's clients: /v1/…, which finds the service by the question's model.
func (g *Gateway) openAI(w http.ResponseWriter, r *http.Request) {
	rest := strings.TrimPrefix(r.URL.Path, openAIPrefix)
	if rest == "models" || strings.HasPrefix(rest, "models/") {
		g.models(w, r, strings.TrimPrefix(strings.TrimPrefix(rest, "models"), "/"))
		return
	}
	if _, err := g.present(r.Context(), r); err != nil { // nobody's bytes are read for a stranger
		refuse(w, r, err)
		return
	}
	model, adapter, err := modelOf(w, r)
	if err != nil && !isQuestion(rest) {
		err = errNoQuestion
	}
	if err != nil {
		refuse(w, r, err)
		return
	}
	s, who, adapter, err := finder{g}.whom(r, model, adapter)
	if err != nil {
		refuse(w, r, err)
		return
	}
	if adapters := s.settings().Adapters; adapter != "" && !slices.Contains(adapters, adapter) {
		refuse(w, r, fault.New(fault.NotFound, "NoAdapter", fault.T("The service %s has no adapter %.64q; it has: %s.", "服务 %s 没有适配器 %.64q；现有：%s。", model, adapter, cmp.Or(strings.Join(adapters, ", "), "-"))))
		return
	}
	g.carry(w, r, s, who, s.target(r.URL.Path, r.URL.RawPath, r.URL.RawQuery))
}

// questions are the paths of OpenAI's, and of engines that speak like it, whose questions say a model; those that end with a slash have more below them.
var questions = []string{"chat/completions", "completions", "embeddings", "responses", "messages", "moderations", "rerank", "score", "classify", "pooling", "audio/", "images/"}

// isQuestion says that a path below /v1/ is one of them.
func isQuestion(path string) bool {
	return slices.ContainsFunc(questions, func(q string) bool {
		return path == q || strings.HasSuffix(q, "/") && strings.HasPrefix(path, q)
	})
}

// errNoQuestion is the answer at a path of which only a service could know whether it has it, to somebody who named none.
var errNoQuestion = fault.New(fault.NotFound, "UnknownRoute", fault.T("There is nothing at this path, unless a service has it: name one.", "该路径不存在；若为某个服务自有的路径，请指明服务。")).
	WithHint(fault.T(`POST /v1/chat/completions and its like with {"model": "NAME", …}; other paths of a service with ?model=NAME, or /inference/NAME/….`, `请使用 POST /v1/chat/completions 等并附上 {"model": "NAME", …}；服务的其他路径请加 ?model=NAME，或使用 /inference/NAME/…。`))

var errNoModel = fault.New(fault.Invalid, "NoModel", fault.T(`Say which service: {"model": "NAME", …}.`, `请指明服务：{"model": "NAME", …}。`))

// modelOf reads the model's name out of a question, and puts the question back. A service is its model's name; what
// follows a colon is one of its adapters, and what follows a slash the service's own. An adapter's name alone is enough where one service has it.
func modelOf(w http.ResponseWriter, r *http.Request) (name, adapter string, err error) {
	if r.Method == http.MethodGet || r.Body == nil {
		if name, adapter, _ = strings.Cut(r.URL.Query().Get("model"), ":"); name != "" {
			return name, adapter, nil
		}
		return "", "", errNoModel
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyIn))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxOpenAI))
	_ = control.SetReadDeadline(time.Time{})
	if err != nil {
		return "", "", fault.New(fault.Invalid, "BadBody", fault.T("The body did not come whole, or has more than %d bytes.", "请求体不完整，或超过 %d 字节。", maxOpenAI)).Because(err)
	}
	var q struct {
		Model string `json:"model"`
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return "", "", fault.New(fault.Invalid, "BadBody", fault.T("The body is not JSON.", "请求体不是 JSON。")).Because(err)
	}
	r.Body, r.ContentLength, r.TransferEncoding = &inMemory{bytes.NewReader(body), body}, int64(len(body)), nil
	name, _, _ = strings.Cut(q.Model, "/")
	if name, adapter, _ = strings.Cut(name, ":"); name == "" {
		return "", "", errNoModel
	}
	return name, adapter, nil
}

// models lists the services that the caller may ask, or shows one.
func (g *Gateway) models(w http.ResponseWriter, r *http.Request, one string) {
	who, err := g.present(r.Context(), r)
	if err != nil {
		refuse(w, r, err)
		return
	}
	g.mu.RLock()
	list := make([]*service, 0, len(g.services))
	for _, s := range g.services {
		list = append(list, s)
	}
	g.mu.RUnlock()
	slices.SortFunc(list, func(a, b *service) int { return strings.Compare(a.name, b.name) })
	type model struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Created int64  `json:"created"`
		OwnedBy string `json:"owned_by"`
		Parent  string `json:"parent,omitempty"` // of an adapter
	}
	found := []model{}
	for _, s := range list {
		spec := s.settings()
		if ok, err := g.reaches(r.Context(), who, spec.Project); err != nil || !ok {
			continue
		}
		found = append(found, model{s.name, "model", 0, spec.Project, ""})
		for _, a := range spec.Adapters {
			found = append(found, model{s.name + ":" + a, "model", 0, spec.Project, s.name})
		}
	}
	if one != "" {
		if named, err := (finder{g}).adapterOf(r.Context(), who, one); err == nil && named != nil && !slices.ContainsFunc(found, func(m model) bool { return m.ID == one }) {
			one = named.name + ":" + one
		}
		found = slices.DeleteFunc(found, func(m model) bool { return m.ID != one })
	}
	var out any = map[string]any{"object": "list", "data": found}
	if one != "" {
		if len(found) == 0 {
			name, _ := url.PathUnescape(one)
			refuse(w, r, noService(name))
			return
		}
		out = found[0]
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(out)
}
