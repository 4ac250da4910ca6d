package cli

import (
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// tone is the mood of a cell; colour where there is a terminal.
type tone int

const (
	plain tone = iota
	good
	busy
	bad
	faint
)

var colours = map[tone]string{good: "\x1b[32m", busy: "\x1b[33m", bad: "\x1b[31m", faint: "\x1b[2m"}

type cell struct {
	text string
	tone tone
}

func text(s string) cell { return cell{text: s} }

type column struct {
	head  fault.Text
	right bool
	// fixed columns are never cut: names that are typed again, numbers, states.
	fixed bool
}

// screen is what the output can do. Zero is a file: no colour, any width.
type screen struct {
	width  int
	colour bool
}

// screenOf looks at where the output goes.
func screenOf(w io.Writer) screen {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return screen{}
	}
	s := screen{colour: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
	if n, _, err := term.GetSize(int(f.Fd())); err == nil {
		s.width = n
	}
	return s
}

func isTerminal(v any) bool {
	f, ok := v.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

const (
	gap      = 2
	leastCol = 6
)

// writeTable prints rows under headers, every line within the screen's width.
func writeTable(w io.Writer, cols []column, rows [][]cell, lang string, scr screen) error {
	widths := make([]int, len(cols))
	for i, c := range cols {
		widths[i] = cells(c.head.In(lang))
		for _, row := range rows {
			widths[i] = max(widths[i], cells(clean(row[i].text)))
		}
	}
	fit(widths, cols, scr.width)
	var b strings.Builder
	line := func(get func(i int) cell) {
		var l strings.Builder
		for i, c := range cols {
			it := get(i)
			s := cut(clean(it.text), widths[i])
			padded := s
			if i < len(cols)-1 || c.right {
				padded = pad(s, widths[i], c.right)
			}
			if code := colours[it.tone]; code != "" && scr.colour && s != "" {
				padded = strings.Replace(padded, s, code+s+"\x1b[0m", 1)
			}
			l.WriteString(padded)
			if i < len(cols)-1 {
				l.WriteString(strings.Repeat(" ", gap))
			}
		}
		b.WriteString(strings.TrimRight(l.String(), " ") + "\n")
	}
	line(func(i int) cell { return cell{cols[i].head.In(lang), faint} })
	for _, row := range rows {
		line(func(i int) cell { return row[i] })
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Table prints rows under their heads in columns, for what is shown beside the API.
func Table(w io.Writer, heads []string, rows [][]string) error {
	cols, lines := make([]column, len(heads)), make([][]cell, len(rows))
	for i, h := range heads {
		cols[i] = column{head: fault.Text{EN: h, ZH: h}, fixed: true}
	}
	for i, row := range rows {
		for _, s := range row {
			lines[i] = append(lines[i], text(s))
		}
	}
	return writeTable(w, cols, lines, "en", screenOf(w))
}

// fit shrinks the widest columns until a line has room; fixed ones only when nothing else is left.
func fit(widths []int, cols []column, room int) {
	if room <= 0 {
		return
	}
	total := gap * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	for _, touchFixed := range []bool{false, true} {
		for total > room {
			widest := -1
			for i, w := range widths {
				if (touchFixed || !cols[i].fixed) && w > leastCol && (widest < 0 || w > widths[widest]) {
					widest = i
				}
			}
			if widest < 0 {
				break
			}
			widths[widest]--
			total--
		}
	}
}
