package gateway

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/gateway/cache"
	"github.com/fermi-cluster/fermi/internal/gateway/prefix"
)

// cacheHeader says whether an answer was given before.
const cacheHeader = "X-Fermi-Cache"

// prepare does what the service asks for before a replica is: it finds the beginnings of the question, and an answer that
// was given before. true: it is answered.
func (t *trip) prepare(spec *serving.ServiceEndpointsSpec) (answered bool) {
	g := spec.Gateway
	if g == nil {
		return false
	}
	if g.Affinity == serving.AffinityPrefix && !t.framed {
		t.want.begins = prefix.Blocks(t.question.body)
	}
	if g.Cache == nil || !t.question.kept || t.framed || spec.Road.Canary != 0 || upgrade(t.in) != "" || !storable(t.in) {
		return false
	}
	t.question.keep = true
	var told []string
	for _, name := range keyed {
		told = append(told, t.in.Header.Get(name))
	}
	t.key = cache.KeyOf(t.in.Method, t.to, t.question.body, told...)
	now := t.g.cfg.Clock.Now()
	known := t.s.cached.Get(t.key, now)
	if known == nil {
		return false
	}
	h := t.w.Header()
	for name, values := range known.Header {
		h[name] = values
	}
	h.Set(cacheHeader, "hit")
	h.Set("Age", strconv.Itoa(int(now.Sub(known.At)/time.Second)))
	h.Set("Content-Length", strconv.Itoa(len(known.Body)))
	_, _ = t.w.Write(known.Body)
	return true
}

// storable says that a question may be answered from what was kept: it reads or asks, of no part, and nobody said no.
func storable(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodPost) && r.Header.Get("Range") == "" && !forbids(r.Header)
}

// keyed are the headers of a question that tell it from others.
var keyed = []string{"Content-Type", "Accept", "Accept-Encoding", "Accept-Language"}

// sameFor says that an answer depends on no header of the question but those: who else asks the same may have it.
func sameFor(vary []string) bool {
	for name := range strings.SplitSeq(strings.Join(vary, ","), ",") {
		if name = strings.TrimSpace(name); name != "" && !slices.ContainsFunc(keyed, func(k string) bool { return strings.EqualFold(k, name) }) {
			return false
		}
	}
	return true
}

func forbids(h http.Header) bool {
	said := strings.ToLower(strings.Join(h["Cache-Control"], ","))
	return strings.Contains(said, "no-store") || strings.Contains(said, "no-cache") || strings.Contains(said, "private")
}

// store keeps an answer where that is wanted and it is whole, good, and not said to be for one caller.
func (t *trip) store(a *answer) {
	if !t.question.keep {
		return
	}
	t.w.Header().Set(cacheHeader, "miss")
	h := a.resp.Header
	if a.held == nil || a.resp.StatusCode != http.StatusOK || forbids(h) || len(h["Set-Cookie"]) > 0 || !sameFor(h["Vary"]) {
		return
	}
	kept := http.Header{}
	for _, name := range []string{"Content-Type", "Content-Encoding", "Content-Language", "Etag", "Last-Modified"} {
		if values := h[name]; len(values) > 0 {
			kept[name] = values
		}
	}
	t.s.cached.Put(t.key, &cache.Answer{Header: kept, Body: a.held, At: t.g.cfg.Clock.Now()}, t.s.settings().Gateway.Cache.TTL.Std())
}
