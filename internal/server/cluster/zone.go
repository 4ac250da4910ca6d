package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/roundtrip"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/objects"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/truth"
	"github.com/fermi-cluster/fermi/internal/store"
	money "github.com/fermi-cluster/fermi/sched/cost"
)

// Zones serves zones: their hooks, what their loss would mean, and how far they are from each other.
type Zones struct {
	truth   *truth.Truth
	judge   *access.Judge
	finder  *objects.Finder
	history history.History
	live    Live
	clock   clock.Clock
}

func NewZones(f *objects.Finder, live Live, c clock.Clock) *Zones {
	return &Zones{truth: f.Truth, judge: f.Judge, finder: f, history: f.History, live: live, clock: c}
}

// Hooks is the row of Zone.
func (s *Zones) Hooks() *objects.Hooks {
	return &objects.Hooks{
		Kind:   api.KindZone,
		Access: access.Kind{Read: access.ReadAll, Write: access.WriteOperators},
		Called: func(ctx context.Context, text string) (string, error) { return ZoneNamed(ctx, s.truth, text) },
		Read:   objects.Reading{Example: map[string]any{"metadata": map[string]any{"displayName": "北京-1"}, "spec": map[string]any{"region": "北京"}}},
		Fresh: func(o api.Object, _ *access.Caller) error {
			o.(*api.Zone).Status = api.ZoneStatus{}
			return nil
		},
		Change: func(_ context.Context, _ *rest.Call, a *objects.Alteration) func() error {
			a.Next.(*api.Zone).Spec = a.Given.(*api.Zone).Spec
			return nil
		},
		Keep: func(ctx context.Context, current, next api.Object) error {
			z, _ := next.(*api.Zone)
			return s.keepBook(ctx, current.(*api.Zone), z)
		},
		Present: objects.Presenting{Fill: s.presenter},
		Remove: objects.Removing{Unused: func(ctx context.Context, o api.Object, rev int64) ([]store.Op, error) {
			return nil, s.truth.NoneOf(ctx, api.KindNode, "", rev, func(x api.Object) bool { return x.(*api.Node).Spec.Zone == o.GetMeta().Name })
		}},
	}
}

// presenter fills in what stands in a zone, and how it is.
func (s *Zones) presenter(ctx context.Context) (func(api.Object) api.Object, error) {
	nodes, err := s.truth.List(ctx, api.KindNode, "", 0)
	if err != nil {
		return nil, err
	}
	by := countNodes(nodes)
	return func(o api.Object) api.Object {
		z := *o.(*api.Zone)
		count := by[z.Meta.Name]
		z.Status.Nodes, z.Status.Ready, z.Status.Devices = count.Nodes, count.Ready, count.Devices
		switch {
		case z.Spec.Outage:
			z.Status.Health = api.ZoneDegraded
		case z.Spec.Health != "":
			z.Status.Health = z.Spec.Health
		case z.Status.Health == "" && count.Ready < count.Nodes:
			z.Status.Health = api.ZoneDegraded
		case z.Status.Health == "":
			z.Status.Health = api.ZoneHealthy
		}
		return &z
	}, nil
}

func countNodes(nodes store.Snapshot) map[string]api.ZoneStatus {
	by := map[string]api.ZoneStatus{}
	nodes.Ascend("", func(o api.Object) bool {
		n := o.(*api.Node)
		z := by[n.Spec.Zone]
		z.Nodes++
		z.Devices += len(n.Spec.Devices)
		if n.Status.Ready {
			z.Ready++
		}
		by[n.Spec.Zone] = z
		return true
	})
	return by
}

// keepBook writes the terms of a zone into history before others replace them, and dates those. What
// it writes is true whether or not the change comes about, so a crash in between does no harm. next
// is nil when the zone goes.
func (s *Zones) keepBook(ctx context.Context, current, next *api.Zone) error {
	was, since := money.Terms(current.Spec), money.PricedSince(current)
	if next != nil && reflect.DeepEqual(was, money.Terms(next.Spec)) {
		return nil
	}
	if err := s.history.PutBook(ctx, history.Book{Zone: current.Meta.Name, Since: since, Spec: was}); err != nil {
		return err
	}
	if next != nil {
		next.Status.PricedSince = s.clock.Now().UTC()
		if !next.Status.PricedSince.After(since) { // a clock that went back
			next.Status.PricedSince = since.Add(1)
		}
	}
	return nil
}

