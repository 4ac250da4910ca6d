package sim

import (
	"encoding/csv"
	"fmt"
	"html/template"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/control/serve"
	"github.com/fermi-cluster/fermi/internal/id"
)

// Services is the scenario of requests: a day of one inference service, whose replicas the controller's own judgement starts and ends.
const Services = "services"

// What the day is like. Time goes in seconds.
const (
	seconds  = 24 * 3600
	atOnce   = 10  // requests that a replica works on at a time
	target   = 9.2 // of them, as the service says: the rest is for chance
	startsIn = 30  // seconds from the wish until a replica answers
	goal     = 5   // seconds in which a request is to begin
	goalOf   = .99 // of the requests
	meanTime = 4.  // seconds that a request takes
	turnOf   = 2   // seconds between two decisions of the other rules
	bin      = 180 // seconds of one point of a curve
)

// requests is what is asked in a day, by the second, and how long each takes.
type requests struct {
	at    []int   // of each second: the first of its requests; one more at the end
	takes []uint8 // seconds
	// offered is how many would be worked on at each second if none had to wait.
	offered []float64
}

func (q *requests) offer() []float64 {
	n := make([]float64, seconds+256)
	for s := range seconds {
		for _, d := range q.takes[q.at[s]:q.at[s+1]] {
			for k := range int(d) {
				n[s+k]++
			}
		}
	}
	return n[:seconds]
}

// dayOf makes a day from a seed: a tide with a pause at noon, six bursts that grow within a minute, and from one to five at night a
// request now and then.
func dayOf(rnd *rand.Rand) *requests {
	rate := make([]float64, seconds) // at once
	for s := range rate {
		hour := float64(s) / 3600
		rate[s] = 12 + 180*math.Pow(math.Sin(math.Pi*hour/24), 2) - 45*math.Exp(-math.Pow((hour-12.5)/0.4, 2))
	}
	for i := range 6 {
		from, size := (6+3*i)*3600+rnd.IntN(2*3600), 60+40*rnd.Float64()
		for s := range 600 {
			rate[from+s] += size * min(1, float64(s)/60, float64(600-s)/60)
		}
	}
	for s := 1 * 3600; s < 5*3600; s++ { // it wakes within half an hour
		rate[s] = max(meanTime/1800, rate[s]*(1-float64(5*3600-s)/1800))
	}
	q := &requests{at: make([]int, 0, seconds+1)}
	for _, n := range rate {
		q.at = append(q.at, len(q.takes))
		for left := rnd.ExpFloat64(); left < n/meanTime; left += rnd.ExpFloat64() {
			q.takes = append(q.takes, uint8(min(1+rnd.ExpFloat64()*(meanTime-.5), 60)))
		}
	}
	q.at = append(q.at, len(q.takes))
	q.offered = q.offer()
	return q
}

// moment is what gateways see in a second.
type moment struct {
	busy, waiting int
	begun         [serving.LoadBuckets]int64 // so far, by how long they waited
	asked         int64                      // likewise
}

// fleet is a rule with the replicas that it made.
type fleet interface {
	// next hears of a second and decides; ready replicas answer from then on, and held ones cost.
	next(second int, m *moment) (ready, held int)
}

// Day is what became of a day with one rule.
type Day struct {
	Name                string
	Requests, Late      int // late ones began after the goal
	Wait                [3]int
	Hours               float64 // of replicas
	Most                int
	Turns               [24]int   // changes of direction, by hour
	FromZero            int       // starts of the first replica
	Replicas, Asked, In []float64 // means of bins: replicas, requests at once if none waited, requests that wait
}

