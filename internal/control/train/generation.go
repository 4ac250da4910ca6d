package train

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/diagnose"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/recipe"
)

// host is where a member's ranks are reached: what its launcher says, or the engine where it says nothing.
func (m *member) host() string { return cmp.Or(m.said.Address, m.observed.Address) }

// at is a port there.
func (m *member) at(port int) string { return net.JoinHostPort(m.host(), strconv.Itoa(port)) }

// peerAt is where other launchers reach its launcher.
func (m *member) peerAt() string {
	return net.JoinHostPort(m.observed.LauncherAddress, strconv.Itoa(m.said.PeerPort))
}

// addressTable is the addresses of all members in rank order, for a framework that names them; none where no
// launcher has one of its own: they are all on one machine then.
func (s *seen) addressTable() (out []string) {
	all := s.all()
	if !recipe.Needed(&s.task.Spec) || !slices.ContainsFunc(all.members, func(m member) bool { return m.said.Address != "" }) {
		return nil
	}
	for _, i := range all.order {
		out = append(out, all.members[i].host())
	}
	return out
}

// table gives every member its first rank: role by role and within one in the order of the topology,
// so that neighbours in rank are neighbours in place.
func (s *seen) table() {
	order := make([]int, len(s.members))
	for i := range order {
		order[i] = i
	}
	role := map[string]int{}
	for i := range s.members {
		if _, ok := role[s.members[i].role]; !ok {
			role[s.members[i].role] = len(role)
		}
	}
	if s.inside() {
		role = nil // the user's order counts
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := &s.members[a], &s.members[b]
		if role == nil {
			return cmp.Compare(x.index, y.index)
		}
		return cmp.Or(
			cmp.Compare(role[x.role], role[y.role]), cmp.Compare(x.zone, y.zone), cmp.Compare(x.leaf, y.leaf),
			cmp.Compare(x.number, y.number), cmp.Compare(lowest(x.devices), lowest(y.devices)), cmp.Compare(x.index, y.index))
	})
	s.seat(order)
	s.order, s.world, s.shift = order, 0, 0
	places := order
	if len(s.seats)+len(s.vacant) > 0 {
		places = s.seated(order)
		s.order = slices.DeleteFunc(slices.Clone(places), func(i int) bool { return i < 0 })
	}
	next, groups := map[string]int{}, map[string]int{} // the next rank and launcher; "": of the roles that restart with the task
	for place, i := range places {
		if i < 0 {
			continue
		}
		m := &s.members[i]
		space := s.space(m)
		m.place, m.first, m.group = place, next[space], groups[space]
		next[space] += m.ranks
		groups[space]++
		s.world += m.ranks
	}
	for i := range s.members {
		s.members[i].groups = groups[s.space(&s.members[i])]
	}
}

// space names the part whose ranks a member's are counted among; "": that of the roles that restart with the task.
func (s *seen) space(m *member) string {
	if s.task.Status.Role(m.role) != nil {
		return m.role
	}
	return ""
}

// lowest is the number of a mask's first device.
func lowest(mask uint64) int {
	for i := range 64 {
		if mask&(1<<i) != 0 {
			return i
		}
	}
	return 64
}

