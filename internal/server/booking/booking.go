package booking

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/booking"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/objects"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/truth"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Bookings serves them. Safe for concurrent use.
type Bookings struct {
	Truth *truth.Truth
	Clock clock.Clock
}

// Hooks are the row of Booking; none where the program has no bookings.
func (s *Bookings) Hooks() []*objects.Hooks {
	if _, ok := api.InfoOf(booking.Kind); !ok {
		return nil
	}
	return []*objects.Hooks{{
		Kind: booking.Kind, Serial: true, // two at once could promise the same node twice
		Access: access.Kind{Read: access.ReadAll, Write: access.WriteOperators, NotMine: fault.T("Bookings are written by operators.", "预订由运维人员维护。")},
		Read: objects.Reading{Example: map[string]any{
			"metadata": map[string]any{"name": "firmware"},
			"spec":     map[string]any{"from": "2026-11-20T22:00:00Z", "to": "2026-11-21T02:00:00Z", "zone": "beijing-1", "reason": "GPU firmware"},
		}},
		Fresh: func(o api.Object, _ *access.Caller) error {
			b := o.(*booking.Booking)
			b.Status = booking.BookingStatus{}
			if b.Spec.From.IsZero() {
				b.Spec.From = s.Clock.Now().UTC().Truncate(time.Second)
			}
			return nil
		},
		Admit: func(ctx context.Context, _ *rest.Call, b *objects.Birth, _ bool) error {
			return s.admit(ctx, b.Object.(*booking.Booking))
		},
		Change: func(ctx context.Context, _ *rest.Call, a *objects.Alteration) func() error {
			next, before := a.Next.(*booking.Booking), a.Current.(*booking.Booking).Spec
			next.Spec = a.Given.(*booking.Booking).Spec
			if now := &next.Spec; now.Devices != nil && reflect.DeepEqual(now.Devices, before.Devices) && now.Zone == before.Zone && maps.Equal(now.Labels, before.Labels) &&
				(len(now.Nodes) == 0 || slices.Equal(now.Nodes, before.Nodes)) {
				now.Nodes = before.Nodes // they stay chosen
				return func() error { return s.promise(ctx, next) }
			}
			return func() error { return s.admit(ctx, next) }
		},
		Present: objects.Presenting{Fill: s.fill},
	}}
}

// fill says how each stands to the present, and which nodes it is about.
func (s *Bookings) fill(ctx context.Context) (func(api.Object) api.Object, error) {
	nodes, err := s.Truth.List(ctx, api.KindNode, "", 0)
	if err != nil {
		return nil, err
	}
	now := s.Clock.Now()
	return func(o api.Object) api.Object {
		b := *o.(*booking.Booking)
		b.Status = booking.BookingStatus{Phase: b.Spec.PhaseAt(now), Nodes: covered(nodes, &b.Spec)}
		return &b
	}, nil
}

// covered are the nodes that a booking is about, by name.
func covered(nodes store.Snapshot, b *booking.BookingSpec) (out []string) {
	nodes.Ascend("", func(o api.Object) bool {
		if n := o.(*api.Node); b.Covers(n) {
			out = append(out, n.Meta.Name)
		}
		return true
	})
	return out
}

// admit refuses what names something that is not there, and nodes that others were promised for the same time.
func (s *Bookings) admit(ctx context.Context, b *booking.Booking) error {
	var all refuse.Gathered
	refer := func(kind api.Kind, name, path string) {
		_, err := s.Truth.Refer(ctx, api.Key{Kind: kind, Name: name}, path)
		all.Take(err)
	}
	if b.Spec.Zone != "" {
		refer(api.KindZone, b.Spec.Zone, "spec.zone")
	}
	for i, name := range b.Spec.Nodes {
		refer(api.KindNode, name, fmt.Sprintf("spec.nodes[%d]", i))
	}
	for i, name := range b.Spec.Projects {
		refer(api.KindProject, name, fmt.Sprintf("spec.projects[%d]", i))
	}
	if err := all.Err(); err != nil || b.Spec.Maintenance() {
		return err
	}
	if b.Spec.Devices != nil {
		if err := s.choose(ctx, b); err != nil {
			return err
		}
	}
	return s.promise(ctx, b)
}

// choose names the nodes that have the devices of a booking.
func (s *Bookings) choose(ctx context.Context, b *booking.Booking) error {
	snap, err := s.Truth.List(ctx, api.KindNode, "", 0)
	if err != nil {
		return err
	}
	others, err := s.Truth.List(ctx, booking.Kind, "", 0)
	if err != nil {
		return err
	}
	var nodes []*api.Node
	snap.Ascend("", func(o api.Object) bool {
		nodes = append(nodes, o.(*api.Node))
		return true
	})
	var then []*booking.BookingSpec
	others.Ascend("", func(x api.Object) bool {
		if o := x.(*booking.Booking); o.Meta.Name != b.Meta.Name && o.Spec.Overlaps(&b.Spec) {
			then = append(then, &o.Spec)
		}
		return true
	})
	names, have := b.Spec.Choose(nodes, func(n *api.Node) bool {
		return !slices.ContainsFunc(then, func(o *booking.BookingSpec) bool { return o.Covers(n) })
	})
	if names == nil {
		return fault.New(fault.Conflict, "TooFewDevices", fault.T("%d devices are wished for, and %d can be booked for that time: others are booked already, on closed nodes, or of another type.",
			"请求预订 %d 张加速卡，该时段可预订 %d 张：其余已被预订、位于停用的节点或型号不符。", b.Spec.Devices.Count, have)).
			WithHint(fault.T("Ask for fewer, for another time, or in all zones.", "请减少数量、更换时段，或不限可用区。"))
	}
	b.Spec.Nodes = names
	return nil
}

// promise refuses nodes that another project was promised for the same time.
func (s *Bookings) promise(ctx context.Context, b *booking.Booking) error {
	nodes, err := s.Truth.List(ctx, api.KindNode, "", 0)
	if err != nil {
		return err
	}
	mine := covered(nodes, &b.Spec)
	others, err := s.Truth.List(ctx, booking.Kind, "", 0)
	if err != nil {
		return err
	}
	others.Ascend("", func(x api.Object) bool {
		o := x.(*booking.Booking)
		if o.Meta.Name == b.Meta.Name || o.Spec.Maintenance() || !o.Spec.Overlaps(&b.Spec) {
			return true
		}
		for _, name := range covered(nodes, &o.Spec) {
			if slices.Contains(mine, name) {
				err = fault.New(fault.Conflict, "BookedAlready", fault.T("The node %s is booked then: %s.", "节点 %s 在该时段已被预订：%s。", name, o.Spec.Words(o.Meta.Name).EN)).
					WithHint(fault.T("Choose other nodes or another time, or change that booking.", "请选择其他节点或时段，或修改该预订。"))
				return false
			}
		}
		return true
	})
	return err
}
