package logs

import (
	"strings"
	"testing"

	"github.com/fermi-cluster/fermi/client"
)

// TestColoursEndWithTheirLine: on a terminal colours pass, and never reach what Fermi prints next.
func TestColoursEndWithTheirLine(t *testing.T) {
	var b strings.Builder
	p := NewLogPrinter(&b, true, false)
	p.colour = true
	for _, l := range []client.LogLine{
		{Replica: "w-0", Stream: "stdout", Text: "\x1b[31mr", Partial: true},
		{Replica: "w-0", Stream: "stdout", Text: "ed"},
		{Replica: "w-0", Stream: "stdout", Text: "\x1b[32mgreen\x1b[0m plain"},
		{Replica: "w-1", Stream: "stdout", Text: "\x1b[7m", Partial: true},
		{Replica: "w-0", Stream: "stdout", Text: "\x1b[1Aup"},
	} {
		if err := p.Line(l); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Flush(); err != nil {
		t.Fatal(err)
	}
	want := "[w-0] \x1b[31mred\x1b[0m\n[w-0] \x1b[32mgreen\x1b[0m plain\n[w-0] \\x1b[1Aup\n[w-1] \x1b[7m\x1b[0m\n"
	if b.String() != want {
		t.Errorf("%q; want %q", b.String(), want)
	}
}
