package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// schedule says when maintenance is done; tests have their own.
type schedule struct {
	compactEvery time.Duration
	defragEvery  time.Duration // at most
	defragFrom   int64         // smaller databases are left alone
	alarmAt      float64       // of the quota
}

var defaultSchedule = schedule{
	compactEvery: 5 * time.Minute,
	defragEvery:  time.Hour,
	defragFrom:   64 << 20,
	alarmAt:      0.7,
}

const (
	healthTimeout = 2 * time.Second
	defragTimeout = 2 * time.Minute
	// disarmBelow leaves some room, so that the alarm does not come and go.
	disarmBelow = 0.9
)

// upkeep keeps etcd small and says how it does.
type upkeep struct {
	keyspace
	clock clock.Clock
	quota int64
	// diskFree is asked before what needs room; nil: not checked.
	diskFree    func() (uint64, error)
	dbSize      atomic.Int64 // for metrics
	maintenance schedule
}

// RunMaintenance compacts, defragments and watches the quota until ctx ends. The leader runs it:
// once in the cluster is enough.
func (s *upkeep) RunMaintenance(ctx context.Context) error {
	var m maintenance
	for {
		m.turn(ctx, s)
		select {
		case <-s.clock.After(s.maintenance.compactEvery):
		case <-ctx.Done():
			return nil
		}
	}
}

// maintenance remembers between turns.
type maintenance struct {
	last     int64 // the revision of the turn before: what is older may go
	defragAt time.Time
	alarmed  bool
}

// turn does what is due. A failure is for the next turn: nothing here is urgent.
func (m *maintenance) turn(ctx context.Context, s *upkeep) {
	st, err := s.status(ctx)
	if err != nil {
		s.log.Warn("no maintenance this time", "error", err)
		return
	}
	if m.last > 0 {
		s.compact(ctx, m.last)
	}
	m.last = st.Header.Revision
	m.alarm(s, st)
	now := s.clock.Now()
	if st.DbSize > s.maintenance.defragFrom && st.DbSizeInUse*2 < st.DbSize &&
		(m.defragAt.IsZero() || now.Sub(m.defragAt) >= s.maintenance.defragEvery) {
		m.defragAt = now
		s.defragment(ctx, st)
	}
	if err := s.disarm(ctx); err != nil {
		s.log.Warn("the store's alarm stays raised", "error", err)
	}
}

// disarm takes back the alarm that etcd raises at its quota and never takes back by itself, once
// there is room again. The room is made here: what was deleted is only gone after a compaction
// and a defragmentation.
func (s *upkeep) disarm(ctx context.Context) error {
	alarms, err := s.alarms(ctx)
	if err != nil || !hasNoSpace(alarms) {
		return err
	}
	st, err := s.status(ctx)
	if err != nil {
		return err
	}
	s.compact(ctx, st.Header.Revision)
	s.defragment(ctx, st)
	if st, err = s.status(ctx); err != nil {
		return err
	}
	if quota := s.quotaOf(st); quota > 0 && float64(st.DbSize) > disarmBelow*float64(quota) {
		return s.nearlyFull(st)
	}
	for _, a := range alarms {
		if a.Alarm != pb.AlarmType_NOSPACE {
			continue
		}
		actx, cancel := context.WithTimeout(ctx, callTimeout)
		_, err := s.client.AlarmDisarm(actx, (*clientv3.AlarmMember)(a))
		cancel()
		if err != nil {
			return etcdFault(ctx, err, false)
		}
		s.log.Info("the store has room again")
	}
	return nil
}

func (s *upkeep) alarms(ctx context.Context) ([]*pb.AlarmMember, error) {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	resp, err := s.client.AlarmList(ctx)
	if err != nil {
		return nil, etcdFault(ctx, err, false)
	}
	return resp.Alarms, nil
}

func hasNoSpace(alarms []*pb.AlarmMember) bool {
	return slices.ContainsFunc(alarms, func(a *pb.AlarmMember) bool { return a.Alarm == pb.AlarmType_NOSPACE })
}

func (s *upkeep) compact(ctx context.Context, revision int64) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if _, err := s.client.Compact(ctx, revision); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		s.log.Warn("the store was not compacted", "revision", revision, "error", err)
	}
}