// Routes are those of zones beside the plain verbs.
func (s *Zones) Routes(reg *rest.Schemas) []*rest.Route {
	zone := api.MustInfo(api.KindZone)
	return []*rest.Route{
		{
			Method: http.MethodGet, Path: rest.Prefix + "/zones/{name}/outage", ID: "previewOutage", Tag: zone.Plural, Kind: zone.Kind,
			Summary: "Where each task of this zone would go if the zone were lost now, or why it would wait. Nothing changes.",
			Data:    rest.SchemaOf[api.Outage](reg), Handle: s.outage,
		},
		{
			Method: http.MethodPost, Path: rest.Prefix + "/zones/{name}/latency", ID: "measureZone", Tag: zone.Plural, Kind: zone.Kind, Verb: "measure",
			Summary: "Report measured round trips from this zone; they replace declared ones.", Data: reg.Kind(zone), Handle: s.measure,
			Body: &rest.BodySpec{Schema: rest.SchemaOf[measurements](reg), Media: rest.JsonMedia, Required: true},
		},
		{
			Method: http.MethodGet, Path: rest.Prefix + "/zone-matrix", ID: "zoneMatrix", Tag: zone.Plural, Kind: zone.Kind,
			Summary: "How far zones are from each other: declared, measured, and which of both is used.",
			Data:    rest.SchemaOf[roundtrip.ZoneMatrix](reg), Handle: s.matrix,
		},
	}
}

// outage says where the tasks of a zone would go.
func (s *Zones) outage(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	if s.live == nil {
		return nil, refuse.NoPlanner
	}
	zone, err := ZoneNamed(ctx, s.truth, c.R.PathValue("name"))
	if err != nil {
		return nil, err
	}
	if _, err := s.truth.Find(ctx, api.Key{Kind: api.KindZone, Name: zone}, 0); err != nil {
		return nil, err
	}
	out, err := s.live.Outage(ctx, zone)
	if err != nil {
		return nil, err
	}
	return &rest.Reply{Data: out}, nil
}

// matrix tells what is declared and what was measured of every pair of zones.
func (s *Zones) matrix(ctx context.Context, _ *rest.Call) (*rest.Reply, error) {
	snap, err := s.truth.List(ctx, api.KindZone, "", 0)
	if err != nil {
		return nil, err
	}
	nodes, err := s.truth.List(ctx, api.KindNode, "", 0)
	if err != nil {
		return nil, err
	}
	var zones []*api.Zone
	snap.Ascend("", func(o api.Object) bool {
		zones = append(zones, o.(*api.Zone))
		return true
	})
	slices.SortFunc(zones, func(a, b *api.Zone) int { return strings.Compare(a.Meta.Name, b.Meta.Name) })
	far, virtual := money.ZonesOf(zones, s.clock.Now()), virtualZones(zones, nodes)
	out := roundtrip.ZoneMatrix{Items: []roundtrip.ZoneDistance{}}
	for i, a := range zones {
		for _, b := range zones[i+1:] {
			d := far.Distance(a.Meta.Name, b.Meta.Name)
			d.OneMachine = virtual[a.Meta.Name] && virtual[b.Meta.Name]
			out.Items = append(out.Items, d)
		}
	}
	return &rest.Reply{Data: out}, nil
}

// virtualZones are those without a machine of their own: all their nodes are virtual, or they say so and have none.
func virtualZones(zones []*api.Zone, nodes store.Snapshot) map[string]bool {
	out := map[string]bool{}
	for _, z := range zones {
		out[z.Meta.Name] = z.Spec.Virtual
	}
	counted := map[string]bool{}
	nodes.Ascend("", func(o api.Object) bool {
		n := o.(*api.Node)
		out[n.Spec.Zone] = n.Spec.Virtual && (out[n.Spec.Zone] || !counted[n.Spec.Zone])
		counted[n.Spec.Zone] = true
		return true
	})
	return out
}

