package logbook

import (
	"bytes"
	"errors"
	"strconv"
	"time"
)

// MaxText is the most text one stored line holds; a longer one is cut into partial lines.
const MaxText = 16 << 10

// timeLayout has a fixed width, so that a line's fields stand where they stand.
const timeLayout = "2006-01-02T15:04:05.000000000Z"

// Line is one line of output.
//
// As bytes it is `2006-01-02T15:04:05.000000000Z <rank> <O|E> <F|P> <text>\n`. The text is the
// process's own bytes, whatever they are, except newline.
type Line struct {
	Time    time.Time // UTC
	Rank    int       // -1: no rank's, the launcher speaks
	Stream  byte      // 'O' standard output, 'E' standard error
	Partial bool      // the line was longer than MaxText and goes on in the next
	Text    []byte
}

// AppendLine appends l and its newline. Text beyond MaxText is dropped and newlines inside become
// spaces: callers cut before.
func AppendLine(dst []byte, l Line) []byte {
	t := l.Time.UTC()
	if y := t.Year(); y < 0 || y > 9999 {
		t = time.Unix(0, 0).UTC()
	}
	dst = t.AppendFormat(dst, timeLayout)
	dst = append(dst, ' ')
	dst = strconv.AppendInt(dst, int64(max(l.Rank, -1)), 10)
	stream, part := byte('O'), byte('F')
	if l.Stream == 'E' {
		stream = 'E'
	}
	if l.Partial {
		part = 'P'
	}
	dst = append(dst, ' ', stream, ' ', part, ' ')
	at := len(dst)
	dst = append(dst, l.Text[:min(len(l.Text), MaxText)]...)
	for i := at; ; i++ {
		n := bytes.IndexByte(dst[i:], '\n')
		if n < 0 {
			return append(dst, '\n')
		}
		i += n
		dst[i] = ' '
	}
}

var errLine = errors.New("logbook: not a log line")

// ParseLine reads a line without its newline. It is strict: what it accepts, AppendLine writes
// back byte for byte. Text points into b.
func ParseLine(b []byte) (Line, error) {
	const n = len(timeLayout)
	if len(b) < n+7 || b[n] != ' ' {
		return Line{}, errLine
	}
	t, ok := parseTime(b[:n])
	if !ok {
		return Line{}, errLine
	}
	rest := b[n+1:]
	sp := bytes.IndexByte(rest[:min(len(rest), 12)], ' ')
	if sp < 1 {
		return Line{}, errLine
	}
	rank, ok := parseRank(rest[:sp])
	if rest = rest[sp+1:]; !ok || len(rest) < 4 || rest[1] != ' ' || rest[3] != ' ' {
		return Line{}, errLine
	}
	l := Line{Time: t, Rank: rank, Stream: rest[0], Partial: rest[2] == 'P', Text: rest[4:]}
	if l.Stream != 'O' && l.Stream != 'E' || rest[2] != 'P' && rest[2] != 'F' ||
		len(l.Text) > MaxText || bytes.IndexByte(l.Text, '\n') >= 0 {
		return Line{}, errLine
	}
	return l, nil
}

func parseRank(b []byte) (int, bool) {
	if string(b) == "-1" {
		return -1, true
	}
	if len(b) > 9 || b[0] == '0' && len(b) > 1 {
		return 0, false
	}
	v, ok := digits(b)
	return v, ok
}

// parseTime is time.Parse for the one layout, without its cost: logs are read by the gigabyte.
func parseTime(b []byte) (time.Time, bool) {
	if b[4] != '-' || b[7] != '-' || b[10] != 'T' || b[13] != ':' || b[16] != ':' || b[19] != '.' || b[29] != 'Z' {
		return time.Time{}, false
	}
	var v [7]int
	for i, span := range [7][2]int{{0, 4}, {5, 7}, {8, 10}, {11, 13}, {14, 16}, {17, 19}, {20, 29}} {
		n, ok := digits(b[span[0]:span[1]])
		if !ok {
			return time.Time{}, false
		}
		v[i] = n
	}
	t := time.Date(v[0], time.Month(v[1]), v[2], v[3], v[4], v[5], v[6], time.UTC)
	// Date moves what is out of range (February 30th) to where it belongs; we refuse it.
	ok := t.Month() == time.Month(v[1]) && t.Day() == v[2] && v[3] < 24 && v[4] < 60 && v[5] < 60
	return t, ok
}

func digits(b []byte) (int, bool) {
	n := 0
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, len(b) > 0
}
