package train

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/server/objects"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
)

// Curves serves what ranks reported and what was measured of them, over steps or time.
type Curves struct {
	points history.Metrics
	task   func(context.Context, *rest.Call) (objects.Found, *api.TrainingTask, error)
	clock  clock.Clock
}

func NewCurves(points history.Metrics, d *Desk) *Curves {
	return &Curves{points: points, task: d.task, clock: d.clock}
}

const (
	maxCurves = 32      // in one answer
	maxDrawn  = 200_000 // points of all of them
	everyone  = "all"
)

// Routes are the list of a task's curves and their points.
func (s *Curves) Routes(reg *rest.Schemas) []*rest.Route {
	both := []rest.Param{rest.ParamProject, rest.ParamRevision}
	list := rest.Object([]string{"items", "dropped"}, map[string]*huma.Schema{
		"items": rest.ListOf(rest.SchemaOf[CurveName](reg)), "dropped": {Type: huma.TypeInteger, Format: "int64", Description: "Points that launchers had no room for while no server was there."},
	})
	drawn := rest.Object([]string{"items", "left"}, map[string]*huma.Schema{
		"items": rest.ListOf(rest.SchemaOf[Curve](reg)), "left": {Type: huma.TypeInteger, Format: "int64", Description: "Curves that were chosen too and are not in this answer, which has at most 32."},
	})
	return []*rest.Route{
		readRoute("metrics", "listTaskMetrics", "The curves of the task: what ranks report or print, step times, use of devices, cores and memory.", both, list, s.list),
		readRoute("metrics/points", "readTaskMetrics", "Points of chosen curves. Where there are more than asked for, the lowest and highest of each part stay.", append([]rest.Param{
			{Name: "name", Form: rest.FormList, Doc: "Of curves; repeatable."},
			{Name: "rank", Form: rest.FormList, Doc: "Of ranks, or all; the lowest that has the curve when absent."},
			{Name: "replica", Form: rest.FormList, Doc: "role-index, or all: of curves of whole replicas; the first that has the curve when absent."},
			{Name: "generation", Doc: "newest (steps that were made again are those of the last time), all (each generation is a curve), or a number.", Fallback: newest},
			{Name: "by", Enum: []string{"step", "time"}, Fallback: "step"},
			{Name: "fromStep", Form: rest.FormInt}, {Name: "toStep", Form: rest.FormInt},
			{Name: "since", Form: rest.FormTime, Doc: "RFC 3339, or a span back from now such as 10m."}, {Name: "until", Form: rest.FormTime},
			{Name: "points", Form: rest.FormInt, Min: 8, Max: 20000, Fallback: "1000", Doc: "At most about so many of each curve."},
		}, both...), drawn, s.read),
	}
}

const newest = "newest"

// CurveName is a name under which the task has curves.
type CurveName struct {
	Name        string   `json:"name"`
	Ranks       []int    `json:"ranks,omitempty" doc:"That have it; none where it is of whole replicas."`
	Replicas    []string `json:"replicas" doc:"role-index; that have it."`
	Generations []int64  `json:"generations"`
}

// Curve is points of one curve; steps, times and values are as long as each other.
type Curve struct {
	Name       string      `json:"name"`
	Replica    string      `json:"replica,omitempty" doc:"role-index, where it is of a whole replica."`
	Role       string      `json:"role"`
	Rank       *int        `json:"rank,omitempty"`
	Generation int64       `json:"generation" doc:"The newest one in it."`
	Steps      []int64     `json:"steps"`
	Times      []int64     `json:"times" doc:"Unix milliseconds."`
	Values     []*float64  `json:"values" doc:"null where it is no finite number: notFinite says which."`
	NotFinite  []NotFinite `json:"notFinite,omitempty"`
	Total      int64       `json:"total" doc:"Points in the span; those that are not here lie between the lowest and highest beside them."`
	Thinned    int64       `json:"thinned,omitempty" doc:"Points of the curve that are not kept any more: of such long ones, lowest and highest are."`
}

// NotFinite is a value that JSON has no number for.
type NotFinite struct {
	At int    `json:"at" doc:"Index in values."`
	Is string `json:"is" enum:"NaN,Infinity,-Infinity"`
}

func (s *Curves) list(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	_, task, err := s.task(ctx, c)
	if err != nil {
		return nil, err
	}
	all, dropped, err := s.points.Series(ctx, task.Meta.ID)
	if err != nil {
		return nil, err
	}
	return &rest.Reply{Data: map[string]any{"items": namesOf(task.Meta.ID, all), "dropped": dropped}}, nil
}

func namesOf(taskID string, all []history.Series) []CurveName {
	out := []CurveName{}
	for i := 0; i < len(all); {
		one := CurveName{Name: all[i].Name}
		ranks, replicas, generations := map[int]bool{}, map[string]bool{}, map[int64]bool{}
		for ; i < len(all) && all[i].Name == one.Name; i++ {
			if all[i].Rank != history.OfReplica {
				ranks[all[i].Rank] = true
			}
			_, place := placeOf(taskID, all[i].Replica)
			replicas[place], generations[all[i].Generation] = true, true
		}
		one.Ranks, one.Generations = slices.Sorted(maps.Keys(ranks)), slices.Sorted(maps.Keys(generations))
		one.Replicas = slices.SortedFunc(maps.Keys(replicas), byPlace)
		out = append(out, one)
	}
	return out
}