// play has a rule meet the day.
func (q *requests) play(name string, f fleet) *Day {
	d := &Day{Name: name, Requests: len(q.takes), Replicas: make([]float64, seconds/bin), Asked: make([]float64, seconds/bin), In: make([]float64, seconds/bin)}
	ends, waits := make([]int, seconds+512), make([]int, seconds+1)
	m, first, second, direction, before := &moment{}, 0, 0, 0, 0 // requests from first on wait; second is when that one came
	ready, held := f.next(0, m)
	for s := range seconds {
		m.busy -= ends[s]
		for first < q.at[s+1] && m.busy < ready*atOnce {
			for q.at[second+1] <= first {
				second++
			}
			wait := s - second
			waits[wait]++
			if wait > goal {
				d.Late++
			}
			m.begun[bucketOf(wait)]++
			m.asked++
			m.busy++
			ends[s+int(q.takes[first])]++
			first++
		}
		m.waiting = q.at[s+1] - first
		before = held
		ready, held = f.next(s+1, m)
		if way := compare(held, before); way != 0 {
			if way == -direction {
				d.Turns[s/3600]++
			}
			direction = way
		}
		if before == 0 && held > 0 {
			d.FromZero++
		}
		d.Hours += float64(held) / 3600
		d.Most = max(d.Most, held)
		d.Replicas[s/bin] += float64(held) / bin
		d.Asked[s/bin] += q.offered[s] / bin
		d.In[s/bin] += float64(m.waiting) / bin
	}
	d.Late += len(q.takes) - first // never began
	d.Wait = quantiles(waits)
	return d
}

func compare(a, b int) int { return max(-1, min(1, a-b)) }

// quantiles are the half, 99 of 100, and the longest, of counts by second.
func quantiles(waits []int) (out [3]int) {
	n, sum := 0, 0
	for _, k := range waits {
		n += k
	}
	for w, k := range waits {
		for i, share := range []float64{.5, .99, 1} {
			if sum < int(math.Ceil(share*float64(n))) {
				out[i] = w
			}
		}
		sum += k
	}
	return out
}

func bucketOf(wait int) int {
	i := 0
	for i < serving.LoadBuckets-1 && serving.LoadBound(i) < time.Duration(wait)*time.Second+time.Millisecond {
		i++
	}
	return i
}

// ours is the controller's own judgement.
type ours struct {
	r     *serve.Rehearsal
	awake int // the second of its next turn
	came  map[string]int
}

func newOurs(seed uint64) *ours {
	o := &ours{came: map[string]int{}}
	wish := &serving.InferenceService{Meta: api.Meta{ID: "svc-1", Name: "day", Project: "sim"}, Spec: serving.ServiceSpec{
		MaxConcurrency: atOnce, Template: serving.ServiceTemplate{Engine: serving.EngineSample},
		Autoscale: &serving.ServiceAutoscale{MaxReplicas: 100, Metrics: []serving.ScaleMetric{{Type: serving.MetricConcurrency, Target: target}}},
	}}
	wish.Default()
	now := func() time.Time { return scenarioBegin }
	o.r = serve.Rehearse(wish, id.NewSource(now, rand.NewChaCha8([32]byte{byte(seed)})))
	return o
}

func (o *ours) next(second int, m *moment) (ready, held int) {
	now := scenarioBegin.Add(time.Duration(second) * time.Second)
	report := &serving.LoadReport{Gateway: "g", Services: []serving.ServiceLoad{{
		ServiceID: "svc-1", Busy: m.busy, Waiting: m.waiting, Revisions: []serving.RevisionLoad{{Revision: 1, Requests: m.asked, Begun: slices.Clone(m.begun[:])}},
	}}}
	if o.r.Heard(report, now) {
		o.awake = second
	}
	for i, r := range o.r.Replicas() {
		from, known := o.came[r.Meta.ID]
		if !known {
			o.came[r.Meta.ID], from = second-1, second-1
		}
		if !r.Status.Ready && second-from >= startsIn {
			o.r.Answers(r, fmt.Sprintf("10.0.%d.%d:80", i/250, i%250))
			o.awake = second
		}
	}
	if second >= o.awake {
		o.awake = math.MaxInt
		if wake := o.r.Turn(now); wake > 0 {
			o.awake = second + max(1, int(math.Ceil(wake.Seconds())))
		}
	}
	for _, r := range o.r.Replicas() {
		if r.Status.Ready && r.Spec.DrainAt == nil {
			ready++
		}
	}
	return ready, len(o.r.Replicas())
}

