package server

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/store"
	money "github.com/fermi-cluster/fermi/sched/cost"
)

// usageSum is what one key used, in hours, as people are charged.
type usageSum struct {
	Key         string           `json:"key" doc:"Name of the project, user or zone; device type; id of the task."`
	Name        string           `json:"name,omitempty" doc:"Of a task."`
	Replicas    int              `json:"replicas"`
	Running     int              `json:"running" doc:"How many of the replicas still run; they count up to now."`
	DeviceHours float64          `json:"deviceHours" doc:"A shared device counts by its share."`
	CoreHours   float64          `json:"coreHours"`
	MemoryGBh   float64          `json:"memoryGiBHours"`
	Costs       []api.PriceTotal `json:"costs" doc:"By currency: every second at the price that the zone had then."`
	KWh         float64          `json:"kwh" doc:"With cooling."`
	Grams       *float64         `json:"grams,omitempty" doc:"CO₂; absent where a zone did not say how clean its power is."`
	EnergyBasis string           `json:"energyBasis" doc:"estimated: from tables of power, for devices at work all the time."`
}

type usageList struct {
	From     time.Time  `json:"from"`
	To       time.Time  `json:"to"`
	By       string     `json:"by"`
	Items    []usageSum `json:"items" doc:"Those with the most cost first."`
	Total    usageSum   `json:"total" doc:"Of all, also of those beyond limit."`
	Crossing string     `json:"crossingTraffic" doc:"not measured: bytes between zones are not counted yet, nor charged in costs."`
}

const (
	usageSpan = 30 * 24 * time.Hour
	// usageGroups bounds the memory of an answer.
	usageGroups = 100_000
)

// usageKey is what sums are made over; a task's key is its id.
type usageKey struct {
	name string
	of   func(*history.UsageRow) string
}

var usageKeys = []usageKey{
	{"project", func(r *history.UsageRow) string { return r.Project }},
	{"user", func(r *history.UsageRow) string { return r.Owner }},
	{"task", func(r *history.UsageRow) string { return r.TaskID }},
	{"zone", func(r *history.UsageRow) string { return r.Zone }},
	{"device", func(r *history.UsageRow) string { return r.Type }},
}

// usage serves who used how much.
type usage struct {
	truth   *truth
	judge   *judge
	history history.History
	clock   clock.Clock
}

func newUsage(f *finder, c clock.Clock) *usage {
	return &usage{truth: f.truth, judge: f.judge, history: f.history, clock: c}
}

func (s *usage) routes(reg *schemas) []*route {
	by := param{name: "by", fallback: usageKeys[0].name, doc: "What to add up by."}
	for _, k := range usageKeys {
		by.enum = append(by.enum, k.name)
	}
	return []*route{{
		method: http.MethodGet, path: prefix + "/usage", id: "sumUsage", summary: "Who used how much, and what it cost.", tag: "usage",
		query: []param{
			by, {name: "project", doc: "Only this project; all that you may see when absent."},
			{name: "from", form: formTime, doc: "RFC 3339, or how long ago; 30 days ago when absent."},
			{name: "to", form: formTime, doc: "RFC 3339, or how long ago; now when absent."},
			{name: "limit", form: formInt, min: 1, max: 1000, fallback: "100"},
		},
		data: schemaOf[usageList](reg), handle: s.sumUsage,
	}}
}

func (s *usage) sumUsage(ctx context.Context, c *call) (*reply, error) {
	now := s.clock.Now().UTC()
	span := history.UsageSpan{From: c.q.moment("from", now), To: c.q.moment("to", now)}
	if span.To.IsZero() || span.To.After(now) {
		span.To = now // what still runs is not charged ahead
	}
	if span.From.IsZero() {
		span.From = span.To.Add(-usageSpan)
	}
	if !span.From.Before(span.To) || span.From.Year() < 1970 {
		return nil, invalid("query.from", fault.T("from must lie before to and after 1970.", "from 必须早于 to 且晚于 1970 年。"))
	}
	var err error
	if span.Projects, err = projectsAsked(ctx, s.judge, c); err != nil {
		return nil, err
	}
	by := c.q.text("by")
	at := slices.IndexFunc(usageKeys, func(k usageKey) bool { return k.name == by })
	groups, err := s.bills(ctx, span, usageKeys[at].of)
	if err != nil {
		return nil, err
	}
	keys := make([]string, 0, len(groups))
	var total money.Bill
	for key, bill := range groups {
		keys = append(keys, key)
		total.Plus(bill)
	}
	slices.SortFunc(keys, func(a, b string) int { return cmp.Or(money.Dearer(groups[a], groups[b]), cmp.Compare(a, b)) })
	keys = keys[:min(len(keys), int(c.q.number("limit")))]
	out := usageList{From: span.From.UTC(), To: span.To.UTC(), By: by, Items: make([]usageSum, len(keys)), Total: sumOf("", &total), Crossing: "not measured"}
	for i, key := range keys {
		out.Items[i] = sumOf(key, groups[key])
		if by == "task" {
			out.Items[i].Name = s.taskName(ctx, key)
		}
	}
	return &reply{data: out}, nil
}

