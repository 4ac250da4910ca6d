package predict

import (
	"container/list"
	"math/bits"
	"time"
)

// Key is what repetitions have in common.
type Key struct {
	User, Name string
	Devices    int // of the whole gang
}

// Predictor learns. Not safe for concurrent use: it has one owner.
type Predictor struct {
	ran    table // seconds, by likeness
	ratios table // what ran over what was declared, in 1/unit, by user
}

const (
	// enough finished ones make a table worth asking.
	enough = 8
	// unit is one in ratios.
	unit = 1 << 12
	// MaxTables bounds memory: the table not used for longest is forgotten.
	MaxTables = 4096
	// longest is where numbers end.
	longest = 50 * 365 * 24 * time.Hour
	// Unknown is what is expected when nothing at all is known.
	Unknown = time.Hour
	// firstLook is what the work of a user who is new is taken for at first, probing is for how long.
	firstLook, probing = time.Minute, 10 * time.Minute
)

// New knows nothing yet.
func New() *Predictor { return &Predictor{ran: newTable(), ratios: newTable()} }

type table struct {
	by  map[Key]*list.Element // of *row
	age *list.List            // most recently used first
}

type row struct {
	key Key
	sketch
}

func newTable() table { return table{by: map[Key]*list.Element{}, age: list.New()} }

func (t *table) add(k Key, x int64) {
	e, ok := t.by[k]
	if !ok {
		if t.age.Len() >= MaxTables {
			last := t.age.Back()
			delete(t.by, last.Value.(*row).key)
			t.age.Remove(last)
		}
		e = t.age.PushFront(&row{key: k})
		t.by[k] = e
	}
	t.age.MoveToFront(e)
	e.Value.(*row).add(x)
}

// find is the first of these with enough in it, else the last that has anything.
func (t *table) find(keys ...Key) *sketch {
	var best *sketch
	for _, k := range keys {
		if e, ok := t.by[k]; ok {
			best = &e.Value.(*row).sketch
			if best.total >= enough {
				return best
			}
		}
	}
	return best
}

// likeness goes from the most special to everybody. Sizes of gangs count in octaves beyond the
// first table.
func likeness(k Key) []Key {
	size := -1 - bits.Len(uint(max(k.Devices, 0)))
	return []Key{k, {User: k.User, Devices: size}, {Devices: size}, {Devices: -1 << 20}}
}

func ratioKeys(k Key) []Key { return []Key{{User: k.User, Devices: -2 << 20}, {Devices: -1 << 20}} }

// Learn counts one that finished: how long it really ran, and what was declared (0: nothing).
func (p *Predictor) Learn(k Key, ran, declared time.Duration) {
	if ran <= 0 {
		return
	}
	ran = min(ran, longest)
	for _, like := range likeness(k) {
		p.ran.add(like, seconds(ran))
	}
	if declared <= 0 {
		return
	}
	ratio := int64(min(float64(ran)/float64(declared), 1<<20) * unit)
	for _, like := range ratioKeys(k) {
		p.ratios.add(like, max(ratio, 1))
	}
}

// Estimate is what is known of one workload's time.
type Estimate struct {
	s     *sketch
	scale time.Duration // what one of the sketch's units is worth
	guess time.Duration // where s has nothing to say
	// unknown: the guess is nobody's word.
	unknown bool
	// strange: nothing of its user's has finished, and the user said nothing.
	strange bool
}

// Estimate finds the steadier of what is known of its like and of what its user declares.
func (p *Predictor) Estimate(k Key, declared time.Duration) Estimate {
	ran := p.ran.find(likeness(k)...)
	if declared > 0 {
		ratio := p.ratios.find(ratioKeys(k)...)
		e := Estimate{s: ratio, scale: max(declared/unit, 1), guess: declared}
		if ratio == nil || ratio.total < enough { // a word is better than nothing, and than everybody's habits
			e.s = nil
			return e
		}
		if ran == nil || ratio.spread() <= ran.spread() {
			return e
		}
	}
	return Estimate{s: ran, scale: time.Second, guess: Unknown, unknown: true, strange: declared <= 0 && p.ran.find(likeness(k)[:2]...) == nil}
}

// Probe is Index for work that may be stopped again. Of a user who is new only the work of others is known, which may be long. It is tried
// first for a little while, as if nothing at all were known: if it is short it is over by then, else it is one of many.
func (e Estimate) Probe(already time.Duration) time.Duration {
	index := e.Index(already)
	if e.strange && already < probing {
		return min(index, max(already, firstLook))
	}
	return index
}

// Mean is how much longer it runs on average, having run for a while already. One that outlived
// everything known is expected to run as long again.
func (e Estimate) Mean(already time.Duration) time.Duration {
	if e.s != nil {
		if x, ok := e.s.residual(int64(already / e.scale)); ok {
			return max(times(x, e.scale), time.Second)
		}
	}
	return e.beyond(already)
}

// Index is how much time has to be spent for one end, if the time is spent as well as it can be: of
// all times one might give it before it is looked at again, the least expected time by the share of
// cases in which it ends within it (Gittins' index, turned over). Of something that is usually over in minutes and at
// times takes days it is minutes at first, and days after those minutes. Where nothing is known it
// is as long as it ran: whoever has run for t runs as long again.
func (e Estimate) Index(already time.Duration) time.Duration {
	if e.s != nil {
		if x, ok := e.s.index(int64(already / e.scale)); ok {
			return max(times(x, e.scale), time.Second)
		}
	} else if e.unknown {
		return max(already, time.Second)
	}
	return e.beyond(already)
}

// Quantile is how much longer at most, in the share q of cases.
func (e Estimate) Quantile(q float64, already time.Duration) time.Duration {
	if e.s != nil {
		if x, ok := e.s.quantile(int64(q*1024), int64(already/e.scale)); ok {
			return max(times(x, e.scale)-already, time.Second)
		}
	}
	return e.beyond(already)
}

// Tells says that something is known of how much longer one runs that has run for a while: somebody declared a time that is not over, or
// enough of its like ran longer. Else a time is only what the planner reckons with, and nothing to promise.
func (e Estimate) Tells(already time.Duration) bool {
	if e.s == nil {
		return !e.unknown && already < e.guess
	}
	_, ok := e.s.quantile(512, int64(already/e.scale))
	return ok && e.s.total >= enough
}

func (e Estimate) beyond(already time.Duration) time.Duration {
	if already < e.guess {
		return e.guess - already
	}
	return max(already, time.Second)
}

// times is bounded: nothing runs for longer than longest.
func times(x int64, scale time.Duration) time.Duration {
	if x > int64(longest/scale) {
		return longest
	}
	return time.Duration(x) * scale
}

func seconds(d time.Duration) int64 { return max(int64(d/time.Second), 1) }