// rule is another way to scale: how many replicas there should be, from what was asked in the last minute, oldest first.
type rule struct {
	wanted func(second, ready, held int, minute []float64) int
	ups    []int // when each replica answers
	minute []float64
}

func (r *rule) next(second int, m *moment) (ready, held int) {
	if r.minute = append(r.minute, float64(m.busy+m.waiting)); len(r.minute) > 60 {
		r.minute = r.minute[1:]
	}
	up := func() (n int) {
		for _, at := range r.ups {
			if at <= second {
				n++
			}
		}
		return n
	}
	if second%turnOf == 0 {
		want := r.wanted(second, up(), len(r.ups), r.minute)
		for len(r.ups) < want {
			r.ups = append(r.ups, second+startsIn)
		}
		r.ups = r.ups[:want]
	}
	return up(), len(r.ups)
}

// naive wants what is needed now.
func naive() fleet {
	return &rule{wanted: func(_, _, _ int, minute []float64) int {
		return int(math.Ceil(minute[len(minute)-1] / target))
	}}
}

// knative is the rule of Knative's autoscaler with its defaults: means of 60 and 6 seconds, 70 of 100 in use, a panic at twice what
// is ready that lasts a minute and takes nothing away, at most half taken away at a time, none after a minute and 30 s without a request.
func knative() fleet {
	const use = 0.7 * atOnce
	mean := func(list []float64) float64 {
		sum := 0.0
		for _, x := range list {
			sum += x
		}
		return sum / float64(max(len(list), 1))
	}
	panics, idle := -1, 0
	return &rule{wanted: func(second, ready, held int, minute []float64) int {
		stable, short := mean(minute), mean(minute[max(0, len(minute)-6):])
		if minute[len(minute)-1] > 0 {
			idle = second
		}
		if short/use >= 2*float64(max(ready, 1)) {
			panics = second
		}
		want := max(int(math.Ceil(stable/use)), (ready+1)/2)
		if panics >= 0 && second-panics < 60 {
			want = max(int(math.Ceil(short/use)), held)
		}
		if stable == 0 && second-idle < 90 {
			want = max(want, min(held, 1))
		} else if stable == 0 {
			want = 0
		}
		return want
	}}
}

// oracle knows the day: at every second as many replicas answer as are needed, and each is begun as long before as it takes.
type oracle struct{ hold []int }

// knowing holds what a mean over the goal's seconds needs, of which use is a share: 1 means that nobody waits.
func knowing(offered []float64, use float64) *oracle {
	need := make([]int, len(offered))
	for s := range need {
		sum, from := 0.0, max(0, s-goal+1)
		for _, n := range offered[from : s+1] {
			sum += n
		}
		need[s] = int(math.Ceil(sum / float64(s+1-from) / (atOnce * use)))
	}
	o := &oracle{hold: make([]int, len(need)+1)}
	for s := range need {
		o.hold[s] = slices.Max(need[s:min(s+startsIn+1, len(need))])
	}
	return o
}

func (o *oracle) next(second int, _ *moment) (ready, held int) {
	return slices.Min(o.hold[max(0, second-startsIn) : second+1]), o.hold[second]
}

// PlayServices plays the day of a seed with our judgement, with two other rules, and with an oracle: the fewest replicas with which
// as many requests begin in time as the goal says, the future known and with the same time to start.
func PlayServices(seed uint64) []*Day {
	q := dayOf(rand.New(rand.NewPCG(seed, 7)))
	var best *Day
	for use := 1.04; ; use += .01 {
		d := q.play("oracle", knowing(q.offered, use))
		if best != nil && d.inTime() < goalOf {
			break
		}
		best = d
	}
	return []*Day{q.play("Fermi", newOurs(seed)), q.play("no windows", naive()), q.play("Knative's rule", knative()), best}
}

// inTime is the share of requests that began within the goal.
func (d *Day) inTime() float64 { return 1 - float64(d.Late)/float64(max(d.Requests, 1)) }

