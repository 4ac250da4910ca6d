package placement_test

import (
	"os"
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/booking"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/internal/store/storetest"
)

// TestMain registers bookings before the first store reads the table of kinds.
func TestMain(m *testing.M) {
	api.Register(booking.Row)
	os.Exit(m.Run())
}

func booked(name string, from time.Duration, change func(*booking.BookingSpec)) *booking.Booking {
	now := time.Now().UTC()
	b := &booking.Booking{Meta: api.Meta{ID: id.Default.New("book"), Name: name}, Spec: booking.BookingSpec{From: now.Add(from), To: now.Add(from + 4*time.Hour), Zone: "a"}}
	change(&b.Spec)
	b.Default()
	return b
}

// TestBookingKeepsAway: what would run into a maintenance waits and is told why; what has ended by then, and what may be moved, starts.
func TestBookingKeepsAway(t *testing.T) {
	s := storetest.Open(t)
	zones, all := twoZones(4, 0)
	commit(t, s, store.Create(booked("firmware", time.Hour, func(b *booking.BookingSpec) { b.Reason = "GPU firmware" })))
	c := lead(t, s, zones, all)
	make := func(name string, change func(*api.TrainingTaskSpec)) *api.TrainingTask {
		tk := task(name, 1, 1)
		change(&tk.Spec)
		commit(t, s, store.Create(tk))
		return tk
	}
	late := make("late", func(s *api.TrainingTaskSpec) { s.ExpectedTime = api.Duration(2 * time.Hour) })
	unknown := make("unknown", func(*api.TrainingTaskSpec) {})
	make("soon", func(s *api.TrainingTaskSpec) { s.ExpectedTime = api.Duration(10 * time.Minute) })
	make("moves", func(s *api.TrainingTaskSpec) { s.Preemptible = true })
	make("bounded", func(s *api.TrainingTaskSpec) { s.Timeouts = &api.Timeouts{Run: api.Duration(30 * time.Minute)} })
	for _, name := range []string{"soon", "moves", "bounded"} {
		eventually(t, name+" is placed", func() bool { return place(s, name) != nil })
	}
	for _, tk := range []*api.TrainingTask{late, unknown} {
		eventually(t, tk.Meta.Name+" says why it waits", func() bool {
			ex, ok := c.Why(tk.Meta.ID)
			return ok && ex.Reason == "Booked" && strings.Contains(ex.Message.EN, "GPU firmware") && strings.Contains(ex.Message.ZH, "维护 firmware") && ex.Action.EN != ""
		})
		if place(s, tk.Meta.Name) != nil {
			t.Errorf("%s was placed", tk.Meta.Name)
		}
	}
	p, err := c.Preview(t.Context(), unknown)
	if err != nil || p.Fits || p.Reason != "Booked" {
		t.Errorf("a preview promises a place: %+v %v", p, err)
	}
	o, err := s.Get(t.Context(), api.Key{Kind: booking.Kind, Name: "firmware"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	commit(t, s, store.Delete(api.KeyOf(o), o.GetMeta().Revision))
	eventually(t, "both start once it is gone", func() bool { return place(s, "late") != nil && place(s, "unknown") != nil })
}

// TestBookingGoes: who came after a booking was made is told of its end like everybody.
func TestBookingGoes(t *testing.T) {
	s := storetest.Open(t)
	zones, all := twoZones(1, 0)
	c := lead(t, s, zones, all)
	for range 3 {
		b := booked("now", -time.Minute, func(*booking.BookingSpec) {})
		commit(t, s, store.Create(b))
		tk := task("late", 1, 1)
		commit(t, s, store.Create(tk))
		eventually(t, "it is kept away", func() bool {
			ex, ok := c.Why(tk.Meta.ID)
			return ok && ex.Reason == "Booked"
		})
		commit(t, s, store.Delete(api.KeyOf(b), b.Meta.Revision))
		eventually(t, "it is placed", func() bool { return place(s, "late") != nil })
		commit(t, s, store.Delete(api.KeyOf(tk), 0), store.Delete(api.KeyOf(place(s, "late")), 0))
		eventually(t, "its place is gone", func() bool { return place(s, "late") == nil })
	}
}

// TestBookingBegins: when a maintenance begins, what stands there leaves, for another place where there is one; a project's own work stays in what
// is booked for it, and others don't come.
func TestBookingBegins(t *testing.T) {
	s := storetest.Open(t)
	zones, all := twoZones(2, 0)
	c := lead(t, s, zones, all)
	placedIn(t, s, "stays", 1, 1)
	from := nodesIn(place(s, "stays").Spec.Roles)[0]
	commit(t, s, store.Create(booked("mine", 0, func(b *booking.BookingSpec) { b.Projects = []string{"p"} })))
	stranger := task("stranger", 1, 1)
	stranger.Meta.Project, stranger.Spec.Zones = "other", &api.ZoneRules{Allow: []string{"a"}}
	commit(t, s, store.Create(stranger))
	eventually(t, "others are kept away", func() bool {
		ex, ok := c.Why(stranger.Meta.ID)
		return ok && ex.Reason == "Booked"
	})
	if place(s, "stays").Spec.Evict != nil {
		t.Fatal("its own project's work has to leave")
	}
	commit(t, s, store.Create(booked("now", -time.Minute, func(b *booking.BookingSpec) { b.Nodes = []string{all[from-1].Meta.Name} })))
	eventually(t, "it is asked to leave", func() bool { return place(s, "stays").Spec.Evict != nil })
	e := place(s, "stays").Spec.Evict
	if e.Reason != "Drained" || !strings.Contains(e.Message.EN, "maintenance now") || len(e.To) == 0 || nodesIn(e.To)[0] == from {
		t.Errorf("%+v, from node %d", e, from)
	}
}
