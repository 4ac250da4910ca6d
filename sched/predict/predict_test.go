package predict

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestBucketsAreInOrderAndHoldTheirNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Int64Range(4, 1<<41).Draw(t, "x")
		b := bucketOf(x)
		if x < low(b) || b+1 < buckets && x >= low(b+1) {
			t.Fatalf("%d is in bucket %d, which begins at %d and ends at %d", x, b, low(b), low(b+1))
		}
	})
	for b := 1; b < buckets; b++ {
		if low(b) <= low(b-1) || float64(low(b))/float64(low(b-1)) > 1.26 {
			t.Fatal(b, low(b-1), low(b))
		}
	}
}

// TestQuantilesAndResiduals compares with the exact answer over the sorted numbers.
func TestQuantilesAndResiduals(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	p := New()
	var all []float64
	for range 1500 {
		x := time.Duration(1200+rnd.ExpFloat64()*20000) * time.Second
		all = append(all, x.Seconds())
		p.Learn(Key{User: "u", Name: "n", Devices: 8}, x, 0)
	}
	slices.Sort(all)
	e := p.Estimate(Key{User: "u", Name: "n", Devices: 8}, 0)
	for _, after := range []float64{0, 3000, 20000, 60000} {
		i, _ := slices.BinarySearch(all, after)
		rest := all[i:]
		mean := 0.0
		for _, x := range rest {
			mean += (x - after) / float64(len(rest))
		}
		near(t, "mean", e.Mean(seconds2(after)).Seconds(), mean)
		for _, q := range []float64{.1, .5, .9} {
			near(t, "quantile", e.Quantile(q, seconds2(after)).Seconds()+after, rest[int(q*float64(len(rest)))])
		}
	}
	if got := e.Mean(1000 * time.Hour); got != 1000*time.Hour {
		t.Error("who outlived everybody is expected to run as long again, not", got)
	}
}

func seconds2(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if got < want*.75-5 || got > want*1.25+5 {
		t.Errorf("%s: %.0f, exactly %.0f", what, got, want)
	}
}

func TestFallbacks(t *testing.T) {
	p := New()
	k := Key{User: "u", Name: "n", Devices: 8}
	if got := p.Estimate(k, 0).Mean(0); got != Unknown {
		t.Error("nothing known:", got)
	}
	if got := p.Estimate(k, 3*time.Hour).Mean(time.Hour); got != 2*time.Hour {
		t.Error("only a word:", got)
	}
	learn := func(k Key, d time.Duration) {
		for range enough {
			p.Learn(k, d, 0)
		}
	}
	about := func(what string, k Key, want time.Duration) {
		t.Helper()
		got := p.Estimate(k, 0).Mean(0)
		if got < want*3/4 || got > want*5/4 {
			t.Errorf("%s: %s, want about %s", what, got, want)
		}
	}
	learn(Key{User: "x", Name: "y", Devices: 1}, time.Minute)
	about("everybody", k, time.Minute)
	learn(Key{User: "x", Name: "y", Devices: 8}, time.Hour)
	about("its size", k, time.Hour)
	learn(Key{User: "u", Name: "z", Devices: 8}, 4*time.Hour)
	about("its user", k, 4*time.Hour)
	learn(k, 24*time.Hour)
	about("itself", k, 24*time.Hour)
	for range full { // habits change
		p.Learn(k, time.Hour, 0)
	}
	about("after a change", k, time.Hour)
}

func TestWhatIsDeclaredIsUsedWhereItIsSteadier(t *testing.T) {
	p := New()
	honest, wild := Key{User: "honest", Name: "n", Devices: 1}, Key{User: "wild", Name: "n", Devices: 1}
	for i := range 40 {
		d := time.Duration(10<<(i%10)) * time.Minute // spread over three orders of magnitude
		p.Learn(honest, d, 2*d)                      // asks for twice what it needs
		p.Learn(wild, time.Hour, time.Duration(1<<(i%20))*time.Minute)
	}
	if got := p.Estimate(honest, 20*time.Hour).Mean(0); got < 9*time.Hour || got > 12*time.Hour {
		t.Error("honest:", got)
	}
	if got := p.Estimate(wild, 20*time.Hour).Mean(0); got < 45*time.Minute || got > 75*time.Minute {
		t.Error("wild:", got)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	p := New()
	for i := range 3 * MaxTables {
		p.Learn(Key{User: "u", Name: string(rune('a' + i%26)), Devices: i}, time.Hour, 0)
	}
	if n := len(p.ran.by); n > MaxTables || n != p.ran.age.Len() {
		t.Error(n, p.ran.age.Len())
	}
}

// TestAnyHistoryHasAnAnswer: never negative, never zero, more certain is later.
func TestAnyHistoryHasAnAnswer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := New()
		k := Key{User: "u", Devices: 1}
		for range rapid.IntRange(0, 40).Draw(t, "n") {
			p.Learn(k, time.Duration(rapid.Int64().Draw(t, "ran")), time.Duration(rapid.Int64().Draw(t, "declared")))
		}
		e := p.Estimate(k, time.Duration(rapid.Int64Range(0, 1<<50).Draw(t, "declared")))
		already := time.Duration(rapid.Int64Range(0, 1<<55).Draw(t, "already"))
		last := time.Duration(0)
		for _, q := range []float64{.1, .5, .8, .9} {
			got := e.Quantile(q, already)
			if got <= 0 || got < last {
				t.Fatalf("quantile %g after %s: %s, the one before %s", q, already, got, last)
			}
			last = got
		}
		if got := e.Mean(already); got <= 0 {
			t.Fatal(got)
		}
	})
}

// TestTells: a guess is no promise, nor is a time that is over.
func TestTells(t *testing.T) {
	p := New()
	k := Key{User: "u", Name: "n", Devices: 1}
	if p.Estimate(k, 0).Tells(0) {
		t.Error("nothing is known")
	}
	if e := p.Estimate(k, time.Hour); !e.Tells(time.Minute) || e.Tells(2*time.Hour) {
		t.Error("what was declared counts until it is over")
	}
	for range enough {
		p.Learn(k, time.Minute, 0)
	}
	if e := p.Estimate(k, 0); !e.Tells(time.Second) || e.Tells(3*time.Hour) {
		t.Error("it ran longer than all of its like")
	}
}

// TestProbe: the work of a user who is new is taken for short at first, however long that of others is; what is known of the user, or said, counts
// at once.
func TestProbe(t *testing.T) {
	p := New()
	for range 20 {
		p.Learn(Key{User: "old", Name: "x", Devices: 8}, 10*time.Hour, 0)
	}
	stranger := p.Estimate(Key{User: "new", Name: "x", Devices: 8}, 0)
	if a, b := stranger.Probe(0), stranger.Probe(9*time.Minute); a != time.Minute || b != 9*time.Minute {
		t.Errorf("at first %s, then %s", a, b)
	}
	if got := stranger.Probe(10 * time.Minute); got != stranger.Index(10*time.Minute) || got < time.Hour {
		t.Errorf("after the probe %s", got)
	}
	for name, e := range map[string]Estimate{
		"known": p.Estimate(Key{User: "old", Name: "y", Devices: 8}, 0),
		"said":  p.Estimate(Key{User: "new", Name: "x", Devices: 8}, 5*time.Hour),
	} {
		if got := e.Probe(0); got != e.Index(0) || got < time.Hour {
			t.Errorf("%s: %s", name, got)
		}
	}
}
