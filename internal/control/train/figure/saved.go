package figure

import (
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// savedApart is how far apart saves are written down at least, where nothing else is: scripts may save every few seconds.
const (
	savedApart = 30 * time.Second
	savedLook  = time.Minute // a save is nobody's turn
)

// Saved writes down the newest checkpoint: what a task would lose is counted from there.
func (t *Turn) Saved(newest *api.SavedStep) {
	old := t.After.Saved
	if t.Over || t.After.Phase != api.PhaseRunning || newest == nil {
		return
	}
	t.wakeIn(savedLook)
	if old != nil && !newest.At.After(old.At) {
		return
	}
	if t.Changed || old == nil || t.Now.Sub(old.At) >= savedApart {
		t.After.Saved, t.Changed = newest, true
	}
}
