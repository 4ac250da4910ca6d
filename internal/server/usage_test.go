package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/server/report"
	"github.com/fermi-cluster/fermi/internal/server/truth"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/sched/cost/costtest"
)

// deaths lets the process "die" at a write: before it is done, or after, when nobody hears of it.
type deaths struct {
	left   atomic.Int64 // writes until then; below 0: never
	before atomic.Bool
}

var errDead = errors.New("killed")

// around does a write, or dies. Reads are not its business.
func (d *deaths) around(write func() error) error {
	if d.left.Add(-1) != 0 {
		return write()
	}
	if d.before.Load() {
		return errDead
	}
	return errors.Join(write(), errDead)
}

type mortalHistory struct {
	history.History
	*deaths
}

func (h mortalHistory) PutBook(ctx context.Context, b history.Book) error {
	return h.around(func() error { return h.History.PutBook(ctx, b) })
}

func (h mortalHistory) PutUsage(ctx context.Context, rows ...history.UsageRow) error {
	return h.around(func() error { return h.History.PutUsage(ctx, rows...) })
}

type mortalStore struct {
	truth.Store
	*deaths
}

func (s mortalStore) Commit(ctx context.Context, txn store.Txn) (rev int64, err error) {
	err = s.around(func() (err error) { rev, err = s.Store.Commit(ctx, txn); return err })
	return rev, err
}

// handClock stands where the test puts it; waits are real.
type handClock struct {
	clock.Clock
	now atomic.Int64
}

func (c *handClock) Now() time.Time { return time.Unix(c.now.Load(), 0).UTC() }

// stay is a replica as the test knows it.
type stay struct {
	row    history.UsageRow
	amount costtest.Amount
}

// drill is one zone's life: prices change and replicas come and go, while the server dies at random
// writes and is asked again.
type drill struct {
	*world
	*deaths
	clock *handClock
	t     *rapid.T
	zone  string
	since []int64 // seconds at which specs came into force
	specs []api.ZoneSpec
	stays []*stay
}

// TestUsageBySecond: whatever is killed between any two writes, what was used costs what a count of
// its seconds says, each at the price of that second; and sums by anything add up to the same.
func TestUsageBySecond(t *testing.T) {
	d, clk := &deaths{}, &handClock{Clock: clock.Real}
	d.left.Store(-1)
	clk.now.Store(time.Date(2026, 3, 1, 20, 0, 0, 0, time.UTC).Unix())
	w := newWorld(t, func(c *Config) {
		c.History, c.Store, c.Clock = mortalHistory{c.History, d}, mortalStore{c.Store, d}, clk
	})
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		dr := &drill{world: w, deaths: d, clock: clk, t: rt, zone: fmt.Sprintf("z%d", n)}
		dr.reprice(costtest.Terms(rt))
		begin := clk.now.Load()
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			clk.now.Add(int64(rapid.IntRange(1, 1500).Draw(rt, "seconds")))
			switch rapid.IntRange(0, 3).Draw(rt, "step") {
			case 0:
				dr.reprice(costtest.Terms(rt))
			case 1:
				dr.begin()
			default:
				dr.end()
			}
		}
		clk.now.Add(int64(rapid.IntRange(1, 5000).Draw(rt, "rest")))
		from := begin + int64(rapid.IntRange(0, 3000).Draw(rt, "from"))
		dr.check(from, min(from+int64(rapid.IntRange(1, 20_000).Draw(rt, "span")), clk.now.Load()))
	})
}

// mortal repeats an act until it is done, with a death at one of its writes.
func (d *drill) mortal(act func() bool) {
	d.before.Store(rapid.Bool().Draw(d.t, "before"))
	d.left.Store(int64(rapid.IntRange(-1, 3).Draw(d.t, "death")))
	for range 10 {
		if act() {
			d.left.Store(-1)
			return
		}
	}
	d.t.Fatal("it never works")
}

// reprice makes the zone or gives it new terms, as an operator would who gets errors.
func (d *drill) reprice(terms api.ZoneSpec) {
	terms.Region = "北京"
	refused := false
	d.mortal(func() bool {
		method, path := "PUT", "/api/v1/zones/"+d.zone
		next := &api.Zone{Meta: api.Meta{Name: d.zone}}
		if a := d.do("GET", path+"?minRevision="+fmt.Sprint(d.revision()), d.admin, nil); a.status == 404 {
			method, path = "POST", "/api/v1/zones"
		} else if err := json.Unmarshal(a.Data, next); err != nil {
			d.t.Fatalf("%s", a.raw)
		}
		next.Spec = terms
		a := d.do(method, path, d.admin, next)
		refused = a.status == 422 || a.status == 400
		return a.status == 200 || refused
	})
	if !refused {
		d.since, d.specs = append(d.since, d.clock.now.Load()), append(d.specs, terms)
	}
}

