package placement_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/control/placement"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/internal/store/storetest"
)

// judge is a Possible over a store whose clock stands an hour from now.
type judge struct {
	*testing.T
	s *store.Store
	p *placement.Possible
}

func newJudge(t *testing.T) *judge {
	s := storetest.Open(t)
	p := placement.NewPossible(s, clock.NewFake(time.Now().Add(time.Hour)), quiet)
	t.Cleanup(p.Close)
	return &judge{t, s, p}
}

func (j *judge) write(ops ...store.Op) int64 {
	j.Helper()
	rev, err := j.s.Commit(j.Context(), store.Txn{Ops: ops})
	if err != nil {
		j.Fatal(err)
	}
	return rev
}

// refused is the field a task is refused for, and what of it; "" is that it is accepted.
func (j *judge) refused(t *api.TrainingTask, rev int64) string {
	j.Helper()
	err := j.p.Refuse(j.Context(), t, rev)
	if err == nil {
		return ""
	}
	var f *fault.Error
	if !errors.As(err, &f) || f.Code != fault.Invalid || len(f.Fields) != 1 || f.Message.ZH == "" || f.Hint.ZH == "" || f.Fields[0].Message.ZH == "" {
		j.Fatalf("%+v", err)
	}
	return f.Reason + " " + f.Fields[0].Path
}

func (j *judge) expect(what string, t *api.TrainingTask, rev int64, want string) {
	j.Helper()
	if got := j.refused(t, rev); got != want {
		j.Errorf("%s: %q, want %q", what, got, want)
	}
}

func someNodes(n int, created time.Time) []store.Op {
	var ops []store.Op
	for i, one := range nodes(n) {
		one.Meta.ID, one.Meta.CreatedAt, one.Spec.Number = id.Default.New("node"), created, uint32(i+1)
		ops = append(ops, store.Create(&one))
	}
	return ops
}

func newQueue(name string, limit map[string]int) *api.Queue {
	return &api.Queue{Meta: api.Meta{ID: id.Default.New("queue"), Name: name}, Spec: api.QueueSpec{Limit: limit}}
}

const tooManyDevices = "NeverFits spec.roles[0].resources.accelerators.count"

// TestRefuse: what could never start is refused, as soon as the cluster is known; what is only
// closed now is not.
func TestRefuse(t *testing.T) {
	j := newJudge(t)
	j.expect("no node is known", task("x", 1, 3), 0, "")
	rev := j.write(someNodes(2, time.Now())...)
	j.expect("two devices a node", task("x", 1, 3), rev, tooManyDevices)
	j.expect("four devices in all", task("x", 5, 1), rev, "NeverFits spec.roles[0].replicas")
	j.expect("fits", task("x", 2, 2), rev, "")
	elsewhere := task("x", 1, 1)
	elsewhere.Spec.Zones = &api.ZoneRules{Allow: []string{"z9"}}
	j.expect("no such zone", elsewhere, rev, "NoZone spec.zones")
	rev = j.write(store.Create(&api.Zone{Meta: api.Meta{ID: id.Default.New("zone"), Name: "z9"}, Spec: api.ZoneSpec{Region: "r"}}))
	j.expect("a zone without nodes", elsewhere, rev, "")
	rev = j.write(store.Delete(api.Key{Kind: api.KindZone, Name: "z9"}, 0))
	j.expect("the zone went", elsewhere, rev, "NoZone spec.zones")

	for i := range 2 {
		o, err := j.s.Get(t.Context(), api.Key{Kind: api.KindNode, Name: fmt.Sprintf("n%d", i)}, rev)
		if err != nil {
			t.Fatal(err)
		}
		n := store.Clone(o.(*api.Node))
		n.Spec.Cordoned, n.Status.Ready = i == 0, i == 0
		j.write(store.Update(n))
	}
	j.expect("one node cordoned, one not ready", task("x", 2, 2), 0, "")
	j.expect("still never", task("x", 1, 3), 0, tooManyDevices)
}

