package show

import (
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

// runeWidth is how many terminal cells a character takes: 2 for CJK and emoji, 0 for marks.
func runeWidth(r rune) int {
	switch {
	case r < ' ' || r == 0x7f:
		return 0
	case r < 0x7f:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// cells is the width of a text on a terminal.
func cells(s string) int {
	n := 0
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

// Cut shortens a text to at most max cells, ending with … where something was cut.
func Cut(s string, max int) string {
	if cells(s) <= max {
		return s
	}
	if max <= 0 {
		return ""
	}
	var b strings.Builder
	n := 0
	for _, r := range s {
		w := runeWidth(r)
		if n+w > max-1 {
			break
		}
		b.WriteRune(r)
		n += w
	}
	return b.String() + "…"
}

// pad fills a text with spaces to n cells, on the left when right-aligned.
func pad(s string, n int, right bool) string {
	fill := strings.Repeat(" ", max(0, n-cells(s)))
	if right {
		return fill + s
	}
	return s + fill
}

// Clean is visible in one line.
func Clean(s string) string { return Visible(oneLine.Replace(s)) }

var oneLine = strings.NewReplacer("\n", " ", "\t", " ", "\r", " ")
