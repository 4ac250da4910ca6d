package serve

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/control/serve/demand"
	"github.com/fermi-cluster/fermi/internal/fault"
)

const (
	// drainFor is how long a replica goes on after its address was taken away: gateways hear of it meanwhile.
	drainFor = 2 * time.Second
	// tryAgain is how long a failed replica stands for others to read before another one takes its place.
	tryAgain = 30 * time.Second
	// keepRevisions is how many are remembered.
	keepRevisions = 10
	// atOnce bounds what one turn makes.
	atOnce = 20
)

// seen is everything known about a service at one moment.
type seen struct {
	service   *serving.InferenceService
	replicas  []*serving.ServiceReplica // its own, oldest first
	endpoints *serving.ServiceEndpoints // nil: none
	figures
}

// figures are what gateways counted.
type figures struct {
	stable, panic demand.Load         // of the whole window, and of its last tenth
	counted       serving.CanaryCount // of the canary
	checked       demand.Checked      // likewise
}

// made is a replica that is to be made.
type made struct {
	serial, revision int
	zone             string // the only one that it may stand in; "": any
}

// plan is what to do; all of it is one commit.
type plan struct {
	status    serving.ServiceStatus
	endpoints *serving.ServiceEndpointsSpec // nil: as they are
	make      []made
	drain     []*serving.ServiceReplica // get no more requests
	end       []*serving.ServiceReplica // are to end and go
	erase     bool                      // the service and its endpoints go
	events    []event
	wake      time.Duration
}

type event struct {
	warning bool
	reason  string
	message fault.Text
	once    string
}

// turn is the judgement on its way to a plan.
type turn struct {
	*seen
	now  time.Time
	want int
	plan plan
	// cur, next and old are the living replicas of the main revision, of a canary, and of all others.
	cur, next, old []*serving.ServiceReplica
}

// decide is the whole judgement: pure, level-triggered; running it twice changes nothing.
func decide(s *seen, now time.Time) plan {
	t := &turn{seen: s, now: now}
	t.plan.status = s.service.Status
	t.plan.status.Revisions = slices.Clone(s.service.Status.Revisions)
	t.plan.status.URL = "/inference/" + s.service.Meta.Name
	if gone := s.service.Meta.DeletedAt != nil; gone || s.service.Spec.Stop {
		t.end(gone)
	} else {
		t.revise()
		t.want = t.scale()
		t.sort()
		t.advance()
		t.sort()
		t.roll()
		t.rollCanary()
		t.judge()
	}
	t.count()
	t.publish()
	return t.plan
}

func (t *turn) to(phase api.Phase, health serving.State, reason string, message fault.Text) {
	st := &t.plan.status
	if st.Phase != phase && !serving.Phases.Allows(st.Phase, phase) {
		panic("serve: no move from " + string(st.Phase) + " to " + string(phase))
	}
	if st.Phase != phase || st.Health != health {
		t.tell(phase == api.PhaseFailed || health == serving.Degraded, reason, message)
	}
	st.Phase, st.Health, st.Reason, st.Message = phase, health, reason, message
}

func (t *turn) tell(warning bool, reason string, message fault.Text) {
	t.plan.events = append(t.plan.events, event{warning, reason, message, fmt.Sprintf("%s-%d-%d", reason, t.plan.status.Revision, t.now.Unix())})
}

func (t *turn) wakeIn(d time.Duration) {
	if d = max(d, time.Millisecond); t.plan.wake == 0 || d < t.plan.wake {
		t.plan.wake = d
	}
}

// end takes all replicas away, because the service was stopped or is to go.
func (t *turn) end(gone bool) {
	for _, r := range t.replicas {
		t.release(r)
	}
	switch {
	case len(t.replicas) == 0 && gone:
		t.plan.erase = true
	case len(t.replicas) > 0:
		t.plan.status.Reason, t.plan.status.Message = "Stopping", fault.T("Waiting for its replicas to end.", "正在等待副本结束。")
	default:
		t.plan.status.ReadyAt, t.plan.status.Canary, t.plan.status.Scale = nil, nil, nil
		if t.plan.status.Phase == "" {
			t.plan.status.Phase = serving.PhaseDeploying
		}
		t.to(api.PhaseStopped, "", "Stopped", fault.T("Stopped on request; it can be started again.", "已按要求停止，可再次启动。"))
	}
}

