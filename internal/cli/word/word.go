// Package word turns what people type on a command line into what a task says.
//
// Place: layer 5, below cli. Promise: pure; what it makes is within the bounds of the vocabulary. Enemies: control characters in a command.
package word

import (
	"cmp"
	"encoding/json"
	"path"
	"strings"
	"unicode"
)

// Title makes a display name out of a command: at most 64 characters that are allowed in one.
func Title(argv []string) string {
	words := append([]string{path.Base(argv[0])}, argv[1:]...)
	s := strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.Join(words, " "))), " ")
	if runes := []rune(s); len(runes) > 64 {
		s = strings.TrimSpace(string(runes[:63])) + "…"
	}
	return cmp.Or(s, "task")
}

// Scalar reads a hyper-parameter: a JSON number or boolean where it is one, otherwise text.
func Scalar(v string) any {
	switch v {
	case "true":
		return true
	case "false":
		return false
	}
	if v == "" || !(v[0] == '-' || (v[0] >= '0' && v[0] <= '9')) {
		return v
	}
	var n json.Number
	if json.Unmarshal([]byte(v), &n) == nil {
		return n
	}
	return v
}
