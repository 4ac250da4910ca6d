package serving

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// What a canary and autoscaling get when nobody says.
const (
	defaultStep        = api.Duration(time.Minute)
	defaultMinRequests = 20
	defaultMaxErrors   = 1
	defaultWindow      = api.Duration(time.Minute)
	defaultDown        = api.Duration(time.Minute)
	defaultTarget      = 8
	minWindow          = api.Duration(2 * time.Second)
	maxWindow          = api.Duration(10 * time.Minute) // so long is remembered
)

func (a *ServiceAutoscale) fill() {
	if a == nil {
		return
	}
	if len(a.Metrics) == 0 {
		a.Metrics = []ScaleMetric{{MetricConcurrency, defaultTarget}}
	}
	if a.Policy.Window == 0 {
		a.Policy.Window = defaultWindow
	}
	if a.Policy.Down == 0 {
		a.Policy.Down = defaultDown
	}
}

func (t *ServiceTraffic) fill() {
	if t == nil || t.Canary == nil {
		return
	}
	c := t.Canary
	if len(c.Steps) == 0 {
		c.Steps = []int{5, 50, 100}
	}
	if c.Every == 0 {
		c.Every = defaultStep
	}
	if c.MinRequests == 0 {
		c.MinRequests = defaultMinRequests
	}
	if c.MaxErrors == 0 {
		c.MaxErrors = defaultMaxErrors
	}
}

func (f *faults) autoscale(at string, a *ServiceAutoscale, t *ServiceTemplate) {
	if a == nil {
		return
	}
	f.between(at, a.MinReplicas, a.MaxReplicas)
	for _, m := range a.Metrics {
		if !slices.Contains(MetricTypes, m.Type) {
			f.add(at+".metrics", "One of concurrency, qps, queue, tokens, latency, cpu, device.", "必须是 concurrency、qps、queue、tokens、latency、cpu、device 之一。")
		}
		if !(m.Target > 0 && m.Target <= 1e9) {
			f.add(at+".metrics", "The target of %s must be above 0.", "%s 的目标值必须大于 0。", m.Type)
		}
		if (m.Type == MetricCPU || m.Type == MetricDevice) && m.Target > 100 {
			f.add(at+".metrics", "The target of %s is a percentage: at most 100.", "%s 的目标值是百分比，最大 100。", m.Type)
		}
		if m.Type == MetricDevice && !t.hasDevices() {
			f.add(at+".metrics", "Its replicas have no accelerators of which a use could be measured.", "副本没有加速卡，无法按加速卡使用率伸缩。")
		}
	}
	f.span(at+".policy.window", a.Policy.Window, minWindow, maxWindow)
	f.span(at+".policy.up", a.Policy.Up, 0, maxSpan)
	f.span(at+".policy.down", a.Policy.Down, api.Duration(time.Second), maxSpan)
	for _, w := range a.Schedule {
		f.between(at+".schedule", w.MinReplicas, w.MaxReplicas)
		for _, text := range []string{w.From, w.To} {
			if _, err := time.Parse("15:04", text); err != nil {
				f.add(at+".schedule", "%q is no time of the day, such as 08:00.", "%q 不是合法的时间，例如 08:00。", text)
			}
		}
		if _, err := time.LoadLocation(w.TimeZone); err != nil {
			f.add(at+".schedule", "%q is no time zone, such as Asia/Shanghai.", "%q 不是合法的时区，例如 Asia/Shanghai。", w.TimeZone)
		}
		for _, d := range w.Days {
			f.count(at+".schedule.days", d, 1, 7)
		}
	}
}

// hasDevices says that a replica has accelerators.
func (t *ServiceTemplate) hasDevices() bool {
	return slices.ContainsFunc(t.roles("", 1), func(r api.Role) bool { return r.Resources.Accelerators.Count > 0 })
}

func (f *faults) between(at string, low, high int) {
	f.count(at+".maxReplicas", high, 1, MaxReplicas)
	f.count(at+".minReplicas", low, 0, MaxReplicas)
	if low > high {
		f.add(at+".minReplicas", "minReplicas is above maxReplicas.", "minReplicas 大于 maxReplicas。")
	}
}

func (f *faults) traffic(at string, t *ServiceTraffic) {
	if t == nil {
		return
	}
	if c := t.Canary; c != nil {
		last := 0
		for _, p := range c.Steps {
			if p <= last || p > 100 {
				f.add(at+".canary.steps", "The steps must grow, from 1 to 100.", "各步骤百分比应递增，范围 1 到 100。")
				break
			}
			last = p
		}
		f.span(at+".canary.every", c.Every, api.Duration(time.Second), maxSpan)
		f.count(at+".canary.minRequests", c.MinRequests, 0, 1_000_000)
		f.span(at+".canary.maxLatency", c.MaxLatency, 0, maxSpan)
		if !(c.MaxErrors >= 0 && c.MaxErrors <= 100) {
			f.add(at+".canary.maxErrors", "It is a percentage.", "应为百分比。")
		}
		if u, err := url.ParseRequestURI(c.Check); c.Check != "" && (err != nil || u.Host != "" || !strings.HasPrefix(c.Check, "/") || strings.HasPrefix(c.Check, "//")) {
			f.add(at+".canary.check", "It is not a path, such as /check.", "不是合法的路径，例如 /check。")
		}
	}
	if t.Canary == nil && (len(t.Rules) > 0 || t.Shadow != nil) {
		f.add(at+".canary", "Rules and a shadow need a new revision to send requests to: say spec.traffic.canary.", "rules 和 shadow 需要与新修订版配合：请设置 spec.traffic.canary。")
	}
	for _, r := range t.Rules {
		if r.Header == "" && r.Cookie == "" && r.User == "" && r.Percent == 0 {
			f.add(at+".rules", "A rule names a header, a cookie, a user or a percentage.", "规则应指定 header、cookie、user 或 percent 之一。")
		}
		if r.To != TrackCanary && r.To != TrackStable {
			f.add(at+".rules.to", "canary or stable.", "必须是 canary 或 stable。")
		}
		if r.Header != "" && http.CanonicalHeaderKey(r.Header) == "Authorization" {
			f.add(at+".rules.header", "Secrets choose no revision.", "不能用密钥类请求头选择修订版。")
		}
		f.count(at+".rules.percent", r.Percent, 0, 100)
	}
	if s := t.Shadow; s != nil {
		f.count(at+".shadow.percent", s.Percent, 1, 100)
	}
}
