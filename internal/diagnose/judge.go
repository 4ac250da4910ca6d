package diagnose

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/fermi-cluster/fermi/internal/pattern"
)

// Evidence is what is known of one end.
type Evidence struct {
	Rank   int // -1: of a whole replica
	Code   int
	Signal string
	Reason string // of engine.Exit, or one of those below
	Words  string // the last it printed, at most MaxWords
	At     time.Time
}

// The reasons of an end that nobody saw: the process lives and does nothing.
const (
	ReasonStopped = "ProcessStopped" // by a signal
	ReasonHung    = "Hung"
)

// MaxWords bounds the last words of a rank.
const MaxWords = 8 << 10

// Cause is the first rule that matches; there is always one.
func (t Table) Cause(e Evidence) *Rule {
	words := e.Words
	if len(words) > MaxWords {
		words = words[len(words)-MaxWords:]
	}
	final := lastTraceback(words)
	for _, r := range t {
		if r.matches(e, words, final) {
			return r
		}
	}
	return t[len(t)-1]
}

// lastTraceback is the text from the last traceback on; "" where there is none. An exception that was
// handled, or led to another, comes before it.
func lastTraceback(words string) string {
	i := strings.LastIndex(words, "Traceback (most recent call last)")
	if i < 0 {
		return ""
	}
	return words[i:]
}

// Judge names the end that caused the others: the earliest with a cause of its own, else the earliest.
// Of those at the same moment the lowest rank counts. The list must not be empty.
func (t Table) Judge(list []Evidence) (guilty int, cause *Rule) {
	guilty = -1
	for i, e := range list {
		c := t.Cause(e)
		if guilty >= 0 && !before(e, c, list[guilty], cause) {
			continue
		}
		guilty, cause = i, c
	}
	return guilty, cause
}

func before(a Evidence, ca *Rule, b Evidence, cb *Rule) bool {
	switch {
	case ca.Guilt != cb.Guilt:
		return ca.Guilt == Own
	case !a.At.Equal(b.At):
		return a.At.Before(b.At)
	}
	return a.Rank < b.Rank
}

var (
	frame     = pattern.New(`(?m)^(?:\[rank\d+\]:)?\s*File "([^"]*)", line (\d+), in (\S+)`)
	exception = pattern.New(`(?m)^(?:\[rank\d+\]: )?([A-Za-z_][\w.]*)(?::|$)`)
)

// Fingerprint is equal for the same failure: the same way through the program to the same kind of
// exception, or the same cause and code where there is no traceback. Values in messages differ from
// run to run and don't count.
func Fingerprint(e Evidence, cause *Rule) string {
	h := sha256.New()
	h.Write([]byte(cause.ID + "\n" + e.Signal + "\n"))
	final := lastTraceback(e.Words)
	for _, m := range frame.FindAllStringSubmatch(final, -1) {
		h.Write([]byte(m[1] + ":" + m[2] + " " + m[3] + "\n"))
	}
	if all := exception.FindAllStringSubmatch(final, -1); len(all) > 0 {
		h.Write([]byte(all[len(all)-1][1]))
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// MaxLine bounds the words that decided.
const MaxLine = 300

// Line is the words that decided: the line the rule found or, of a traceback, its exception. Of an error code that no rule
// knows more of it is the last line; "" where no words say anything.
func Line(e Evidence, cause *Rule) string {
	for _, re := range append(append([]*regexp.Regexp{}, cause.final...), cause.words...) {
		for _, text := range []string{lastTraceback(e.Words), e.Words} {
			at := re.FindStringIndex(text)
			if at == nil {
				continue
			}
			if strings.HasPrefix(text[at[0]:], "Traceback") {
				if all := exception.FindAllStringIndex(text, -1); len(all) > 0 {
					at = all[len(all)-1]
				}
			}
			return printable(lineAround(text, at[0]))
		}
	}
	if cause.ID == unknownCode {
		text := strings.TrimSpace(e.Words)
		return printable(text[strings.LastIndexByte(text, '\n')+1:])
	}
	return ""
}

// unknownCode is the rule of an error code without words that are known.
const unknownCode = "exit-code"

func lineAround(text string, at int) string {
	begin := strings.LastIndexByte(text[:at], '\n') + 1
	line, _, _ := strings.Cut(text[begin:], "\n")
	return line
}

// printable cuts a line and takes out what a terminal would obey.
func printable(line string) string {
	if len(line) > MaxLine {
		line = line[:MaxLine]
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return ' '
		}
		return r
	}, line))
}
