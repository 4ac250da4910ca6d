package kubeengine

import (
	"testing"
	"time"
)

// TestNotesPause: what is known is not written again while the pause after the last writing lasts, and what has not changed is not at all.
func TestNotesPause(t *testing.T) {
	at := time.Unix(1000, 0)
	n := &notes{}
	if n.touch(false); n.due(at) {
		t.Error("not all is known yet")
	}
	if n.touch(true); !n.due(at) {
		t.Error("it has changed")
	}
	if n.due(at) {
		t.Error("nothing has changed since")
	}
	n.next = at.Add(longest)
	if n.touch(false); n.due(at.Add(longest-1)) || !n.due(at.Add(longest)) {
		t.Error("the pause does not hold, or does not end")
	}
}