// measurements are round trips from a zone to others.
type measurements struct {
	To map[string]measurement `json:"to" doc:"By the other zone's name."`
}

type measurement struct {
	P50Ms   float64 `json:"p50Ms" doc:"The usual round trip in milliseconds."`
	P99Ms   float64 `json:"p99Ms" doc:"The slow one."`
	Samples int     `json:"samples" doc:"How many were measured."`
}

// measure keeps measurements beside those of other zones that were there.
func (s *Zones) measure(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	row, name := api.MustInfo(api.KindZone), c.R.PathValue("name")
	c.Note.Names(row.Kind, name)
	data, err := c.ReadBody(64 << 10)
	if err != nil {
		return nil, err
	}
	seen, err := decodeMeasured(data, name, s.clock.Now().UTC())
	if err != nil {
		return nil, err
	}
	for to := range seen {
		if _, err := s.truth.Refer(ctx, api.Key{Kind: row.Kind, Name: to}, "to"); err != nil {
			return nil, err
		}
	}
	return s.keepMeasured(ctx, c, row, name, seen)
}

// decodeMeasured reads a report about a zone, strictly.
func decodeMeasured(data []byte, zone string, now time.Time) (map[string]api.MeasuredLatency, error) {
	var body measurements
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&body); err != nil || dec.More() {
		return nil, fault.New(fault.Invalid, "BadBody", fault.T(
			`The body is not the JSON expected here, such as {"to":{"beijing-2":{"p50Ms":1.3,"p99Ms":2,"samples":100}}}.`,
			`请求体不是此处要求的 JSON，例如 {"to":{"beijing-2":{"p50Ms":1.3,"p99Ms":2,"samples":100}}}。`)).Because(err)
	}
	seen := map[string]api.MeasuredLatency{}
	for to, m := range body.To {
		seen[to] = api.MeasuredLatency{P50Ms: m.P50Ms, P99Ms: m.P99Ms, Samples: m.Samples, At: now}
	}
	if fields := api.CheckMeasured("to", zone, seen); len(fields) > 0 {
		return nil, fault.New(fault.Invalid, "InvalidField", fault.T("A measurement cannot be used.", "某项测量值无法使用。")).WithFields(fields...)
	}
	return seen, nil
}

func (s *Zones) keepMeasured(ctx context.Context, c *rest.Call, row api.KindInfo, name string, seen map[string]api.MeasuredLatency) (*rest.Reply, error) {
	f, err := s.finder.Resolve(ctx, c, row, name)
	if err != nil {
		return nil, err
	}
	zone := f.Object.(*api.Zone)
	if err := s.judge.MayWrite(ctx, c.Who, zone); err != nil {
		return nil, err
	}
	c.Note.Before(zone)
	var next *api.Zone
	var rev int64
	for range truth.Retries {
		if next, rev, err = s.writeMeasured(ctx, zone, seen); fault.ReasonOf(err) != "Stale" {
			break
		}
		again, lookErr := s.truth.Find(ctx, api.KeyOf(zone), zone.Meta.Revision+1)
		if lookErr != nil {
			return nil, lookErr
		}
		zone = again.(*api.Zone)
	}
	if err != nil {
		return nil, err
	}
	c.Note.After(next)
	return &rest.Reply{Data: next, Revision: rev}, nil
}

func (s *Zones) writeMeasured(ctx context.Context, zone *api.Zone, seen map[string]api.MeasuredLatency) (*api.Zone, int64, error) {
	next := store.Clone(zone)
	if next.Status.Measured == nil {
		next.Status.Measured = map[string]api.MeasuredLatency{}
	}
	maps.Copy(next.Status.Measured, seen)
	for to := range next.Status.Measured { // zones that are gone leave no trace
		if _, err := s.truth.Find(ctx, api.Key{Kind: api.KindZone, Name: to}, s.truth.Newest()); fault.Is(err, fault.NotFound) {
			delete(next.Status.Measured, to)
		}
	}
	next.Meta.UpdatedAt = s.clock.Now().UTC()
	rev, err := s.truth.Write(ctx, store.Update(next))
	return next, rev, err
}
