package ckpt

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func TestRetention(t *testing.T) {
	var all []Checkpoint
	for step := uint64(1); step <= 8; step++ {
		c := Checkpoint{Name: manifestName(1, step*10), Step: step * 10}
		if step != 6 {
			c.Metrics = map[string]float64{"loss": 10 - float64(step%4)}
		}
		all = append(all, c)
	}
	all[1].Pinned = true
	for name, c := range map[string]struct {
		keep Retention
		want []uint64
	}{
		"nothing said":  {Retention{}, []uint64{20, 80}},
		"last":          {Retention{Last: 3}, []uint64{20, 60, 70, 80}},
		"given up":      {Retention{Last: 2, Abandoned: func(name string) bool { return name > manifestName(1, 50) }}, []uint64{20, 40, 50}},
		"held":          {Retention{Last: 1, Held: func(name string) bool { return name == manifestName(1, 30) }}, []uint64{20, 30, 80}},
		"more than all": {Retention{Last: 30}, []uint64{10, 20, 30, 40, 50, 60, 70, 80}},
		"every":         {Retention{Last: 1, Every: 30}, []uint64{20, 30, 60, 80}},
		"best":          {Retention{Best: "loss", BestCount: 1}, []uint64{20, 30, 80}},
		"two best":      {Retention{Best: "loss", BestCount: 2}, []uint64{20, 30, 70, 80}},
		"most":          {Retention{Best: "loss", Most: true}, []uint64{20, 40, 80}},
		"as asked":      {Keeping(api.CheckpointKeep{Last: 2, EverySteps: 50, Best: &api.CheckpointBest{Metric: "loss", Order: api.OrderMin, Count: 2}}), []uint64{20, 30, 50, 70, 80}},
		"most as asked": {Keeping(api.CheckpointKeep{Best: &api.CheckpointBest{Metric: "loss", Order: api.OrderMax}}), []uint64{20, 40, 80}},
		"no such":       {Retention{Best: "f1"}, []uint64{20, 80}},
	} {
		kept := c.keep.kept(all)
		var got []uint64
		for _, x := range all {
			if kept[x.Name] {
				got = append(got, x.Step)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestCollect(t *testing.T) {
	w := newWorld(t, 1)
	ctx := context.Background()
	var slots [][]byte
	for step := uint64(1); step <= 5; step++ {
		slots = w.state(1, step, 2)
		must[*Manifest](t)(save(ctx, w.repo, slots, map[string]float64{"loss": float64(step)}))
	}
	if err := w.repo.Pin(ctx, manifestName(1, 2)); err != nil {
		t.Fatal(err)
	}
	if err := w.repo.Drop(ctx, manifestName(1, 2)); fault.ReasonOf(err) != "Pinned" {
		t.Fatalf("err = %v", err)
	}
	if err := w.repo.Pin(ctx, manifestName(1, 9)); !fault.Is(err, fault.NotFound) {
		t.Fatalf("err = %v", err)
	}
	before := len(w.fs.Files("objects"))
	did := must[*Collected](t)(w.repo.Collect(ctx, Retention{Last: 2}))
	if diff := cmp.Diff([]string{manifestName(1, 1), manifestName(1, 3)}, did.Dropped); diff != "" || did.Deleted != 0 {
		t.Fatalf("%+v %s", did, diff)
	}
	w.clock.Advance(61 * time.Minute)
	if did = must[*Collected](t)(w.repo.Collect(ctx, Retention{Last: 2})); did.Deleted == 0 {
		t.Fatal("nothing was deleted")
	}
	if after := len(w.fs.Files("objects")); after >= before {
		t.Fatalf("%d files, then %d", before, after)
	}
	all, damaged, err := w.repo.List(ctx)
	if err != nil || len(damaged) != 0 || len(all) != 3 || !all[0].Pinned || all[0].Step != 2 || all[2].Metrics["loss"] != 5 || all[2].Size == 0 {
		t.Fatalf("%+v, %v, %v", all, damaged, err)
	}
	for _, c := range all {
		if err := w.repo.Verify(ctx, c.Name); err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
	}
	_, back, err := w.restored(2)
	if err != nil {
		t.Fatal(err)
	}
	w.same(back, slots)
	if err := w.repo.Unpin(ctx, manifestName(1, 2)); err != nil {
		t.Fatal(err)
	}
	if did = must[*Collected](t)(w.repo.Collect(ctx, Retention{})); len(did.Dropped) != 2 {
		t.Fatalf("%+v", did)
	}
}

// TestCollectKeepsWhatItCannotRead: while nobody can say what a checkpoint names, no pack goes.
func TestCollectKeepsWhatItCannotRead(t *testing.T) {
	w := newWorld(t, 1)
	ctx := context.Background()
	for step := uint64(1); step <= 3; step++ {
		must[*Manifest](t)(saveAs(ctx, w.repo, w.state(1, step, 1), nil, true))
	}
	bad := manifestName(1, 2)
	w.fs.Content("objects/tasks/t1/manifests/"+bad, func(raw []byte) []byte { return raw[:len(raw)-1] })
	for range 2 {
		did := must[*Collected](t)(w.repo.Collect(ctx, Retention{Last: 1}))
		if did.Deleted != 0 || !slices.Equal(did.Damaged, []string{bad}) {
			t.Fatalf("%+v", did)
		}
		w.clock.Advance(2 * time.Hour)
	}
	if err := w.repo.Drop(ctx, bad); err != nil {
		t.Fatal(err)
	}
	must[*Collected](t)(w.repo.Collect(ctx, Retention{Last: 1}))
	w.clock.Advance(2 * time.Hour)
	if did := must[*Collected](t)(w.repo.Collect(ctx, Retention{Last: 1})); did.Deleted == 0 || len(did.Damaged) > 0 {
		t.Fatalf("%+v", did)
	}
}

// TestDropTakesMarksOff: a pack that was marked long ago, named again, and now loses its last name, waits
// anew: a save may have read that name just before.
func TestDropTakesMarksOff(t *testing.T) {
	w := newWorld(t, 1)
	ctx := context.Background()
	slot := w.state(1, 1, 1)[0]
	m := must[*Manifest](t)(save(ctx, w.repo, [][]byte{slot}, nil))
	for _, pack := range must[*Part](t)(w.repo.part(ctx, m, 0)).Packs {
		must[blob.Info](t)(w.repo.put(ctx, condemnedDir+pack, nil))
	}
	w.clock.Advance(2 * time.Hour)
	late := &Save{repo: w.repo, id: newID(), generation: 1, step: 3, world: 1, known: map[Hash]place{}, claimed: map[Hash]place{}}
	if err := late.learn(ctx); err != nil {
		t.Fatal(err)
	}
	must[*Manifest](t)(saveAs(ctx, w.repo, w.state(1, 2, 1), nil, true))
	if did := must[*Collected](t)(w.repo.Collect(ctx, Retention{Last: 1})); len(did.Dropped) != 1 {
		t.Fatalf("%+v", did)
	}
	if err := late.renew(ctx); err != nil {
		t.Fatal(err)
	}
	again := open(t, slot)
	again.Header.Step = 3
	ref := must[PartRef](t)(late.Rank(ctx, again))
	if ref.New != 0 {
		t.Fatalf("%d bytes were written: the test shows nothing", ref.New)
	}
	m = must[*Manifest](t)(w.repo.Commit(ctx, Proposal{Generation: 1, Step: 3, World: 1, Parts: []PartRef{ref}}))
	if err := w.repo.Verify(ctx, m.Name()); err != nil {
		t.Fatal(err)
	}
}

// TestCollectBesideSaves lets savers and collectors take turns at every single request, in an order by
// seed, with time passing between any two, and lets some die at any of them. Whatever is committed
// must be whole at every moment. In every other world two machines share each save.
func TestCollectBesideSaves(t *testing.T) {
	all := seeds(t, "FERMI_CKPT_COLLECTS", 4)
	var sum tally
	for seed := range all {
		sum.add(turns(t, uint64(seed)))
	}
	t.Logf("%d worlds: %+v", all, sum)
	if sum.Committed < 5*all || sum.Reused < 1 || sum.Shared < 1 || sum.Deleted < 5*all || sum.Killed < all {
		t.Fatalf("too little happened: %+v", sum)
	}
}

type tally struct{ Committed, Reused, Shared, Slow, Deleted, Killed int }

func (a *tally) add(b tally) {
	a.Committed += b.Committed
	a.Reused += b.Reused
	a.Shared += b.Shared
	a.Slow += b.Slow
	a.Deleted += b.Deleted
	a.Killed += b.Killed
}

// actor is a saver or a collector that waits at a gate before each request.
type actor struct {
	at     chan string // the request it waits to make; closed when it has ended
	let    chan bool   // false: it is dead
	gates  sync.Mutex  // a save may ask for two packs at once: one waits at a time
	dead   bool
	looked time.Time // when it last looked at the leases
	w      *world
	Store
}

// gate waits for its turn. The dead have none.
func (a *actor) gate(what string) error {
	a.gates.Lock()
	defer a.gates.Unlock()
	if a.dead {
		return io.ErrClosedPipe
	}
	a.at <- what
	if !<-a.let {
		a.dead = true
		return io.ErrClosedPipe
	}
	return nil
}

func (a *actor) Put(ctx context.Context, key string, r io.Reader) (blob.Info, error) {
	if err := a.gate("put " + key); err != nil {
		return blob.Info{}, err
	}
	return a.Store.Put(ctx, key, r)
}

// Create keeps to the time that Commit gives it: in this world no real time passes.
func (a *actor) Create(ctx context.Context, key string, r io.Reader) (blob.Info, error) {
	if err := a.gate("create " + key); err != nil {
		return blob.Info{}, err
	}
	if strings.Contains(key, manifestsDir) && a.w.clock.Now().Sub(a.looked) > 30*time.Minute {
		return blob.Info{}, context.DeadlineExceeded
	}
	return a.Store.Create(ctx, key, r)
}

func (a *actor) Open(ctx context.Context, key string) (io.ReadSeekCloser, blob.Info, error) {
	if err := a.gate("open " + key); err != nil {
		return nil, blob.Info{}, err
	}
	return a.Store.Open(ctx, key)
}

func (a *actor) List(ctx context.Context, prefix, after string, limit int) ([]blob.Info, error) {
	if err := a.gate("list " + prefix); err != nil {
		return nil, err
	}
	if strings.HasSuffix(prefix, leasesDir) {
		a.looked = a.w.clock.Now()
	}
	return a.Store.List(ctx, prefix, after, limit)
}

func (a *actor) Delete(ctx context.Context, key string) error {
	if err := a.gate("delete " + key); err != nil {
		return err
	}
	return a.Store.Delete(ctx, key)
}

func turns(t *testing.T, seed uint64) tally {
	w := newWorld(t, seed)
	ctx := context.Background()
	var did tally
	step, machines := uint64(0), 1+int(seed%2)
	start := func(collect bool) *actor {
		a := &actor{at: make(chan string), let: make(chan bool), w: w, Store: w.repo.cfg.Store}
		repo := w.on(a)
		step++
		slots, again := alike(w.rng, step, machines), w.rng.IntN(4) == 0
		go func() {
			defer close(a.at)
			if collect {
				if c, err := repo.Collect(ctx, Retention{Last: 1}); err == nil {
					did.Deleted += c.Deleted
				}
				return
			}
			var m *Manifest
			var err error
			if machines == 1 {
				m, err = save(ctx, repo, slots, nil)
			} else {
				m, err = saveOn(ctx, repo, slots, 1, again)
			}
			switch {
			case fault.ReasonOf(err) == "SaveTooSlow":
				did.Slow++
			case m != nil:
				did.Committed++
				if m.Parts[0].New < m.Parts[0].Size/2 {
					did.Reused++
				}
				if w.crossed(m) {
					did.Shared++
				}
			}
		}()
		return a
	}
	actors := []*actor{start(false), start(false), start(true), start(true)}
	wants := make([]string, len(actors))
	next := func(i int) { // waits until the actor stands at the gate, or another in its place
		for {
			want, ok := <-actors[i].at
			if ok {
				wants[i] = want
				return
			}
			actors[i] = start(i >= 2)
		}
	}
	for i := range actors {
		next(i)
	}
	for range 400 * machines {
		// A collector may finish between two requests of a save, and time may pass, but not so much
		// that every save is too slow.
		i := w.rng.IntN(len(actors))
		burst, changed := 1+w.rng.IntN(3), false
		if i >= 2 {
			burst = 1 + w.rng.IntN(80)
		}
		for range burst {
			kill := w.rng.IntN(400) == 0
			if kill {
				did.Killed++
			}
			done := wants[i]
			actors[i].let <- !kill
			next(i)
			changed = changed || !kill && (strings.HasPrefix(done, "create") || strings.HasPrefix(done, "delete tasks/t1/pa"))
		}
		if w.rng.IntN(6) == 0 {
			w.clock.Advance(time.Duration(w.rng.IntN(20/machines)) * time.Minute)
		}
		if changed {
			w.allWhole(seed)
		}
	}
	for i := range actors { // all die, and nobody waits for them any more
		actors[i].let <- false
		for range actors[i].at {
		}
	}
	w.allWhole(seed)
	return did
}

// fewBlobs makes a state of values that come again and again, so that saves find most of it there.
func fewBlobs(rng *rand.Rand) []blobOf {
	var blobs []blobOf
	for i := range 6 {
		blobs = append(blobs, blobOf{name: fmt.Sprint("w", i), raw: bytes.Repeat([]byte{byte(i), byte(rng.IntN(3))}, 128)})
	}
	return blobs
}

// allWhole verifies every checkpoint that is committed at this moment.
func (w *world) allWhole(seed uint64) {
	w.t.Helper()
	ctx := context.Background()
	for _, name := range must[[]string](w.t)(w.repo.names(ctx)) {
		if err := w.repo.Verify(ctx, name); err != nil {
			w.t.Fatalf("seed %d: %s is committed and not whole: %v", seed, name, err)
		}
	}
}
