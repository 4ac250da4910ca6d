package serve

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/server/rest"
)

// Figures are how a service answered over a time.
type Figures struct {
	From      time.Time         `json:"from"`
	To        time.Time         `json:"to"`
	Step      int               `json:"step" doc:"Seconds that a point stands for."`
	Points    []FigurePoint     `json:"points" doc:"Oldest first; where nothing was asked there is none."`
	Total     Figure            `json:"total"`
	Revisions []RevisionFigures `json:"revisions" doc:"Newest first; those that answered."`
	Keys      []KeyFigures      `json:"keys" doc:"What each key asked, in whole hours; the hundred that asked most."`
	SLO       *Budget           `json:"slo,omitempty"`
	CostHour  float64           `json:"costHour" doc:"Of the replicas that run now."`
	// CostPerThousand is absent where nothing was asked in the last hour.
	CostPerThousand *float64 `json:"costPerThousand,omitempty" doc:"Of 1,000 requests: what its replicas cost now, by what was asked in the last hour."`
}

// Figure is what was answered, and how soon.
type Figure struct {
	serving.ServedCount
	P50 float64 `json:"p50,omitempty" doc:"Seconds within which half of the answers had begun."`
	P95 float64 `json:"p95,omitempty" doc:"Likewise 95 of 100."`

	begun []int64
}

// FigurePoint is a Figure of a step.
type FigurePoint struct {
	At time.Time `json:"at"`
	Figure
}

// RevisionFigures is a Figure of a revision.
type RevisionFigures struct {
	Revision int `json:"revision"`
	Figure
}

// KeyFigures is what a key asked.
type KeyFigures struct {
	Key string `json:"key" doc:"Name of the token; empty: keys beyond those that a gateway tells apart."`
	serving.ServedCount
}

// Budget is how much of what a service may fail is left.
type Budget struct {
	Availability float64      `json:"availability" doc:"Percent that was promised."`
	Window       api.Duration `json:"window"`
	Requests     int64        `json:"requests"`
	Bad          int64        `json:"bad" doc:"Errors, and answers that began later than promised."`
	Measured     *float64     `json:"measured,omitempty" doc:"Percent of good answers; absent where nothing was asked."`
	Left         float64      `json:"left" doc:"Percent of the error budget; below 0 when the promise is broken."`
	Burn         float64      `json:"burn" doc:"How many times as fast as allowed it was used in the last hour; 1 uses all of it in just the window."`
}

const (
	usualFigures = time.Hour
	maxFigures   = 31 * 24 * time.Hour
	minutesKept  = 7 * 24 * time.Hour // beyond that only hours are known
	mostPoints   = 240
	mostKeys     = 100
)

func (f *Figure) take(s *serving.Served) {
	f.Add(s.ServedCount)
	if f.begun == nil {
		f.begun = make([]int64, serving.LoadBuckets)
	}
	for i := range min(len(s.Begun), len(f.begun)) {
		f.begun[i] += s.Begun[i]
	}
}

func (f *Figure) settle() {
	f.P50, f.P95 = serving.Quantile(f.begun, 0.5).Seconds(), serving.Quantile(f.begun, 0.95).Seconds()
}

// step is how long a point of a span is: a minute, or as many as keep their number small.
func step(span time.Duration) time.Duration {
	n := max(1, int((span+mostPoints*time.Minute-1)/(mostPoints*time.Minute)))
	return time.Duration(n) * time.Minute
}

var figureParams = []rest.Param{rest.ParamProject, {Name: "since", Form: rest.FormTime, Doc: "From when on: a time, or so long ago (1h when absent; at most 31 days)."}}