// membersHash is the same for the same table and no other.
func (s *seen) membersHash() string {
	h := sha256.New()
	for i := range s.members {
		fmt.Fprintf(h, "%s %d %d\n", s.members[i].name, s.members[i].first, s.members[i].ranks)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// lead is the member of rank 0.
func (s *seen) lead() *member {
	for i := range s.members {
		if s.members[i].first == 0 {
			return &s.members[i]
		}
	}
	return nil
}

// open begins the next generation: written first, told after.
func (s *seen) open(p *plan, world int) {
	p.status.Generation++
	p.status.Rendezvous = &api.Rendezvous{
		Members: s.membersHash(), World: world, Restore: s.restorable(),
		Lead: s.lead().at(s.lead().said.Port), Hosts: s.addressTable(), Below: s.below(), Seats: s.seating(),
	}
	if p.status.Rendezvous.Restore == 0 {
		s.passOver(p)
		if o := s.origin(); o != nil {
			p.status.Rendezvous.Restore, p.status.Rendezvous.Origin = o.Step, o
		}
	}
	s.reserve(p.status.Rendezvous)
	if s.whole == nil { // frameworks that ask for ports have no roles that restart by themselves
		for _, i := range s.order {
			p.status.Rendezvous.Ports = append(p.status.Rendezvous.Ports, s.members[i].said.Ports...)
		}
	}
	p.commit = true
	for i := range s.members {
		p.goAhead = append(p.goAhead, i)
	}
}

// heldByAll is the newest step that every launcher's ranks hold; 0: none.
func (s *seen) heldByAll() int64 {
	held := make([][]int64, len(s.members))
	for i := range s.members {
		held[i] = s.members[i].said.Held
	}
	return newestCommon(held)
}

func newestCommon(held [][]int64) int64 {
	count := map[int64]int{}
	var best int64
	for _, steps := range held {
		for _, step := range steps {
			if count[step]++; count[step] == len(held) {
				best = max(best, step)
			}
		}
	}
	return best
}

// follow sees to it that everybody attached has started the open generation.
func (s *seen) follow(p *plan) {
	if s.changed(p) || !s.all().meet() {
		return // their ranks are others by now, or not all of them are known
	}
	_, table := s.all().addresses()
	for i := range s.members {
		if m := &s.members[i]; m.attached && !m.ended() && (m.said.Generation < int64(p.status.Generation) || m.said.RoleTable != table || m.said.Every != every(&p.status)) {
			p.goAhead = append(p.goAhead, i)
		}
	}
}

// nextGeneration answers a failed rank: within the budget the ranks of all launchers start again, in
// the same attempt; beyond it everything ends, and how the launchers ended decides.
func (s *seen) nextGeneration(p *plan, now time.Time, fail *api.ReplicaFailure) {
	fail = s.settle(p, now, fail, "fail-"+fail.Replica+"-"+itoa(p.status.Generation))
	if p.status.Phase != api.PhaseRecovering {
		p.to(api.PhaseRecovering, fail.Reason, fail.Message)
	}
	recent, left := s.budget(p, now)
	if left == 0 && !swapping(p) || fail.Action == string(diagnose.Stop) {
		s.all().endAll(p)
		return
	}
	if s.anyEnded() {
		s.endAll(p) // a member that is through can't start again: a new attempt, if any
		return
	}
	if !s.allReady() || !s.all().meet() {
		return // they come back, or are found lost
	}
	if s.blind(p) {
		return
	}
	if wait := backOff(recent, now); wait > 0 && !swapping(p) && !s.progressed(&p.status) {
		p.wake = wait
		p.note("BackingOff", fault.T("It failed %d times within %s; the next start waits.", "%[2]s 内失败 %[1]d 次，下次启动将推迟。", lately(recent, now), backOffWindow))
		return
	}
	if s.relieve(p, now, recent, fail) || s.away(p, now, recent, fail) {
		return
	}
	if !swapping(p) {
		p.status.Restarts = append(recent, now)
	}
	s.open(p, cmp.Or(s.world, p.status.Rendezvous.World))
	p.status.Reason = "Restarting"
	n := len(p.status.Restarts)
	p.status.Message = fault.Text{
		EN: fmt.Sprintf("Restart %d of the window: %s", n, fail.Message.EN), ZH: fmt.Sprintf("窗口内第 %d 次重启：%s", n, fail.Message.ZH),
	}
	p.tell(false, "Restarting", "generation-"+itoa(p.status.Generation), p.status.Message)
}

// progressed says that all ranks got beyond where the open generation began: what fails then is no
// start that fails again and again.
func (s *seen) progressed(status *api.TrainingTaskStatus) bool {
	from := status.Rendezvous.Restore
	return !slices.ContainsFunc(s.members, func(m member) bool {
		return m.said.Generation != int64(status.Generation) || m.said.Step <= from && (len(m.said.Held) == 0 || slices.Max(m.said.Held) <= from)
	})
}

// A failure is answered at once; only from the third restart within the window on that came no further
// each waits twice as long as the one before.
const (
	backOffWindow = time.Minute
	backOffAfter  = 3
	backOffFirst  = time.Second
	backOffMost   = 30 * time.Second
)

// lately counts the restarts within the window.
func lately(restarts []time.Time, now time.Time) (n int) {
	for _, t := range restarts {
		if now.Sub(t) < backOffWindow {
			n++
		}
	}
	return n
}

// backOff is how long the next restart waits from now.
func backOff(restarts []time.Time, now time.Time) time.Duration {
	n := lately(restarts, now)
	if n < backOffAfter {
		return 0
	}
	pause := min(backOffFirst<<min(n-backOffAfter, 10), backOffMost)
	return max(pause-now.Sub(restarts[len(restarts)-1]), 0)
}

// allReady says that every launcher is attached and has told what a generation needs to know.
func (s *seen) allReady() bool {
	return !slices.ContainsFunc(s.members, func(m member) bool { return !m.attached || m.said.Port == 0 })
}

// budget is the restarts that still count, and how many more are allowed.
func (s *seen) budget(p *plan, now time.Time) (recent []time.Time, left int) {
	most, window := s.limits()
	recent = slices.DeleteFunc(slices.Clone(p.status.Restarts), func(t time.Time) bool { return now.Sub(t) >= window })
	return recent, max(most-len(recent), 0)
}

// limits is how many restarts a task may have within which window.
func (s *seen) limits() (most int, window time.Duration) {
	if r := s.task.Spec.Restart; r != nil {
		return r.MaxRestarts, cmp.Or(r.Window.Std(), time.Hour)
	}
	return 0, time.Hour
}

// usedUp adds to why a task failed that it fails again and again: it may not be restarted any more. One that never may
// be has nothing to add.
func (s *seen) usedUp(why fault.Text, restarts int) fault.Text {
	most, window := s.limits()
	if most == 0 {
		return why
	}
	limit := fault.T("It was restarted %d [time|times] within %s, and restartPolicy.maxRestarts is %d: it is not tried again.",
		"%[2]s 内已重启 %[1]d 次，restartPolicy.maxRestarts 为 %[3]d：不再重试。", restarts, window, most)
	return fault.Text{EN: why.EN + " " + limit.EN, ZH: why.ZH + limit.ZH}
}

// order is what a member is told about the open generation. A launcher holds on after a failure
// only while there are restarts left; otherwise it need not wait for us to end.
func (s *seen) orderFor(i int, status api.TrainingTaskStatus, hold bool) link.Generation {
	r, generation := status.Rendezvous, status.Generation
	if own := status.Role(s.members[i].role); own != nil {
		r, generation = own.Rendezvous, own.Generation
	}
	var origin *link.Origin
	if o := r.Origin; o != nil {
		origin = &link.Origin{TaskID: o.TaskID, Name: o.Name}
	}
	g := link.Generation{
		Origin: origin, Number: int64(generation), FirstRank: s.members[i].first, World: r.World, Group: s.members[i].group, Groups: s.members[i].groups, Lead: r.Lead, Table: r.Members,
		Restore: r.Restore, Hold: hold, Ports: r.Ports, Hosts: r.Hosts, Every: every(&status),
	}
	s.introduce(i, &g)
	return g
}
