package link

import (
	"time"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link/hearing"
	"github.com/fermi-cluster/fermi/internal/link/ledger"
	"github.com/fermi-cluster/fermi/internal/link/linkpb"
)

// lastWords are what each launcher said last. The roll locks them.
type lastWords struct {
	ears    *hearing.Ears
	outputs *ledger.Ledger // swept with them
	by      map[engine.Name]*known
	swept   time.Time
}

// known is what a launcher told last; it is kept a while after the launcher hung up.
type known struct {
	state   engine.State
	usage   Usage
	ranks   *linkpb.Ranks  // nil: it said nothing; never changed
	probed  *linkpb.Probed // the answer to the last probe; never changed
	seen    time.Time
	session int64 // of its last stream here
}

func (k *known) advance(s engine.State) {
	if stateRank[s] > stateRank[k.state] {
		k.state = s
	}
}

// keepKnown is how long the last word of a launcher that hung up is remembered. Records on disk
// are the truth; this is only for showing.
const keepKnown = 10 * time.Minute

// of finds or makes the memory of a replica; it was heard of now.
func (w *lastWords) of(name engine.Name, now time.Time, attached map[engine.Name]*peer) *known {
	k := w.by[name]
	if k == nil {
		k = &known{}
		w.by[name] = k
	}
	k.seen = now
	w.sweep(now, attached)
	return k
}

// sweep drops last words that nobody needs any more; at most once a minute.
func (w *lastWords) sweep(now time.Time, attached map[engine.Name]*peer) {
	if now.Sub(w.swept) < time.Minute {
		return
	}
	w.swept = now
	for name, k := range w.by {
		if attached[name] == nil && now.Sub(k.seen) > keepKnown {
			delete(w.by, name)
			w.ears.Forget(name)
		}
	}
	w.outputs.Sweep(now, keepKnown)
}