// placeOf takes a replica's name apart: task-role-index-attempt.
func placeOf(taskID, replica string) (role, place string) {
	place = strings.TrimPrefix(replica, taskID+"-")
	if i := strings.LastIndexByte(place, '-'); i > 0 {
		place = place[:i]
	}
	role = place
	if i := strings.LastIndexByte(place, '-'); i > 0 {
		role = place[:i]
	}
	return role, place
}

// byPlace puts worker-2 before worker-10.
func byPlace(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)) }

// drawing is one curve that was chosen, with the series that it is made of: by generation, oldest first.
type drawing struct {
	name, role, place string
	rank              int
	of                []history.Series
}

func (s *Curves) read(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	_, task, err := s.task(ctx, c)
	if err != nil {
		return nil, err
	}
	wish, err := curveWish(c, s.clock.Now())
	if err != nil {
		return nil, err
	}
	all, _, err := s.points.Series(ctx, task.Meta.ID)
	if err != nil {
		return nil, err
	}
	chosen := wish.choose(task.Meta.ID, all)
	left := max(len(chosen)-maxCurves, 0)
	chosen = chosen[:len(chosen)-left]
	items := make([]Curve, 0, len(chosen))
	for _, d := range chosen {
		one, err := s.draw(ctx, task.Meta.ID, d, wish, min(wish.most, maxDrawn/len(chosen)))
		if err != nil {
			return nil, err
		}
		items = append(items, one)
	}
	return &rest.Reply{Data: map[string]any{"items": items, "left": left}}, nil
}

// wishes are what of a task's curves is asked for.
type wishes struct {
	names, ranks, replicas []string
	generation             int64 // 0: of several
	apart                  bool  // each generation is a curve
	byTime                 bool
	in                     history.Span
	most                   int
}

func curveWish(c *rest.Call, now time.Time) (w wishes, err error) {
	q := c.Query
	w = wishes{names: q.All("name"), ranks: q.All("rank"), replicas: q.All("replica"), byTime: q.Text("by") == "time", most: int(q.Number("points"))}
	for _, r := range w.ranks {
		if n, err := strconv.Atoi(r); r != everyone && (err != nil || n < 0) {
			return w, refuse.Invalid("query.rank", fault.T("Use numbers of ranks, or all.", "请使用 rank 编号或 all。"))
		}
	}
	switch g := cmp.Or(q.Text("generation"), newest); g {
	case newest:
	case everyone:
		w.apart = true
	default:
		if w.generation, err = strconv.ParseInt(g, 10, 64); err != nil || w.generation < 1 {
			return w, refuse.Invalid("query.generation", fault.T("Use newest, all, or the number of a generation.", "请使用 newest、all 或代次编号。"))
		}
	}
	whole := func(name string) *int64 {
		if !q.Has(name) {
			return nil
		}
		n := q.Number(name)
		return &n
	}
	moment := func(name string) *int64 {
		if !q.Has(name) {
			return nil
		}
		n := q.Moment(name, now).UnixNano()
		return &n
	}
	w.in = history.Span{FromStep: whole("fromStep"), ToStep: whole("toStep"), FromTime: moment("since"), ToTime: moment("until")}
	return w, nil
}

// choose puts series together to curves, and takes those that are asked for.
func (w wishes) choose(taskID string, all []history.Series) []drawing {
	type key struct {
		name, who  string
		rank       int
		generation int64
	}
	at := map[key]int{}
	var list []drawing
	lowest := map[string]int{}
	first := map[string]string{}
	for _, one := range all {
		if len(w.names) > 0 && !slices.Contains(w.names, one.Name) || w.generation > 0 && one.Generation != w.generation {
			continue
		}
		d := drawing{name: one.Name, rank: one.Rank}
		d.role, d.place = placeOf(taskID, one.Replica)
		k := key{one.Name, d.role, one.Rank, 0}
		if one.Rank == history.OfReplica {
			k.who = d.place
			if was, there := first[one.Name]; !there || byPlace(d.place, was) < 0 {
				first[one.Name] = d.place
			}
		} else if was, there := lowest[one.Name]; !there || one.Rank < was {
			lowest[one.Name] = one.Rank
		}
		if w.apart {
			k.generation = one.Generation
		}
		i, there := at[k]
		if !there {
			i, at[k] = len(list), len(list)
			list = append(list, d)
		}
		list[i].of = append(list[i].of, one)
	}
	list = slices.DeleteFunc(list, func(d drawing) bool {
		switch {
		case d.rank == history.OfReplica && len(w.replicas) == 0:
			return d.place != first[d.name]
		case d.rank == history.OfReplica:
			return !slices.Contains(w.replicas, d.place) && !slices.Contains(w.replicas, everyone)
		case len(w.ranks) == 0:
			return d.rank != lowest[d.name]
		}
		return !slices.Contains(w.ranks, strconv.Itoa(d.rank)) && !slices.Contains(w.ranks, everyone)
	})
	for _, d := range list {
		slices.SortStableFunc(d.of, func(a, b history.Series) int {
			return cmp.Or(cmp.Compare(a.Generation, b.Generation), byPlace(a.Replica, b.Replica))
		})
	}
	slices.SortStableFunc(list, func(a, b drawing) int {
		return cmp.Or(strings.Compare(a.name, b.name), cmp.Compare(a.rank, b.rank), byPlace(a.place, b.place))
	})
	return list
}

