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
}

// plan is what to do; all of it is one commit.
type plan struct {
	status    serving.ServiceStatus
	endpoints *serving.ServiceEndpointsSpec // nil: as they are
	make      []int                         // serial numbers of new replicas, of the newest revision
	drain     []*serving.ServiceReplica     // get no more requests
	end       []*serving.ServiceReplica     // are to end and go
	erase     bool                          // the service and its endpoints go
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
	// cur and old are the living replicas of the newest revision and of those before it.
	cur, old []*serving.ServiceReplica
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
		t.want = s.service.Spec.Replicas
		t.sort()
		t.roll()
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
		t.plan.status.ReadyAt = nil
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

// hash names what replicas are made from.
func hash(t *serving.ServiceTemplate) string {
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
	now := hash(&spec.Template)
	if now == st.Hash {
		return
	}
	st.Hash = now
	st.Revision++
	st.Revisions = append(st.Revisions, serving.ServiceRevision{Number: st.Revision, CreatedAt: t.now, Template: spec.Template})
	if n := len(st.Revisions) - keepRevisions; n > 0 {
		st.Revisions = slices.Delete(st.Revisions, 0, n)
	}
	if st.Phase == api.PhaseFailed {
		t.to(serving.PhaseDeploying, "", "Deploying", fault.T("Its replicas are being started.", "正在启动副本。"))
	}
	if st.Revision > 1 {
		t.tell(false, "RevisionOpened", fault.T("Revision %d takes over.", "修订版 %d 开始接替。", st.Revision))
	}
}

// failed says that nobody starts it any more.
func failed(r *serving.ServiceReplica) bool { return r.Status.Phase.Finished() }

// sort tells the newest revision from those before it. A replica that goes counts no more.
func (t *turn) sort() {
	for _, r := range t.replicas {
		switch {
		case r.Meta.DeletedAt != nil:
		case r.Spec.DrainAt != nil:
			t.release(r)
		case r.Spec.Revision == t.plan.status.Revision:
			t.cur = append(t.cur, r)
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

// roll makes what is missing and releases what is not wanted any more: never one that answers before as many others do as
// are wanted.
func (t *turn) roll() {
	t.retry()
	for n := min(t.want-len(t.cur), t.want+surge(t.want)-len(t.cur)-len(t.old), atOnce); n > 0; n-- {
		t.plan.status.Serial++
		t.plan.make = append(t.plan.make, t.plan.status.Serial)
	}
	spare := ready(t.cur) + ready(t.old) - t.want // answer, and could go
	leave := func(r *serving.ServiceReplica) bool {
		if r.Status.Ready {
			if spare <= 0 {
				return false
			}
			spare--
		}
		t.release(r)
		return true
	}
	// Of those before the newest revision first who does not answer: its place is another's. While the newest one fails,
	// it may come back.
	idleFirst(t.old)
	fails := slices.ContainsFunc(t.cur, failed)
	for _, r := range t.old {
		if r.Status.Ready || failed(r) || !fails {
			leave(r)
		}
	}
	if more := len(t.cur) - t.want; more > 0 { // fewer are wanted: the youngest go
		idleFirst(t.cur)
		for _, r := range t.cur[:more] {
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
	answer, updated := ready(t.cur)+ready(t.old), ready(t.cur)
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
	switch {
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
	all := append(slices.Clone(t.cur), t.old...)
	t.plan.status.Replicas = serving.ServiceCount{Wanted: t.want, Ready: ready(all), Updated: ready(t.cur), Total: len(t.replicas)}
}

// publish says where the service answers, if that is not said already.
func (t *turn) publish() {
	if t.plan.erase {
		return
	}
	spec := &t.service.Spec
	next := serving.ServiceEndpointsSpec{
		ServiceID: t.service.Meta.ID, Project: t.service.Meta.Project, Protocol: spec.Protocol, Timeout: spec.Timeout,
		MaxConcurrency: spec.MaxConcurrency, MaxQueue: spec.MaxQueue, Stopped: spec.Stop || t.service.Meta.DeletedAt != nil,
	}
	for _, r := range t.replicas {
		if !r.Status.Ready || r.Spec.DrainAt != nil || r.Meta.DeletedAt != nil || slices.Contains(t.plan.drain, r) || slices.Contains(t.plan.end, r) {
			continue
		}
		next.Replicas = append(next.Replicas, serving.ServiceEndpoint{Replica: r.Meta.Name, Address: r.Status.Address, Revision: r.Spec.Revision})
	}
	slices.SortFunc(next.Replicas, func(a, b serving.ServiceEndpoint) int { return cmp.Compare(a.Replica, b.Replica) })
	if t.endpoints == nil || !reflect.DeepEqual(t.endpoints.Spec, next) {
		t.plan.endpoints = &next
	}
}

// replicaName is the name of a service's replica.
func replicaName(service string, serial int) string { return service + "-" + strconv.Itoa(serial) }