// defragment goes from member to member; each stops answering while it works.
func (s *upkeep) defragment(ctx context.Context, st *clientv3.StatusResponse) {
	if s.diskFree != nil { // the new file is written beside the old one
		if free, err := s.diskFree(); err == nil && free < uint64(st.DbSizeInUse)+writeReserve {
			s.log.Warn("no room to defragment the store", "free", free, "needed", st.DbSizeInUse+writeReserve)
			return
		}
	}
	for _, ep := range s.endpoints() {
		dctx, cancel := context.WithTimeout(ctx, defragTimeout)
		_, err := s.client.Defragment(dctx, ep)
		cancel()
		if err != nil {
			s.log.Warn("the store was not defragmented", "member", ep, "error", err)
			continue
		}
		s.log.Info("the store was defragmented", "member", ep, "before", st.DbSize, "used", st.DbSizeInUse)
	}
}

func (m *maintenance) alarm(s *upkeep, st *clientv3.StatusResponse) {
	near := s.nearlyFull(st)
	if near != nil && !m.alarmed {
		s.log.Error("the store fills up: delete what is finished or raise its quota", "used", st.DbSize, "quota", s.quotaOf(st))
	}
	m.alarmed = near != nil
}

// endpoints are the members; the in-process client has one without a name.
func (s *upkeep) endpoints() []string {
	if eps := s.client.Endpoints(); len(eps) > 0 {
		return eps
	}
	return []string{""}
}

// status asks the first member that answers.
func (s *upkeep) status(ctx context.Context) (*clientv3.StatusResponse, error) {
	var last error
	for _, ep := range s.endpoints() {
		sctx, cancel := context.WithTimeout(ctx, healthTimeout)
		st, err := s.client.Status(sctx, ep)
		cancel()
		if err == nil {
			s.dbSize.Store(st.DbSize)
			return st, nil
		}
		last = err
	}
	return nil, etcdFault(ctx, last, false)
}

func (s *upkeep) quotaOf(st *clientv3.StatusResponse) int64 {
	if s.quota > 0 {
		return s.quota
	}
	return st.DbSizeQuota
}

// Size is how large the database is and how large it may get; quota 0 is unknown.
func (s *upkeep) Size(ctx context.Context) (bytes, quota int64, err error) {
	st, err := s.status(ctx)
	if err != nil {
		return 0, 0, err
	}
	return st.DbSize, s.quotaOf(st), nil
}

func (s *upkeep) nearlyFull(st *clientv3.StatusResponse) *fault.Error {
	quota := s.quotaOf(st)
	if quota <= 0 || float64(st.DbSize) < s.maintenance.alarmAt*float64(quota) {
		return nil
	}
	return fault.New(fault.Full, "StoreNearlyFull", fault.T(
		"The store has used %d of its %d MiB.", "存储已使用 %d MiB，上限为 %d MiB。", st.DbSize>>20, quota>>20)).
		WithHint(fault.T("Delete what is finished or raise the store's quota.", "请删除已结束的对象，或提高存储配额。"))
}

// Warning is what an operator should know although everything still works: the quota is nearly
// used up. nil when there is nothing to say or it can't be known.
func (s *upkeep) Warning(ctx context.Context) *fault.Error {
	st, err := s.status(ctx)
	if err != nil {
		return nil
	}
	return s.nearlyFull(st)
}

// Healthy is nil when writes can succeed: etcd answers with a quorum, no alarm is raised, the
// disk has room.
func (s *upkeep) Healthy(ctx context.Context) error {
	if err := s.checkDisk(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	// A linearizable read needs the quorum.
	if _, err := s.client.Get(ctx, s.prefix+electionFolder, clientv3.WithCountOnly()); err != nil {
		return etcdFault(ctx, err, false)
	}
	alarms, err := s.alarms(ctx)
	if err != nil {
		return err
	}
	if hasNoSpace(alarms) {
		return storeFull(errors.New("etcd raised NOSPACE"))
	}
	for _, a := range alarms {
		return fault.New(fault.Internal, "StoreAlarm", fault.T(
			"The store raised the alarm %s.", "存储发出警报 %s。", a.Alarm)).
			WithHint(fault.T("Restore the newest backup into a fresh folder.", "请将最近的备份恢复到一个新目录。")).
			Because(fmt.Errorf("member %x", a.MemberID))
	}
	return nil
}
