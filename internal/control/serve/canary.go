package serve

import (
	"math"
	"slices"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/control/serve/demand"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// lookEvery is how often a service is looked at that lives by figures.
const lookEvery = 2 * time.Second

// canary is the new revision while it has not taken over; nil: there is none, or it was rolled back.
func (t *turn) canary() *serving.CanaryStatus {
	if c := t.plan.status.Canary; c != nil && c.Verdict == "" {
		return c
	}
	return nil
}

// main is the revision that all replicas shall have but those of a canary.
func (t *turn) main() int {
	if c := t.plan.status.Canary; c != nil {
		return c.Stable
	}
	return t.plan.status.Revision
}

// template is what replicas of a revision are made from.
func template(s *serving.InferenceService, status *serving.ServiceStatus, revision int) serving.ServiceTemplate {
	for _, r := range status.Revisions {
		if r.Number == revision {
			return r.Template
		}
	}
	return s.Spec.Template
}

// begin opens a canary with a revision that was just opened, where one is wished and there is something to compare it with.
func begin(t *turn, before int) {
	st := &t.plan.status
	traffic := t.service.Spec.Traffic
	if before == 0 || traffic == nil || traffic.Canary == nil || !slices.ContainsFunc(t.replicas, func(r *serving.ServiceReplica) bool { return r.Status.Ready && r.Spec.Revision == before }) {
		st.Canary = nil
		return
	}
	st.Canary = &serving.CanaryStatus{Revision: st.Revision, Stable: before, Since: t.now}
}

// back says that the wish is the stable revision again, which ends a canary.
func (t *turn) back(hash string) bool {
	c := t.plan.status.Canary
	if c == nil {
		return false
	}
	stable := template(t.service, &t.plan.status, c.Stable)
	if hashOf(&stable) != hash {
		return false
	}
	t.plan.status.Hash = hash
	if c.Verdict == "" {
		t.rollBack("RolledBack", fault.T("It was asked for.", "按请求回滚。"), false)
	}
	return true
}

func (t *turn) rollBack(reason string, message fault.Text, warning bool) {
	c := *t.plan.status.Canary
	c.Verdict, c.Percent = serving.RolledBack, 0
	t.plan.status.Canary = &c
	said := and(fault.T("Revision %d is rolled back, revision %d answers. ", "修订版 %d 已回滚，由修订版 %d 应答。", c.Revision, c.Stable), message)
	if reason != "RolledBack" {
		t.tell(warning, "RolledBack", said)
	}
	t.tell(warning, reason, said)
}

// and is one sentence behind the other.
func and(a, b fault.Text) fault.Text { return fault.Text{EN: a.EN + b.EN, ZH: a.ZH + b.ZH} }

// canaries is how many replicas the new revision shall have at a share of the requests.
func canaries(want, percent int) int {
	return max(1, int(math.Ceil(float64(want)*float64(percent)/100)))
}

// goal is the share of the step that a canary is at.
func goal(steps []int, c *serving.CanaryStatus) int {
	return steps[min(c.Step, len(steps)-1)]
}

// advance judges a canary: its next step, its promotion, or the way back.
func (t *turn) advance() {
	c := t.canary()
	if c == nil {
		return
	}
	traffic := t.service.Spec.Traffic
	if traffic == nil || traffic.Canary == nil || len(traffic.Canary.Steps) == 0 {
		t.promote(fault.T("It is no canary any more.", "已取消灰度设置。"))
		return
	}
	t.wakeIn(lookEvery)
	next := *c
	t.plan.status.Canary = &next
	for _, r := range t.next {
		if failed(r) {
			t.rollBack("RevisionFailed", and(fault.T("Its replicas fail. ", "其副本启动失败。"), r.Status.Message), true)
			return
		}
	}
	if share := goal(traffic.Canary.Steps, &next); next.Percent != share {
		if ready(t.next) < canaries(t.want, share) {
			return // as before, until it has the replicas for more
		}
		next.Percent, next.Since, next.Base = share, t.now, t.counted
		t.tell(false, "CanaryStep", fault.T("Revision %d gets %d %% of the requests.", "修订版 %d 承接 %d%% 的请求。", next.Revision, share))
		return
	}
	approved := traffic.Promote != nil && traffic.Promote.Revision == next.Revision && traffic.Promote.Step > next.Step
	v := demand.Judge(traffic.Canary, &next, t.counted, t.checked, approved, t.now)
	switch {
	case v.Back:
		t.rollBack(v.Reason, v.Message, true)
	case v.Next && next.Step+1 >= len(traffic.Canary.Steps):
		t.promote(v.Message)
	case v.Next:
		next.Step++
	}
}

func (t *turn) promote(message fault.Text) {
	n := t.plan.status.Canary.Revision
	t.plan.status.Canary = nil
	t.tell(false, "Promoted", and(fault.T("Revision %d takes over. ", "修订版 %d 全量接替。", n), message))
	t.cur, t.old, t.next = t.next, append(t.old, t.cur...), nil
}

// rollCanary makes what the new revision needs for its step, and releases what it has beyond that.
func (t *turn) rollCanary() {
	c := t.canary()
	if c == nil {
		return
	}
	want := canaries(t.want, goal(t.service.Spec.Traffic.Canary.Steps, c))
	for n := min(want-len(t.next), atOnce); n > 0; n-- {
		t.plan.status.Serial++
		t.plan.make = append(t.plan.make, made{t.plan.status.Serial, c.Revision, emptiest(t.zones, t.next, t.plan.make, c.Revision)})
	}
	if more := len(t.next) - want; more > 0 {
		idleFirst(t.next)
		for _, r := range t.next[:more] {
			t.release(r)
		}
	}
}

// emptiest is where the next replica of a new revision stands: where fewest do for what the zone has; "": anywhere.
func emptiest(zones []serving.ServiceZone, living []*serving.ServiceReplica, make []made, revision int) (zone string) {
	least := 0.0
	for _, z := range zones {
		n := len(in(z.Zone, living))
		for _, m := range make {
			if m.zone == z.Zone && m.revision == revision {
				n++
			}
		}
		if filled := float64(n) / float64(max(z.Replicas, 1)); zone == "" || filled < least {
			zone, least = z.Zone, filled
		}
	}
	return zone
}

// road is how gateways share requests now.
func road(t *turn) serving.Road {
	c, traffic := t.plan.status.Canary, t.service.Spec.Traffic
	if c == nil {
		return serving.Road{Zones: t.service.Spec.Zones}
	}
	r := serving.Road{Zones: t.service.Spec.Zones, Stable: c.Stable, Canary: c.Revision, Percent: c.Percent}
	if traffic != nil && c.Verdict == "" && c.Percent > 0 {
		r.Rules = traffic.Rules
		if traffic.Shadow != nil {
			r.Shadow = traffic.Shadow.Percent
		}
	}
	return r
}

// keepLog is how many changes of the number of replicas are remembered.
const keepLog = 20

// scale says how many replicas are wanted, by what is asked of them where that counts.
func (t *turn) scale() int {
	st, a := &t.plan.status, t.service.Spec.Autoscale
	if a == nil {
		st.Scale = nil
		return t.service.Spec.Replicas
	}
	t.wakeIn(lookEvery)
	if st.Scale == nil {
		n := t.service.Spec.Replicas
		for _, z := range t.service.Spec.Zones {
			if z.Role == serving.ZoneBackup {
				n -= z.Replicas // they are beside what scales
			}
		}
		n = min(max(n, a.MinReplicas), a.MaxReplicas)
		st.Scale = &serving.ScaleStatus{Wanted: n, Reason: "Begin", Message: fault.T("Autoscaling begins with %d.", "自动伸缩从 %d 个副本开始。", n), At: t.now}
		return n
	}
	s := demand.Seen{Wanted: st.Scale.Wanted, Changed: st.Scale.At, Stable: t.stable, Panic: t.panic}
	for _, r := range t.replicas {
		if r.Status.Ready && r.Spec.DrainAt == nil && !isBackup(t.service.Spec.Zones, r.Spec.Zone) {
			s.Ready++
		}
	}
	d := demand.Wanted(a, s, t.now)
	if d.Wanted == s.Wanted {
		return s.Wanted
	}
	next := serving.ScaleStatus{Wanted: d.Wanted, Reason: d.Reason, Message: d.Message, At: t.now}
	next.Log = append(slices.Clone(st.Scale.Log), serving.ScaleStep{At: t.now, From: s.Wanted, To: d.Wanted, Reason: d.Reason, Message: d.Message})
	if n := len(next.Log) - keepLog; n > 0 {
		next.Log = next.Log[n:]
	}
	st.Scale = &next
	word := "ScaledUp"
	if d.Wanted < s.Wanted {
		word = "ScaledDown"
	}
	t.tell(false, word, and(fault.T("%d replicas instead of %d (%s): ", "副本数改为 %d（原为 %d，%s）：", d.Wanted, s.Wanted, d.Reason), d.Message))
	return d.Wanted
}
