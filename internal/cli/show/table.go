package show

import (
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// Tone is the mood of a cell; colour where there is a terminal.
type Tone int

const (
	Plain Tone = iota
	Good
	Busy
	Bad
	Faint
)

var colours = map[Tone]string{Good: "\x1b[32m", Busy: "\x1b[33m", Bad: "\x1b[31m", Faint: "\x1b[2m"}

type Cell struct {
	Text string
	Tone Tone
}

func Text(s string) Cell { return Cell{Text: s} }

type Column struct {
	Head  fault.Text
	Right bool
	// Fixed columns are never cut: names that are typed again, numbers, states.
	Fixed bool
}

// screen is what the output can do. Zero is a file: no colour, any width.
type screen struct {
	Width  int
	Colour bool
}

// ScreenOf looks at where the output goes.
func ScreenOf(w io.Writer) screen {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return screen{}
	}
	s := screen{Colour: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
	if n, _, err := term.GetSize(int(f.Fd())); err == nil {
		s.Width = n
	}
	return s
}

func IsTerminal(v any) bool {
	f, ok := v.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

const (
	gap      = 2
	leastCol = 6
)

// Write prints rows under headers, every line within the screen's width.
func Write(w io.Writer, cols []Column, rows [][]Cell, lang string, scr screen) error {
	widths := make([]int, len(cols))
	for i, c := range cols {
		widths[i] = cells(c.Head.In(lang))
		for _, row := range rows {
			widths[i] = max(widths[i], cells(Clean(row[i].Text)))
		}
	}
	fit(widths, cols, scr.Width)
	var b strings.Builder
	line := func(get func(i int) Cell) {
		var l strings.Builder
		for i, c := range cols {
			it := get(i)
			s := Cut(Clean(it.Text), widths[i])
			padded := s
			if i < len(cols)-1 || c.Right {
				padded = pad(s, widths[i], c.Right)
			}
			if code := colours[it.Tone]; code != "" && scr.Colour && s != "" {
				padded = strings.Replace(padded, s, code+s+"\x1b[0m", 1)
			}
			l.WriteString(padded)
			if i < len(cols)-1 {
				l.WriteString(strings.Repeat(" ", gap))
			}
		}
		b.WriteString(strings.TrimRight(l.String(), " ") + "\n")
	}
	line(func(i int) Cell { return Cell{cols[i].Head.In(lang), Faint} })
	for _, row := range rows {
		line(func(i int) Cell { return row[i] })
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Table prints rows under their heads in columns, for what is shown beside the API.
func Table(w io.Writer, heads []string, rows [][]string) error {
	cols, lines := make([]Column, len(heads)), make([][]Cell, len(rows))
	for i, h := range heads {
		cols[i] = Column{Head: fault.Text{EN: h, ZH: h}, Fixed: true}
	}
	for i, row := range rows {
		for _, s := range row {
			lines[i] = append(lines[i], Text(s))
		}
	}
	return Write(w, cols, lines, "en", ScreenOf(w))
}

// fit shrinks the widest columns until a line has room; fixed ones only when nothing else is left.
func fit(widths []int, cols []Column, room int) {
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
				if (touchFixed || !cols[i].Fixed) && w > leastCol && (widest < 0 || w > widths[widest]) {
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

func Col(en, zh string) Column { return Column{Head: fault.Text{EN: en, ZH: zh}} }

func Fixed(en, zh string) Column { return Column{Head: fault.Text{EN: en, ZH: zh}, Fixed: true} }

func Number(en, zh string) Column {
	return Column{Head: fault.Text{EN: en, ZH: zh}, Fixed: true, Right: true}
}