// sumOf is a bill as people see it.
func sumOf(key string, b *money.Bill) usageSum {
	out := usageSum{
		Key: key, Replicas: b.Replicas, Running: b.Running, DeviceHours: b.Devices.Nano().Float(), CoreHours: b.Cores.Nano().Float(),
		MemoryGBh: b.Memory.Nano().Float(), Costs: b.Totals(), KWh: b.KWh.Nano().Float(), EnergyBasis: "estimated",
	}
	if grams := b.Grams.Nano().Float(); !b.Dark {
		out.Grams = &grams
	}
	return out
}

// bills adds up the stays of a span, or the parts of them within it, by key. A stay costs what the
// books of its zone say: nothing that was added up is kept, so nothing is lost or counted twice.
func (s *usage) bills(ctx context.Context, span history.UsageSpan, key func(*history.UsageRow) string) (map[string]*money.Bill, error) {
	groups, books := map[string]*money.Bill{}, map[string]*money.Books{}
	var failed error
	err := s.history.EachUsage(ctx, span, func(r history.UsageRow) {
		if failed != nil {
			return
		}
		book, ok := books[r.Zone]
		if !ok {
			if book, failed = s.booksOf(ctx, r.Zone, span); failed != nil {
				return
			}
			books[r.Zone] = book
		}
		bill := groups[key(&r)]
		if bill == nil {
			if len(groups) == usageGroups {
				failed = fault.New(fault.Invalid, "TooMany", fault.T("There are more than %d of these.", "超过 %d 项。", usageGroups)).
					WithHint(fault.T("Choose a shorter time, or another way to add up.", "请缩短时间范围，或换一种汇总方式。"))
				return
			}
			bill = &money.Bill{}
			groups[key(&r)] = bill
		}
		charge(bill, book, &r, span)
	})
	if err == nil {
		err = failed
	}
	return groups, err
}

// charge puts the part of a stay that lies in a span on a bill.
func charge(bill *money.Bill, book *money.Books, r *history.UsageRow, span history.UsageSpan) {
	from, to := r.Start, r.Stop
	if from.Before(span.From) {
		from = span.From
	}
	if to.IsZero() {
		bill.Running++
	}
	if to.IsZero() || to.After(span.To) {
		to = span.To
	}
	bill.Replicas++
	book.Add(bill, money.Part{CPU: r.CPU, Memory: r.Memory, DeviceType: r.Type, Thousandths: r.Thousandths}, r.Spot, from, to)
}

// booksOf are a zone's terms over a span. The zone is read first: whatever replaces its terms after
// that writes them into history before.
func (s *usage) booksOf(ctx context.Context, zone string, span history.UsageSpan) (*money.Books, error) {
	var books []money.Book
	o, err := s.truth.find(ctx, api.Key{Kind: api.KindZone, Name: zone}, 0)
	if err == nil {
		z := o.(*api.Zone)
		books = append(books, money.Book{Since: money.PricedSince(z), Spec: z.Spec})
	} else if !fault.Is(err, fault.NotFound) { // one that was deleted left its books
		return nil, err
	}
	past, err := s.history.BooksOf(ctx, zone, span.From, span.To)
	if err != nil {
		return nil, err
	}
	for _, b := range past {
		books = append(books, money.Book{Since: b.Since, Spec: b.Spec})
	}
	return money.BooksOf(books), nil
}

// taskName is "" for a task that was deleted.
func (s *usage) taskName(ctx context.Context, id string) string {
	if o, err := store.WorkByID(ctx, s.truth, id, 0); err == nil {
		return o.GetMeta().Name
	}
	if kind, ok := api.KindOfID(id); ok {
		if row, err := s.history.GetArchived(ctx, kind, "", id); err == nil {
			return row.Object.GetMeta().Name
		}
	}
	return ""
}

// projectsAsked are those the caller may see of those asked for; nil is all.
func projectsAsked(ctx context.Context, j *judge, c *call) ([]string, error) {
	if p := c.q.text("project"); p != "" {
		if !c.who.seesAll() {
			ok, err := j.memberOf(ctx, c.who, p)
			if err != nil {
				return nil, err
			}
			if !ok {
				return nil, notMember(p)
			}
		}
		return []string{p}, nil
	}
	names, everything, err := j.projectsOf(ctx, c.who)
	if err != nil || everything {
		return nil, err
	}
	return append([]string{}, names...), nil
}
