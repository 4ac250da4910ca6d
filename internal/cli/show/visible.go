package show

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// What users and tasks wrote is shown on a terminal and never obeyed by it: a sequence in a log could otherwise
// move the cursor over what Fermi printed, set the window's title, write to the clipboard or have the
// terminal answer on the reader's keyboard. Nothing is dropped in silence: a control character, a character
// that changes the direction of text, and a byte that is no UTF-8 appear as what a program would be written
// with: \x1b, \u009b, \u202e. Only line ends and tabs stay as they are.
//
// Colours alone (SGR, "ESC [ … m") may pass on a terminal that shows colours: they move nothing and answer
// nothing. The one that hides text does not pass, and each line ends with the colours off.

// Visible shows a text of any number of lines. A carriage return before a line end is a line end; who prints
// progress takes the last state of a line before.
func Visible(s string) string {
	shown, _ := show(s, false)
	return shown
}

// Tinted is visible for a part of a line on a terminal with colours; open says that one is on at its end.
func Tinted(s string) (shown string, open bool) { return show(s, true) }

// ColourOff ends what tinted left open.
const ColourOff = "\x1b[0m"

func show(s string, colour bool) (string, bool) {
	if !strings.ContainsFunc(s, IsStrange) {
		return s, false
	}
	var b strings.Builder
	b.Grow(len(s) + 16)
	open := false
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case !IsStrange(r) || r == utf8.RuneError && n > 1:
			b.WriteString(s[i : i+n])
		case r == utf8.RuneError:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\r' && strings.HasPrefix(s[i+1:], "\n"):
		case r == '\x1b' && colour && sgr(s[i:]) > 0:
			n = sgr(s[i:])
			b.WriteString(s[i : i+n])
			open = s[i:i+n] != ColourOff && s[i:i+n] != "\x1b[m"
		case r == '\r':
			b.WriteString(`\r`)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += n
	}
	return b.String(), open
}

// IsStrange says that a character is not simply shown.
func IsStrange(r rune) bool {
	return r != '\n' && r != '\t' && unicode.IsControl(r) || r == utf8.RuneError || unicode.Is(unicode.Bidi_Control, r)
}

// maxSGR bounds the sequence of a colour, in bytes.
const maxSGR = 64

// sgr is the length of the sequence with which s begins when all it does is to change how text looks, without
// hiding it; 0 otherwise.
func sgr(s string) int {
	if !strings.HasPrefix(s, "\x1b[") {
		return 0
	}
	end := strings.IndexByte(s[:min(len(s), maxSGR)], 'm')
	if end < 0 {
		return 0
	}
	params := s[2:end]
	if strings.Trim(params, "0123456789;:") != "" {
		return 0
	}
	words := strings.FieldsFunc(params, func(r rune) bool { return r == ';' || r == ':' })
	for i := 0; i < len(words); i++ {
		switch strings.TrimLeft(words[i], "0") {
		case "8": // conceal
			return 0
		case "38", "48", "58": // a colour by number (5;N) or by its parts (2;R;G;B)
			if i+1 < len(words) && words[i+1] == "5" {
				i += 2
			} else {
				i += 4
			}
		}
	}
	return end + 1
}
