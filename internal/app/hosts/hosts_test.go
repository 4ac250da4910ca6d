package hosts

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/api/v1/joined"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/link/agency"
	"github.com/fermi-cluster/fermi/internal/server/door"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/internal/store/storetest"
)

// TestMain has the table of kinds whole before the first store is opened.
func TestMain(m *testing.M) {
	api.Register(devenv.Row)
	m.Run()
}

type nobody struct{ history.Events }

func (nobody) AddEvents(context.Context, ...history.Event) error { return nil }

// TestBadJoins: what is wrong with a wish to join is said, makes no node and uses no token up; a token lets one machine in.
func TestBadJoins(t *testing.T) {
	st, ctx := storetest.Open(t), t.Context()
	h := New(Config{Store: st, Events: nobody{}, Log: slog.New(slog.DiscardHandler)})
	h.epoch.Store(&store.Epoch{})
	token := func(name string, ends time.Duration) string {
		secret := "fermi_" + name + "_secret"
		at := time.Now().Add(ends)
		if _, err := st.Commit(ctx, store.Txn{Ops: []store.Op{store.Create(&api.Token{
			Meta: api.Meta{ID: "tok-" + name, Name: name, Labels: map[string]string{joined.LabelZone: "z"}},
			Spec: api.TokenSpec{User: "ops", Hash: door.HashSecret(secret), ExpiresAt: &at, Use: joined.Use},
		})}}); err != nil {
			t.Fatal(err)
		}
		return secret
	}
	if _, err := st.Commit(ctx, store.Txn{Ops: []store.Op{store.Create(&api.Zone{Meta: api.Meta{ID: "zone-1", Name: "z"}}), store.Create(&api.Token{
		Meta: api.Meta{ID: "tok-api", Name: "api", Labels: map[string]string{joined.LabelZone: "z"}}, Spec: api.TokenSpec{User: "ops", Hash: door.HashSecret("fermi_api_secret")},
	})}}); err != nil {
		t.Fatal(err)
	}
	good, second := token("join-good", time.Hour), token("join-second", time.Hour)
	join := func(secret, name, machine string, change func(*agency.Wish)) error {
		w := agency.Wish{Secret: secret, Name: name, MachineID: machine, Address: "10.0.0.2", Version: "v1.0.0"}
		change(&w)
		_, err := h.Join(ctx, w)
		return err
	}
	none := func(*agency.Wish) {}
	nodes := func() int {
		now, err := st.Now(ctx)
		if err != nil {
			t.Fatal(err)
		}
		snap, err := st.List(ctx, api.KindNode, "", now)
		if err != nil {
			t.Fatal(err)
		}
		return snap.Len()
	}
	refused := func(what, want string, err error) {
		t.Helper()
		if e := fault.From(err); fault.ReasonOf(err) != want || e.Message.EN == "" || e.Message.ZH == "" {
			t.Errorf("%s: %v, want %s", what, err, want)
		}
	}
	before := nodes()
	refused("no token", "BadJoinToken", join("", "box1", "m1", none))
	refused("a wrong token", "BadJoinToken", join(good+"x", "box1", "m1", none))
	refused("one that nobody made", "BadJoinToken", join("fermi_join-none_secret", "box1", "m1", none))
	refused("one of the API", "BadJoinToken", join("fermi_api_secret", "box1", "m1", none))
	refused("an expired token", "JoinTokenExpired", join(token("join-old", -time.Second), "box1", "m1", none))
	refused("another zone", "OtherZone", join(good, "box1", "m1", func(w *agency.Wish) { w.Zone = "elsewhere" }))
	refused("no name", "BadJoin", join(good, "../etc", "m1", none))
	refused("no address", "BadJoin", join(good, "box1", "m1", func(w *agency.Wish) { w.Address = "host.example" }))
	refused("a label of two lines", "BadJoin", join(good, "box1", "m1", func(w *agency.Wish) { w.Labels = map[string]string{"a": "b\nc"} }))
	if nodes() != before {
		t.Fatal("a refused machine has a node")
	}
	if err := join(good, "box1", "m1", none); err != nil { // nothing used the token up
		t.Fatal(err)
	}
	refused("a used token", "BadJoinToken", join(good, "box2", "m2", none))
	refused("two machines of one name", "NodeNameTaken", join(second, "box1", "m2", none))
	refused("a cloned disk", "MachineIDTaken", join(second, "box2", "m1", none))
	if err := join(second, "box2", "m2", none); err != nil {
		t.Fatal(err)
	}
	if got := nodes(); got != before+2 {
		t.Errorf("%d nodes, want 2", got-before)
	}
	h.epoch.Store(nil)
	refused("a server that does not lead", "NotLeading", join(second, "box3", "m3", none))
}

// TestHomeless: a machine that comes back deletes homes whose owner is gone or has another one, and keeps both of an environment that is being moved.
func TestHomeless(t *testing.T) {
	st, ctx := storetest.Open(t), t.Context()
	h := New(Config{Store: st, Events: nobody{}, Log: slog.New(slog.DiscardHandler)})
	var all []store.Op
	for id, state := range map[string]devenv.HomeState{
		"env-still": {}, "env-moved": {HomeCount: 2, Moved: &devenv.HomeMoved{Count: 2, Left: &devenv.HomePlace{Home: "env-moved"}}},
		"env-going": {HomeCount: 1, Moved: &devenv.HomeMoved{Count: 1, Running: true, From: devenv.HomePlace{Home: "env-going"}}},
	} {
		all = append(all, store.Create(&devenv.DevEnvironment{Meta: api.Meta{ID: id, Name: id[4:], Project: "lab"}, Status: devenv.Status{HomeState: state}}))
	}
	if _, err := st.Commit(ctx, store.Txn{Ops: all}); err != nil {
		t.Fatal(err)
	}
	got, err := h.homeless(ctx, []string{"env-still", "env-still-m1", "env-moved", "env-moved-m1", "env-moved-m2", "env-going", "env-going-m1", "env-gone", "env-gone-m3"})
	if want := []string{"env-still-m1", "env-moved", "env-moved-m1", "env-gone", "env-gone-m3"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; not %v", got, err, want)
	}
}
