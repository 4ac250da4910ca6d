package show

import (
	"io"
	"strings"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// Sheet prints aligned "key: value" lines; empty values are left out.
type Sheet struct {
	W     io.Writer
	Lang  string
	lines [][2]string
}

func (d *Sheet) Add(en, zh, value string) {
	if value != "" && value != "-" {
		d.lines = append(d.lines, [2]string{fault.Text{EN: en, ZH: zh}.In(d.Lang), Clean(value)})
	}
}

func (d *Sheet) Flush() {
	n := 0
	for _, l := range d.lines {
		n = max(n, cells(l[0]))
	}
	for _, l := range d.lines {
		Line(d.W, pad(l[0]+":", n+2, false)+l[1])
	}
	d.lines = nil
}

func (d *Sheet) Section(en, zh string) {
	d.Flush()
	Line(d.W, "\n"+fault.Text{EN: en, ZH: zh}.In(d.Lang))
}

// Quote shows a command so that it can be typed again.
func Quote(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = w
		if w == "" || strings.ContainsAny(w, " \t\n\"'$`\\*?;&|<>(){}[]#~") {
			out[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(out, " ")
}
