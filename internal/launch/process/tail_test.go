package process

import (
	"strings"
	"testing"

	"github.com/fermi-cluster/fermi/internal/diagnose"
)

func TestTail(t *testing.T) {
	var all strings.Builder
	var got tail
	for i := range 4000 {
		piece := strings.Repeat(string(rune('a'+i%26)), 1+(i*i)%977)
		all.WriteString(piece)
		got.add([]byte(piece))
	}
	want := all.String()
	if w := got.Words(0); w != want[len(want)-diagnose.MaxWords:] {
		t.Errorf("%d bytes, not the last %d", len(w), diagnose.MaxWords)
	}
	mark := got.Printed()
	got.add([]byte("new"))
	if w := got.Words(mark); w != "new" {
		t.Errorf("since then %q", w)
	}
	got.add([]byte(strings.Repeat("x", 1<<20) + "end"))
	if w := got.Words(0); len(w) != diagnose.MaxWords || !strings.HasSuffix(w, "xend") || len(got.buf) > 2*diagnose.MaxWords {
		t.Errorf("%d of %d bytes", len(w), len(got.buf))
	}
}