// release takes a replica's requests away and, a moment later, ends it. One that answers nobody ends at once.
func (t *turn) release(r *serving.ServiceReplica) {
	switch {
	case r.Meta.DeletedAt != nil:
	case !r.Status.Ready:
		t.plan.end = append(t.plan.end, r)
	case r.Spec.DrainAt == nil:
		t.plan.drain = append(t.plan.drain, r)
		t.wakeIn(drainFor)
	case t.now.Sub(*r.Spec.DrainAt) >= drainFor:
		t.plan.end = append(t.plan.end, r)
	default:
		t.wakeIn(drainFor - t.now.Sub(*r.Spec.DrainAt))
	}
}

// hashOf names what replicas are made from.
func hashOf(t *serving.ServiceTemplate) string {
	data, _ := json.Marshal(t) // of plain data: it can't fail
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// revise opens a revision where what replicas are made from has changed.
func (t *turn) revise() {
	st, spec := &t.plan.status, &t.service.Spec
	if st.Phase == "" || st.Phase == api.PhaseStopped {
		t.to(serving.PhaseDeploying, "", "Deploying", fault.T("Its replicas are being started.", "正在启动副本。"))
	}
	now := hashOf(&spec.Template)
	if now == st.Hash || t.back(now) {
		return
	}
	before := t.main()
	st.Hash = now
	st.Revision++
	st.Revisions = append(st.Revisions, serving.ServiceRevision{Number: st.Revision, CreatedAt: t.now, Template: spec.Template})
	st.Revisions = trim(st.Revisions, before)
	begin(t, before)
	if st.Phase == api.PhaseFailed {
		t.to(serving.PhaseDeploying, "", "Deploying", fault.T("Its replicas are being started.", "正在启动副本。"))
	}
	if st.Revision > 1 {
		t.tell(false, "RevisionOpened", fault.T("Revision %d takes over.", "修订版 %d 开始接替。", st.Revision))
	}
}

// trim keeps the newest revisions, and the one that answers.
func trim(list []serving.ServiceRevision, main int) []serving.ServiceRevision {
	n := len(list) - keepRevisions
	return slices.DeleteFunc(list, func(r serving.ServiceRevision) bool {
		n--
		return n >= 0 && r.Number != main
	})
}

// failed says that nobody starts it any more.
func failed(r *serving.ServiceReplica) bool { return r.Status.Phase.Finished() }

// sort tells the main revision from a canary and from all others. A replica that goes counts no more.
func (t *turn) sort() {
	t.cur, t.next, t.old = nil, nil, nil
	canary := t.canary()
	for _, r := range t.replicas {
		switch {
		case r.Meta.DeletedAt != nil:
		case r.Spec.DrainAt != nil:
		case r.Spec.Revision == t.main():
			t.cur = append(t.cur, r)
		case canary != nil && r.Spec.Revision == canary.Revision:
			t.next = append(t.next, r)
		default:
			t.old = append(t.old, r)
		}
	}
}

func ready(list []*serving.ServiceReplica) (n int) {
	for _, r := range list {
		if r.Status.Ready {
			n++
		}
	}
	return n
}

// surge is how many more replicas than are wanted an update may have at a time.
func surge(want int) int { return max(1, want/4) }

// share is how many of the main revision's replicas stand in a zone; "": anywhere.
type share struct {
	zone string
	want int
}

// shares are those of all zones that have, or had, replicas.
func shares(zones []serving.ServiceZone, want int, living []*serving.ServiceReplica) []share {
	out := []share{{"", want}}
	if len(zones) > 0 && want > 0 {
		out = out[:0]
		for _, z := range zones {
			out = append(out, share{z.Zone, z.Replicas})
		}
	}
	for _, r := range living {
		if !slices.ContainsFunc(out, func(s share) bool { return s.zone == r.Spec.Zone }) {
			out = append(out, share{r.Spec.Zone, 0})
		}
	}
	return out
}

// in are those of a list that stand in a zone.
func in(zone string, list []*serving.ServiceReplica) (out []*serving.ServiceReplica) {
	for _, r := range list {
		if r.Spec.Zone == zone {
			out = append(out, r)
		}
	}
	return out
}

// roll makes what is missing and releases what is not wanted any more: never one that answers before as many others do as
// are wanted.
func (t *turn) roll() {
	for _, r := range t.replicas {
		if r.Meta.DeletedAt == nil && r.Spec.DrainAt != nil {
			t.release(r)
		}
	}
	t.retry()
	spare := ready(t.cur) + ready(t.old) - t.want // answer, and could go
	for _, s := range shares(t.service.Spec.Zones, t.want, slices.Concat(t.cur, t.old)) {
		s.roll(t, &spare)
	}
}

// roll is the turn's roll in one zone.
func (s share) roll(t *turn, spare *int) {
	cur, old := in(s.zone, t.cur), in(s.zone, t.old)
	for n := min(s.want-len(cur), s.want+surge(s.want)-len(cur)-len(old), atOnce); n > 0; n-- {
		t.plan.status.Serial++
		t.plan.make = append(t.plan.make, made{t.plan.status.Serial, t.main(), s.zone})
	}
	leave := func(r *serving.ServiceReplica) {
		if r.Status.Ready {
			if *spare <= 0 {
				return
			}
			*spare--
		}
		t.release(r)
	}
	// Of those before the newest revision first who does not answer: its place is another's. While the newest one fails,
	// it may come back.
	idleFirst(old)
	fails := slices.ContainsFunc(cur, failed)
	for _, r := range old {
		if r.Status.Ready || failed(r) || !fails {
			leave(r)
		}
	}
	if more := len(cur) - s.want; more > 0 { // fewer are wanted: the youngest go
		idleFirst(cur)
		for _, r := range cur[:more] {
			leave(r)
		}
	}
}

// idleFirst puts who does not answer first, then the youngest.
func idleFirst(list []*serving.ServiceReplica) {
	slices.SortStableFunc(list, func(a, b *serving.ServiceReplica) int {
		if a.Status.Ready != b.Status.Ready {
			if a.Status.Ready {
				return 1
			}
			return -1
		}
		return cmp.Compare(b.Meta.ID, a.Meta.ID)
	})
}

// retry ends failed replicas of the newest revision once they have stood for a while; others take their place.
func (t *turn) retry() {
	for _, r := range t.cur {
		if !failed(r) {
			continue
		}
		if at := r.Status.FinishedAt; at == nil || t.now.Sub(*at) >= tryAgain {
			t.plan.end = append(t.plan.end, r)
		} else {
			t.wakeIn(tryAgain - t.now.Sub(*at))
		}
	}
}

// judge says how the service stands.
func (t *turn) judge() {
	answer, updated := ready(t.cur)+ready(t.old)+ready(t.next), ready(t.cur)
	var bad *serving.ServiceReplica
	hopeless := len(t.cur) > 0
	for _, r := range t.cur {
		if failed(r) {
			bad = r
		} else {
			hopeless = false
		}
	}
	st := &t.plan.status
	switch c := t.plan.status.Canary; {
	case t.want == 0 && answer == 0 && len(t.cur) == 0:
		t.to(api.PhaseRunning, serving.Healthy, "Idle", fault.T("Nobody asks: no replica runs. The first request starts one.", "没有请求，暂无副本运行；首个请求会启动副本。"))
	case answer == 0 && hopeless:
		t.to(api.PhaseFailed, "", cmp.Or(bad.Status.Reason, "ReplicasFailed"),
			fault.Text{EN: "No replica answers. " + bad.Status.Message.EN, ZH: "没有副本应答。" + bad.Status.Message.ZH})
	case answer == 0 && st.Phase == api.PhaseRunning:
		t.to(api.PhaseRunning, serving.Degraded, "NoReplica", fault.T("No replica answers now.", "当前没有副本应答。"))
	case answer == 0 && st.Phase == api.PhaseFailed: // until one answers
	case answer == 0:
		t.to(serving.PhaseDeploying, "", "Deploying", t.waits())
	case answer < t.want:
		t.answered()
		t.to(api.PhaseRunning, serving.Degraded, "FewReplicas", fault.T("%d of %d replicas answer.", "%d/%d 个副本应答。", answer, t.want))
	case updated < t.want && bad != nil:
		t.answered()
		t.to(api.PhaseRunning, serving.Healthy, "RevisionFailed", fault.T("Revision %d does not start; the one before it goes on answering.", "修订版 %d 启动失败，旧修订版继续应答。", st.Revision))
	case updated < t.want:
		t.answered()
		t.to(api.PhaseRunning, serving.Healthy, "Updating", fault.T("Revision %d: %d of %d replicas answer.", "修订版 %d：%d/%d 个副本应答。", st.Revision, updated, t.want))
	case c != nil && c.Verdict == "":
		t.answered()
		t.to(api.PhaseRunning, serving.Healthy, "Canary", fault.T("Revision %d gets %d %% of the requests, revision %d the rest.", "修订版 %d 承接 %d%% 的请求，其余由修订版 %d 承接。", c.Revision, c.Percent, c.Stable))
	case c != nil:
		t.answered()
		t.to(api.PhaseRunning, serving.Healthy, "RolledBack", fault.T("Revision %d was rolled back; revision %d answers.", "修订版 %d 已回滚，由修订版 %d 应答。", c.Revision, c.Stable))
	default:
		t.answered()
		t.to(api.PhaseRunning, serving.Healthy, "Ready", fault.T("All replicas answer.", "全部副本应答。"))
	}
}

// waits says what the first replica waits for.
func (t *turn) waits() fault.Text {
	for _, r := range t.cur {
		switch {
		case r.Status.Phase == api.PhasePending && !r.Status.Message.IsZero():
			return r.Status.Message
		case r.Status.Why != "":
			return fault.T("Its replicas run and do not answer yet: %s", "副本已运行但尚未应答：%s", r.Status.Why)
		}
	}
	return fault.T("Its replicas are being started.", "正在启动副本。")
}

func (t *turn) answered() {
	if t.plan.status.ReadyAt == nil {
		t.plan.status.ReadyAt = &t.now
	}
}

func (t *turn) count() {
	all := append(append(slices.Clone(t.cur), t.old...), t.next...)
	updated := t.cur
	if t.canary() != nil {
		updated = t.next
	}
	t.plan.status.Replicas = serving.ServiceCount{Wanted: t.want, Ready: ready(all), Updated: ready(updated), Total: len(t.replicas)}
}

// publish says where the service answers, if that is not said already.
func (t *turn) publish() {
	if t.plan.erase {
		return
	}
	spec := &t.service.Spec
	next := serving.ServiceEndpointsSpec{
		ServiceID: t.service.Meta.ID, Project: t.service.Meta.Project, Contract: spec.Contract, Timeout: spec.Timeout,
		Adapters: serving.AdapterNames(template(t.service, &t.plan.status, t.main()).Adapters), Road: road(t), MaxConcurrency: spec.MaxConcurrency, MaxQueue: spec.MaxQueue, Gateway: spec.Gateway, Slow: spec.SLO.Slow(), Stopped: spec.Stop || t.service.Meta.DeletedAt != nil,
	}
	if e := template(t.service, &t.plan.status, t.main()).Engine; spec.Gateway != nil && spec.Gateway.Affinity == serving.AffinityPrefix && serving.GaugesOf(e) != nil {
		next.Engine = e
	}
	nobody := !slices.ContainsFunc(t.replicas, func(r *serving.ServiceReplica) bool { return r.Status.Ready })
	for _, r := range t.replicas {
		silent := nobody && r.Status.Address != "" // it answered when it was last heard of, and there is nobody else
		if !r.Status.Ready && !silent || r.Spec.DrainAt != nil || r.Meta.DeletedAt != nil || slices.Contains(t.plan.drain, r) || slices.Contains(t.plan.end, r) {
			continue
		}
		next.Replicas = append(next.Replicas, serving.ServiceEndpoint{Replica: r.Meta.Name, Address: r.Status.Address, Revision: r.Spec.Revision, Zone: r.Spec.Zone, Via: r.Status.Via})
	}
	slices.SortFunc(next.Replicas, func(a, b serving.ServiceEndpoint) int { return cmp.Compare(a.Replica, b.Replica) })
	if t.endpoints == nil || !reflect.DeepEqual(t.endpoints.Spec, next) {
		t.plan.endpoints = &next
	}
}

// replicaName is the name of a service's replica.
func replicaName(service string, serial int) string { return service + "-" + strconv.Itoa(serial) }
