package spool

import (
	"slices"
	"strings"
)

// minMasked is the shortest text that is masked: shorter ones are in every other word.
const minMasked = 4

// masker replaces what must not be seen. Longer texts first: one may contain another.
func masker(values []string) *strings.Replacer {
	var parts []string
	for _, v := range values {
		for line := range strings.Lines(v) {
			if line = strings.TrimRight(line, "\r\n"); len(line) >= minMasked {
				parts = append(parts, line)
			}
		}
	}
	slices.SortFunc(parts, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, p := range parts {
		pairs = append(pairs, p, "***")
	}
	if len(pairs) == 0 {
		return nil
	}
	return strings.NewReplacer(pairs...)
}