// figures is how a service answered.
func (s *Services) figures(ctx context.Context, c *rest.Call, o *serving.InferenceService) (*rest.Reply, error) {
	now := s.Clock.Now().UTC()
	from := c.Query.Moment("since", now)
	if from.IsZero() || from.After(now) {
		from = now.Add(-usualFigures)
	}
	if limit := now.Add(-maxFigures); from.Before(limit) {
		from = limit
	}
	width := serving.Minute
	wide := step(now.Sub(from))
	if now.Sub(from) > minutesKept {
		width, wide = serving.Hour, max(wide.Truncate(time.Hour), time.Hour)
	}
	from = from.Truncate(wide)
	out := Figures{From: from, To: now, Step: int(wide / time.Second), Points: []FigurePoint{}, Revisions: []RevisionFigures{}, Keys: []KeyFigures{}}
	points, revisions := map[int64]*FigurePoint{}, map[int]*RevisionFigures{}
	h := s.Finder.History
	if err := h.EachServed(ctx, history.ServedQuery{Width: width, ServiceID: o.Meta.ID, From: from, To: now}, func(r serving.Served) {
		at := r.Start.Truncate(wide)
		p := points[at.Unix()]
		if p == nil {
			p = &FigurePoint{At: at}
			points[at.Unix()] = p
		}
		p.take(&r)
		out.Total.take(&r)
		if r.Revision == 0 {
			return
		}
		v := revisions[r.Revision]
		if v == nil {
			v = &RevisionFigures{Revision: r.Revision}
			revisions[r.Revision] = v
		}
		v.take(&r)
	}); err != nil {
		return nil, err
	}
	keys, err := h.SumServed(ctx, history.ServedQuery{Width: serving.Hour, ServiceID: o.Meta.ID, From: from.Truncate(time.Hour), To: now})
	if err != nil {
		return nil, err
	}
	out.Total.settle()
	for _, at := range slices.Sorted(maps.Keys(points)) {
		points[at].settle()
		out.Points = append(out.Points, *points[at])
	}
	for _, n := range slices.Backward(slices.Sorted(maps.Keys(revisions))) {
		revisions[n].settle()
		out.Revisions = append(out.Revisions, *revisions[n])
	}
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		out.Keys = append(out.Keys, KeyFigures{name, keys[name]})
	}
	slices.SortStableFunc(out.Keys, func(a, b KeyFigures) int { return cmp.Compare(b.Requests, a.Requests) })
	out.Keys = out.Keys[:min(len(out.Keys), mostKeys)]
	if err := s.promised(ctx, o, &out, now); err != nil {
		return nil, err
	}
	if err := s.costs(ctx, o, &out, now); err != nil {
		return nil, err
	}
	return &rest.Reply{Data: &out, Revision: o.Meta.Revision}, nil
}

// sum is what was asked of a service since then.
func (s *Services) sum(ctx context.Context, o *serving.InferenceService, width serving.Width, from, to time.Time) (all serving.ServedCount, err error) {
	keys, err := s.Finder.History.SumServed(ctx, history.ServedQuery{Width: width, ServiceID: o.Meta.ID, From: from, To: to})
	for _, c := range keys {
		all.Add(c)
	}
	return all, err
}

// promised adds the error budget, where something was promised.
func (s *Services) promised(ctx context.Context, o *serving.InferenceService, out *Figures, now time.Time) error {
	slo := o.Spec.SLO
	if slo == nil {
		return nil
	}
	sum, err := s.sum(ctx, o, serving.Hour, now.Add(-slo.Window.Std()).Truncate(time.Hour), now)
	if err != nil {
		return err
	}
	hour, err := s.sum(ctx, o, serving.Minute, now.Add(-time.Hour), now)
	if err != nil {
		return err
	}
	out.SLO = budget(slo, sum, hour)
	return nil
}

// budget is what is left of a promise.
func budget(slo *serving.SLO, sum, hour serving.ServedCount) *Budget {
	asked := func(c serving.ServedCount) (all, bad float64) {
		return float64(c.Requests - c.Refused), float64(c.Errors + c.Slow)
	}
	all, bad := asked(sum)
	b := &Budget{Availability: slo.Availability, Window: slo.Window, Requests: int64(all), Bad: int64(bad), Left: 100}
	allowed := 1 - slo.Availability/100
	if all > 0 {
		good := 100 * (1 - bad/all)
		b.Measured, b.Left = &good, 100*(1-bad/(all*allowed))
	}
	if all, bad := asked(hour); all > 0 {
		b.Burn = bad / all / allowed
	}
	return b
}

// costs adds what its replicas cost.
func (s *Services) costs(ctx context.Context, o *serving.InferenceService, out *Figures, now time.Time) error {
	list, err := s.replicas(ctx, o)
	if err != nil {
		return err
	}
	for _, r := range list {
		rows, err := s.Finder.History.UsageOf(ctx, r.Meta.ID)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if row.Stop.IsZero() {
				out.CostHour += row.PriceHour
			}
		}
	}
	hour, err := s.sum(ctx, o, serving.Minute, now.Add(-time.Hour), now)
	if err != nil || hour.Requests == 0 {
		return err
	}
	each := 1000 * out.CostHour / float64(hour.Requests)
	out.CostPerThousand = &each
	return nil
}
