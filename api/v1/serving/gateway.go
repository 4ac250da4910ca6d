package serving

import (
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// ServiceGateway is what gateways do for a service beside carrying its requests.
type ServiceGateway struct {
	Affinity Affinity       `json:"affinity,omitempty" enum:"none,prefix" doc:"prefix: questions that begin alike go to the replica that has seen that beginning, unless it has clearly more to do; for language models, which keep it. none when absent."`
	Ping     api.Duration   `json:"ping,omitempty" doc:"While an event stream has not begun, its client gets a comment each so long, so that nobody between takes it for dead; never when absent. Errors then come as an event."`
	Hedge    api.Duration   `json:"hedge,omitempty" doc:"A question that may be asked twice and has no answer after this time is asked of a second replica as well; the first answer counts. Never when absent."`
	Cache    *ResponseCache `json:"cache,omitempty" doc:"Answers are kept and given again for the same question; only for services whose answers depend on nothing else."`
	Batch    *RequestBatch  `json:"batch,omitempty" doc:"Questions that come at nearly the same time are asked as one, where they fit; only for engines that answer many rows sooner than one after the other. Never when absent."`
	Zones    ZoneSharing    `json:"zones,omitempty" enum:"weights,balance" doc:"balance: a zone that is more than 70 % busy gives requests to the least busy other primary zone, the more the fuller it is. weights when absent: it gives some away only when it is full."`
	Log      *RequestLog    `json:"log,omitempty" doc:"Requests are written down, redacted: fermi service logs NAME --replica requests. None when absent."`
}

// RequestBatch is how questions are gathered: tensors of the Open Inference Protocol (V2) as JSON, and {"instances": […]}, in bodies of up to 64 KiB.
type RequestBatch struct {
	Size int          `json:"size" minimum:"2" maximum:"4096" doc:"Rows that are asked together at most."`
	Wait api.Duration `json:"wait,omitempty" doc:"How long the first question waits for others; 5ms when absent."`
}

const defaultBatchWait = api.Duration(5 * time.Millisecond)

// RequestLog is which requests are written down.
type RequestLog struct {
	Percent int  `json:"percent,omitempty" minimum:"0" maximum:"100" doc:"Of requests; those that fail are always."`
	Bodies  bool `json:"bodies,omitempty" doc:"With the first 2 KiB of what is asked, where what looks like a secret, a mail address or a long number is left out."`
}

// ZoneSharing is how zones share requests beside their weights.
type ZoneSharing string

// The ways of sharing.
const (
	ZonesWeighted ZoneSharing = "weights"
	ZonesBalanced ZoneSharing = "balance"
)

// Affinity is which replica a question prefers.
type Affinity string

// The affinities.
const (
	AffinityNone   Affinity = "none"
	AffinityPrefix Affinity = "prefix"
)

// ResponseCache keeps whole answers of at most 64 KiB to GET and POST, in each gateway for itself.
type ResponseCache struct {
	TTL   api.Duration `json:"ttl" doc:"How long an answer is given again."`
	Bytes api.Bytes    `json:"bytes,omitempty" doc:"Of all kept answers together; 16Mi when absent."`
}

const defaultCache = api.Bytes(16 << 20)

func (g *ServiceGateway) fill() {
	if g == nil {
		return
	}
	if g.Batch != nil && g.Batch.Wait == 0 {
		b := *g.Batch
		b.Wait = defaultBatchWait
		g.Batch = &b
	}
	if g.Cache != nil && g.Cache.Bytes == 0 {
		c := *g.Cache
		c.Bytes = defaultCache
		g.Cache = &c
	}
}

func (f *faults) gateway(at string, p *ServiceSpec) {
	g := p.Gateway
	if g == nil {
		return
	}
	switch {
	case g.Zones != "" && g.Zones != ZonesWeighted && g.Zones != ZonesBalanced:
		f.add(at+".zones", "weights or balance.", "必须是 weights 或 balance。")
	case g.Zones == ZonesBalanced && len(p.Zones) == 0:
		f.add(at+".zones", "There is nothing to balance: name zones in spec.zones.", "没有可均衡的可用区：请在 spec.zones 中指定。")
	}
	if g.Affinity != "" && g.Affinity != AffinityNone && g.Affinity != AffinityPrefix {
		f.add(at+".affinity", "none or prefix.", "必须是 none 或 prefix。")
	}
	if g.Ping != 0 {
		f.span(at+".ping", g.Ping, api.Duration(time.Second), maxEvery)
	}
	if g.Hedge != 0 {
		f.span(at+".hedge", g.Hedge, api.Duration(time.Millisecond), maxEvery)
	}
	if g.Batch != nil {
		f.count(at+".batch.size", g.Batch.Size, 2, 4096)
		f.span(at+".batch.wait", g.Batch.Wait, api.Duration(100*time.Microsecond), api.Duration(10*time.Second))
	}
	if g.Log != nil {
		f.count(at+".log.percent", g.Log.Percent, 0, 100)
	}
	if g.Cache != nil {
		f.span(at+".cache.ttl", g.Cache.TTL, api.Duration(time.Second), maxSpan)
		if g.Cache.Bytes < 1<<10 || g.Cache.Bytes > 1<<30 {
			f.add(at+".cache.bytes", "1Ki to 1Gi are allowed.", "允许 1Ki 到 1Gi。")
		}
	}
}