// TestRefuseByLimit: a wish above a queue's whole limit is refused; raised, it counts at once for
// who asks at that revision.
func TestRefuseByLimit(t *testing.T) {
	j := newJudge(t)
	j.write(someNodes(2, time.Now())...)
	parent, child := newQueue("all", map[string]int{"devices": 1}), newQueue("q", nil)
	child.Spec.Parent = "all"
	rev := j.write(store.Create(parent), store.Create(child))
	j.expect("one device allowed", task("x", 1, 2), rev, "QueueLimit spec.queue")
	j.expect("one asked", task("x", 1, 1), rev, "")
	for n := range 20 {
		o, err := j.s.Get(t.Context(), api.KeyOf(parent), rev)
		if err != nil {
			t.Fatal(err)
		}
		next := store.Clone(o.(*api.Queue))
		next.Spec.Limit = map[string]int{"devices": 1 + n%2}
		rev = j.write(store.Update(next))
		want := "QueueLimit spec.queue"
		if n%2 == 1 {
			want = ""
		}
		j.expect(fmt.Sprint("limit ", 1+n%2), task("x", 1, 2), rev, want)
	}
}

// TestRefuseNothingWhileNodesCome: of a cluster that is just being made known nothing is refused.
func TestRefuseNothingWhileNodesCome(t *testing.T) {
	j := newJudge(t)
	rev := j.write(someNodes(2, time.Now().Add(time.Hour))...)
	j.expect("others may be on their way", task("x", 1, 3), rev, "")
}

// TestRefuseWhileItChanges: many ask while nodes are cordoned and opened; the answers hold.
func TestRefuseWhileItChanges(t *testing.T) {
	j := newJudge(t)
	rev := j.write(someNodes(4, time.Now())...)
	first := rev
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if j.p.Refuse(t.Context(), task("x", 4, 2), 0) != nil || j.p.Refuse(t.Context(), task("x", 1, 3), first) == nil {
					t.Error("another answer")
					return
				}
			}
		})
	}
	for i := range 40 {
		o, err := j.s.Get(t.Context(), api.Key{Kind: api.KindNode, Name: "n1"}, rev)
		if err != nil {
			t.Fatal(err)
		}
		n := store.Clone(o.(*api.Node))
		n.Spec.Cordoned = i%2 == 0
		rev = j.write(store.Update(n))
	}
	stop()
	wg.Wait()
}

// TestRefuseSaysWhatIsNotUsed: who asks for devices that a node has and nobody here can use reads which node, and what to do; where such a node is not allowed nothing is
// said of it, and neither is once it is mended.
func TestRefuseSaysWhatIsNotUsed(t *testing.T) {
	j := newJudge(t)
	claims := nodes(1)[0]
	claims.Meta = api.Meta{ID: id.Default.New("node"), Name: "k-claims", CreatedAt: time.Now().UTC()}
	claims.Spec.Zone, claims.Spec.Number, claims.Spec.Devices = "k", 9, nil
	claims.Status.Reason, claims.Status.Message = engine.DevicesUnused, fault.T("Run the device plugin.", "请运行设备插件。")
	zones := []store.Op{}
	for _, name := range []string{"k", "z"} {
		zones = append(zones, store.Create(&api.Zone{Meta: api.Meta{ID: id.Default.New("zone"), Name: name}}))
	}
	rev := j.write(slices.Concat(zones, []store.Op{store.Create(newQueue("q", nil)), store.Create(&claims)}, someNodes(1, time.Now()))...)
	rare := task("rare", 1, 1)
	rare.Spec.Roles[0].Resources.Accelerators.Type = "H800"
	hint := func() fault.Text {
		t.Helper()
		var f *fault.Error
		if err := j.p.Refuse(t.Context(), rare, rev); !errors.As(err, &f) {
			t.Fatalf("%v", err)
		}
		return f.Hint
	}
	if got := hint(); got.EN != "Node k-claims has some: Run the device plugin." || got.ZH != "节点 k-claims 上有：请运行设备插件。" {
		t.Errorf("%+v", got)
	}
	rare.Spec.Zones = &api.ZoneRules{Allow: []string{"z"}}
	if got := hint(); strings.Contains(got.EN, "k-claims") {
		t.Errorf("it may not stand there: %+v", got)
	}
	rare.Spec.Zones = nil
	mended := store.Clone(&claims)
	mended.Meta.Revision = rev
	mended.Status.Reason, mended.Status.Message = "", fault.Text{}
	rev = j.write(store.Update(mended))
	if got := hint(); strings.Contains(got.EN, "k-claims") {
		t.Errorf("it is mended: %+v", got)
	}
}