// revision is as new as everything that was written.
func (d *drill) revision() int64 {
	rev, err := d.store.Now(context.Background())
	if err != nil {
		d.t.Fatal(err)
	}
	return rev
}

func (d *drill) begin() {
	a := costtest.Amount{
		Type: rapid.SampledFrom([]string{"", "A100", "H800"}).Draw(d.t, "type"), Thousandths: rapid.Int64Range(0, 8000).Draw(d.t, "thousandths"),
		CPU: api.MilliCPU(rapid.Int64Range(0, 64_000).Draw(d.t, "cpu")), GiB: rapid.Int64Range(0, 512).Draw(d.t, "GiB"), Spot: rapid.Bool().Draw(d.t, "spot"),
	}
	pick := func(what string) string { return rapid.SampledFrom([]string{"a", "b", "c"}).Draw(d.t, what) }
	d.stays = append(d.stays, &stay{amount: a, row: history.UsageRow{
		Replica: fmt.Sprintf("%s-%d", d.zone, len(d.stays)), TaskID: pick("task"), Project: d.zone, Owner: pick("owner"), Zone: d.zone, Type: a.Type,
		Thousandths: a.Thousandths, CPU: a.CPU, Memory: api.Bytes(a.GiB << 30), Spot: a.Spot, Start: d.clock.Now(),
	}})
	d.write(d.stays[len(d.stays)-1])
}

// end closes a stay that runs, or writes one that ended once more.
func (d *drill) end() {
	if len(d.stays) == 0 {
		return
	}
	s := d.stays[rapid.IntRange(0, len(d.stays)-1).Draw(d.t, "which")]
	if s.row.Stop.IsZero() {
		s.row.Stop = d.clock.Now()
	}
	d.write(s)
}

func (d *drill) write(s *stay) {
	d.mortal(func() bool { return d.cfg.History.PutUsage(context.Background(), s.row) == nil })
}

// check asks for sums by everything.
func (d *drill) check(from, to int64) {
	if from >= to {
		return
	}
	want, replicas, running := 0.0, 0, 0
	for _, s := range d.stays {
		stop := to
		if !s.row.Stop.IsZero() {
			stop = min(stop, s.row.Stop.Unix())
		}
		if s.row.Start.Unix() >= to || !s.row.Stop.IsZero() && s.row.Stop.Unix() <= from {
			continue
		}
		replicas++
		if s.row.Stop.IsZero() {
			running++
		}
		nanos := int64(0)
		for at := max(from, s.row.Start.Unix()); at < stop; at++ {
			spec := d.specs[0]
			for i, since := range d.since {
				if since <= at {
					spec = d.specs[i]
				}
			}
			nanos += costtest.Rate(spec, s.amount, time.Unix(at, 0))
		}
		want += float64(nanos) / 3600 / 1e9
	}
	for _, k := range report.UsageKeys {
		var u report.UsageList
		d.ok("GET", fmt.Sprintf("/api/v1/usage?project=%s&by=%s&from=%s&to=%s", d.zone, k.Name, rfc(from), rfc(to)), nil, &u)
		sum, count := 0.0, 0
		for _, item := range u.Items {
			count += item.Replicas
			for _, c := range item.Costs {
				sum += c.Total
			}
		}
		if len(u.Total.Costs) == 0 {
			u.Total.Costs = []api.PriceTotal{{}}
		}
		if got := u.Total.Costs[0].Total; math.Abs(got-want) > 1e-6 || math.Abs(sum-want) > 1e-5 || u.Total.Replicas != replicas || count != replicas || u.Total.Running != running {
			d.t.Fatalf("by %s: %d replicas (%d running) for %v, together %v; want %d (%d) for %v", k.Name, u.Total.Replicas, u.Total.Running, got, sum, replicas, running, want)
		}
	}
}

func rfc(seconds int64) string { return time.Unix(seconds, 0).UTC().Format(time.RFC3339) }