// draw reads a curve and makes it fit.
func (s *Curves) draw(ctx context.Context, taskID string, d drawing, w wishes, most int) (Curve, error) {
	w.in.Outlines = true
	parts, thinned, err := s.gather(ctx, taskID, d, w)
	if err == nil && !outlinesDo(parts, most) {
		w.in.Outlines = false
		parts, thinned, err = s.gather(ctx, taskID, d, w)
	}
	if err != nil {
		return Curve{}, err
	}
	lo, hi := int64(math.MaxInt64), int64(math.MinInt64)
	for _, p := range parts {
		for _, b := range p.blocks {
			if w.byTime {
				lo, hi = min(lo, b.FirstTime), max(hi, b.LastTime)
			} else {
				lo, hi = min(lo, b.FirstStep), max(hi, b.LastStep)
			}
		}
	}
	lo, hi = w.narrow(lo, hi)
	picture := history.NewSampler(most, w.byTime, lo, max(lo, hi))
	for _, p := range parts {
		for _, b := range p.blocks {
			left := b.Count
			if err := history.EachPoint(b.Data, func(t, step int64, value float64) {
				if left--; p.in.Holds(t, step) {
					picture.Add(t, step, value)
				}
			}); err != nil {
				return Curve{}, fmt.Errorf("points of %s: %w", d.name, err)
			}
			picture.Pass(left) // an outline lies wholly inside
		}
	}
	out := curveOf(picture.Result())
	out.Name, out.Role, out.Total, out.Thinned = d.name, d.role, picture.Total(), thinned
	if out.Generation = d.of[len(d.of)-1].Generation; d.rank != history.OfReplica {
		out.Rank = &d.rank
	} else {
		out.Replica = d.place
	}
	return out, nil
}

// outlinesDo says that none of the parts is in outline, or that the picture needs no more.
func outlinesDo(parts []part, most int) bool {
	var total int64
	short := false
	for _, p := range parts {
		for _, b := range p.blocks {
			total, short = total+b.Count, short || b.Outlined
		}
	}
	return !short || history.OutlinesDo(total, most)
}

// narrow is the range within the span.
func (w wishes) narrow(lo, hi int64) (int64, int64) {
	from, to := w.in.FromStep, w.in.ToStep
	if w.byTime {
		from, to = w.in.FromTime, w.in.ToTime
	}
	if from != nil {
		lo = max(lo, *from)
	}
	if to != nil {
		hi = min(hi, *to)
	}
	return lo, hi
}

// part is what one generation gives to a curve.
type part struct {
	blocks []history.Block
	in     history.Span
}

// gather reads the blocks of a curve, oldest generation first. Over steps, what a later generation made again is left out of the
// earlier ones, so they are read from the newest on.
func (s *Curves) gather(ctx context.Context, taskID string, d drawing, w wishes) (parts []part, thinned int64, err error) {
	in := w.in
	for i, one := range slices.Backward(d.of) {
		p := part{in: in}
		span := in
		if i > 0 && !w.byTime {
			span.FromStep, span.Outlines = nil, in.Outlines && in.FromStep == nil // where it begins is where those before it end
		}
		begins := int64(math.MaxInt64)
		if err := s.points.Points(ctx, taskID, one, span, func(b history.Block) error {
			begins, thinned = min(begins, b.FirstStep), thinned+b.Made-b.Count
			if in.Touches(b.Extent) {
				p.blocks = append(p.blocks, b)
			}
			return nil
		}); err != nil {
			return nil, 0, err
		}
		parts = append(parts, p)
		if !w.byTime && begins < math.MaxInt64 {
			if last := begins - 1; in.ToStep == nil || last < *in.ToStep {
				in.ToStep = &last
			}
		}
	}
	slices.Reverse(parts)
	return parts, thinned, nil
}

func curveOf(list []history.Sampled) Curve {
	c := Curve{Steps: make([]int64, len(list)), Times: make([]int64, len(list)), Values: make([]*float64, len(list))}
	for i, p := range list {
		c.Steps[i], c.Times[i] = p.Step, p.Time/int64(time.Millisecond)
		switch v := p.Value; {
		case math.IsNaN(v):
			c.NotFinite = append(c.NotFinite, NotFinite{i, "NaN"})
		case math.IsInf(v, 1):
			c.NotFinite = append(c.NotFinite, NotFinite{i, "Infinity"})
		case math.IsInf(v, -1):
			c.NotFinite = append(c.NotFinite, NotFinite{i, "-Infinity"})
		default:
			c.Values[i] = &v
		}
	}
	return c
}
