package booking

import (
	"context"
	"fmt"
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
			next := a.Next.(*booking.Booking)
			next.Spec = a.Given.(*booking.Booking).Spec
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