// most is the most changes of direction in an hour.
func (d *Day) most() int { return slices.Max(d.Turns[:]) }

// ServicesTable is the days side by side.
func ServicesTable(lang string, seed uint64, days []*Day) (heads []string, rows [][]string) {
	t := func(en, zh string, args ...any) string { return said(lang, en, zh, args...) }
	heads = []string{t("scenario %s, seed %d", "场景 %s，种子 %d", Services, seed)}
	names := map[string]string{"no windows": t("no windows", "无窗口"), "Knative's rule": t("Knative's rule", "Knative 规则"), "oracle": t("oracle", "先知")}
	rows = [][]string{
		{t("requests", "请求数")},
		{t("began within %d s", "%d 秒内开始处理", goal)},
		{t("wait, s: p50 / p99 / longest", "等待（秒）：p50 / p99 / 最长")},
		{t("replica-hours", "副本时")},
		{t("of the oracle's", "相对先知")},
		{t("most replicas at once", "最多副本数")},
		{t("changes of direction an hour: mean / most", "每小时伸缩方向变化：平均 / 最多")},
		{t("starts from zero", "从零启动次数")},
	}
	for _, d := range days {
		name := d.Name
		if n := names[name]; n != "" {
			name = n
		}
		heads = append(heads, name)
		turns := 0
		for _, n := range d.Turns {
			turns += n
		}
		for i, text := range []string{
			strconv.Itoa(d.Requests), fmt.Sprintf("%.2f %%", 100*d.inTime()), fmt.Sprintf("%d / %d / %d", d.Wait[0], d.Wait[1], d.Wait[2]),
			fmt.Sprintf("%.1f", d.Hours), fmt.Sprintf("%.3f", d.Hours/days[len(days)-1].Hours), strconv.Itoa(d.Most),
			fmt.Sprintf("%.1f / %d", float64(turns)/24, d.most()), strconv.Itoa(d.FromZero),
		} {
			rows[i] = append(rows[i], text)
		}
	}
	return heads, rows
}

// WriteServicesHTML writes one self-contained page.
func WriteServicesHTML(w io.Writer, lang string, seed uint64, days []*Day) error {
	names, rows := ServicesTable(lang, seed, days)
	heads := []head{{names[0], ""}}
	var replicas, wait []line
	x := make([]float64, seconds/bin)
	for i := range x {
		x[i] = float64(i) * bin / 3600
	}
	for i, d := range days {
		heads = append(heads, head{names[i+1], colours[i]})
		replicas, wait = append(replicas, line{names[i+1], colours[i], x, d.Replicas}), append(wait, line{names[i+1], colours[i], x, d.In})
	}
	hours := said(lang, "hours", "小时")
	return page().Execute(w, map[string]any{
		"Lang": lang, "Title": Services, "Heads": heads, "Table": rows, "Plots": []template.HTML{
			plot(said(lang, "Requests at once", "并发请求数"), hours, said(lang, "requests", "请求"), false, line{said(lang, "asked", "请求量"), "#868e96", x, days[0].Asked}),
			plot(said(lang, "Replicas", "副本数"), hours, said(lang, "replicas", "副本"), false, replicas...),
			plot(said(lang, "Requests that wait", "等待中的请求"), hours, said(lang, "requests", "请求"), false, wait...),
		},
	})
}

// WriteServicesCSV writes the curves: means over three minutes.
func WriteServicesCSV(w io.Writer, days []*Day) error {
	out := csv.NewWriter(w)
	number := func(x float64) string { return strconv.FormatFloat(x, 'f', 3, 64) }
	if err := out.Write([]string{"variant", "minute", "replicas", "requests", "waiting"}); err != nil {
		return err
	}
	for _, d := range days {
		for i := range d.Replicas {
			if err := out.Write([]string{d.Name, strconv.Itoa(i * bin / 60), number(d.Replicas[i]), number(d.Asked[i]), number(d.In[i])}); err != nil {
				return err
			}
		}
	}
	out.Flush()
	return out.Error()
}
