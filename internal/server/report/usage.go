package report

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
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/objects"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/truth"
	"github.com/fermi-cluster/fermi/internal/store"
	money "github.com/fermi-cluster/fermi/sched/cost"
)

// UsageSum is what one key used, in hours, as people are charged.
type UsageSum struct {
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

type UsageList struct {
	From     time.Time  `json:"from"`
	To       time.Time  `json:"to"`
	By       string     `json:"by"`
	Items    []UsageSum `json:"items" doc:"Those with the most cost first."`
	Total    UsageSum   `json:"total" doc:"Of all, also of those beyond limit."`
	Crossing string     `json:"crossingTraffic" doc:"not measured: bytes between zones are not counted yet, nor charged in costs."`
}

const (
	usageSpan = 30 * 24 * time.Hour
	// usageGroups bounds the memory of an answer.
	usageGroups = 100_000
)

// usageKey is what sums are made over; a task's key is its id.
type usageKey struct {
	Name string
	of   func(*history.UsageRow) string
}

var UsageKeys = []usageKey{
	{"project", func(r *history.UsageRow) string { return r.Project }},
	{"user", func(r *history.UsageRow) string { return r.Owner }},
	{"task", func(r *history.UsageRow) string { return r.TaskID }},
	{"zone", func(r *history.UsageRow) string { return r.Zone }},
	{"device", func(r *history.UsageRow) string { return r.Type }},
}

// Usage serves who used how much.
type Usage struct {
	truth   *truth.Truth
	judge   *access.Judge
	history history.History
	clock   clock.Clock
	running Running
}

// Running measures what runs.
type Running interface {
	// Ran is how long a replica has run, by a clock that nobody sets; false where it does not run, or nobody measured.
	Ran(replica string) (time.Duration, bool)
}

// NewUsage makes the desk; without running, what runs counts by the wall clock.
func NewUsage(f *objects.Finder, c clock.Clock, running Running) *Usage {
	return &Usage{truth: f.Truth, judge: f.Judge, history: f.History, clock: c, running: running}
}

// farAhead is behind everything: a stay that began before the clock was set back lies in what is now the future.
const farAhead = 50 * 365 * 24 * time.Hour

func (s *Usage) Routes(reg *rest.Schemas) []*rest.Route {
	by := rest.Param{Name: "by", Fallback: UsageKeys[0].Name, Doc: "What to add up by."}
	for _, k := range UsageKeys {
		by.Enum = append(by.Enum, k.Name)
	}
	return []*rest.Route{{
		Method: http.MethodGet, Path: rest.Prefix + "/usage", ID: "sumUsage", Summary: "Who used how much, and what it cost.", Tag: "usage",
		Query: []rest.Param{
			by, {Name: "project", Doc: "Only this project; all that you may see when absent."},
			{Name: "from", Form: rest.FormTime, Doc: "RFC 3339, or how long ago; 30 days ago when absent."},
			{Name: "to", Form: rest.FormTime, Doc: "RFC 3339, or how long ago; now when absent."},
			{Name: "limit", Form: rest.FormInt, Min: 1, Max: 1000, Fallback: "100"},
		},
		Data: rest.SchemaOf[UsageList](reg), Handle: s.sumUsage,
	}}
}

func (s *Usage) sumUsage(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	now := s.clock.Now().UTC()
	span := history.UsageSpan{From: c.Query.Moment("from", now), To: c.Query.Moment("to", now)}
	said := span.To
	if said.IsZero() || said.After(now) {
		said = now
	}
	if span.To.IsZero() {
		span.To = now.Add(farAhead)
	}
	if span.From.IsZero() {
		span.From = said.Add(-usageSpan)
	}
	if !span.From.Before(span.To) || span.From.Year() < 1970 {
		return nil, refuse.Invalid("query.from", fault.T("from must lie before to and after 1970.", "from 必须早于 to 且晚于 1970 年。"))
	}
	var err error
	if span.Projects, err = projectsAsked(ctx, s.judge, c); err != nil {
		return nil, err
	}
	by := c.Query.Text("by")
	at := slices.IndexFunc(UsageKeys, func(k usageKey) bool { return k.Name == by })
	groups, err := s.bills(ctx, span, UsageKeys[at].of)
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
	keys = keys[:min(len(keys), int(c.Query.Number("limit")))]
	out := UsageList{From: span.From.UTC(), To: said.UTC(), By: by, Items: make([]UsageSum, len(keys)), Total: sumOf("", &total), Crossing: "not measured"}
	for i, key := range keys {
		out.Items[i] = sumOf(key, groups[key])
		if by == "task" {
			out.Items[i].Name = s.taskName(ctx, key)
		}
	}
	return &rest.Reply{Data: out}, nil
}

// sumOf is a bill as people see it.
func sumOf(key string, b *money.Bill) UsageSum {
	out := UsageSum{
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
func (s *Usage) bills(ctx context.Context, span history.UsageSpan, key func(*history.UsageRow) string) (map[string]*money.Bill, error) {
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
		s.charge(bill, book, &r, span)
	})
	if err == nil {
		err = failed
	}
	return groups, err
}

// charge puts the part of a stay that lies in a span on a bill. What still runs is not charged ahead.
func (s *Usage) charge(bill *money.Bill, book *money.Books, r *history.UsageRow, span history.UsageSpan) {
	from, to := r.Start, r.Stop
	if from.Before(span.From) {
		from = span.From
	}
	if to.IsZero() {
		bill.Running++
		to = s.untilNow(r)
	}
	if to.After(span.To) {
		to = span.To
	}
	if to.Before(from) {
		to = from
	}
	bill.Replicas++
	book.Add(bill, money.Part{CPU: r.CPU, Memory: r.Memory, DeviceType: r.Type, Thousandths: r.Thousandths}, r.Spot, from, to)
}

// untilNow is the end so far of a stay that goes on, by the clock as it stood at its start, as the end of one that is over.
func (s *Usage) untilNow(r *history.UsageRow) time.Time {
	if s.running != nil {
		if ran, ok := s.running.Ran(r.Replica); ok {
			return r.Start.Add(ran)
		}
	}
	return s.clock.Now()
}

// booksOf are a zone's terms over a span. The zone is read first: whatever replaces its terms after
// that writes them into history before.
func (s *Usage) booksOf(ctx context.Context, zone string, span history.UsageSpan) (*money.Books, error) {
	var books []money.Book
	o, err := s.truth.Find(ctx, api.Key{Kind: api.KindZone, Name: zone}, 0)
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
func (s *Usage) taskName(ctx context.Context, id string) string {
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
func projectsAsked(ctx context.Context, j *access.Judge, c *rest.Call) ([]string, error) {
	if p := c.Query.Text("project"); p != "" {
		if !c.Who.SeesAll() {
			ok, err := j.MemberOf(ctx, c.Who, p)
			if err != nil {
				return nil, err
			}
			if !ok {
				return nil, refuse.NotMember(p)
			}
		}
		return []string{p}, nil
	}
	names, everything, err := j.ProjectsOf(ctx, c.Who)
	if err != nil || everything {
		return nil, err
	}
	return append([]string{}, names...), nil
}
