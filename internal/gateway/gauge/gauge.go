// Package gauge reads how busy an engine says it is.
//
// Place: layer 4, below the gateway; pure. Promise: of a text in Prometheus' format, however long and whatever it holds, the named gauges are read, and
// nothing else is kept. Enemies: a replica that writes without end, lines without end, values that are no numbers.
package gauge

import (
	"bufio"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Most is how much is read.
const Most = 4 << 20

const maxLine = 64 << 10

// Load is what an engine says of itself.
type Load struct {
	Waiting float64 // requests
	Held    float64 // share of its cache, 0 to 1
}

// Read finds gauges by their names: of several with one name (parts of a replica), waiting requests are added up and the fullest cache counts.
// false: it names no waiting requests.
func Read(from io.Reader, waiting, held []string) (l Load, ok bool) {
	lines := bufio.NewScanner(io.LimitReader(from, Most))
	lines.Buffer(make([]byte, 0, 4<<10), maxLine)
	for lines.Scan() {
		name, value, is := sample(lines.Text())
		switch {
		case !is:
		case slices.Contains(waiting, name):
			l.Waiting, ok = l.Waiting+value, true
		case slices.Contains(held, name):
			l.Held = max(l.Held, min(value, 1))
		}
	}
	return l, ok && lines.Err() == nil
}

// sample is one line: NAME{LABELS} VALUE [TIME].
func sample(line string) (name string, value float64, ok bool) {
	end := strings.IndexAny(line, "{ \t")
	if end <= 0 || line[0] == '#' {
		return "", 0, false
	}
	name, rest := line[:end], line[end:]
	if rest[0] == '{' {
		rest = rest[strings.LastIndexByte(rest, '}')+1:]
	}
	words := strings.Fields(rest)
	if len(words) == 0 {
		return "", 0, false
	}
	value, err := strconv.ParseFloat(words[0], 64)
	return name, value, err == nil && value >= 0 && !math.IsInf(value, 0)
}
