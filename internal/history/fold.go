package history

import (
	"strings"

	"golang.org/x/text/unicode/norm"
)

// Fold is the form in which texts are searched: compatibility forms made one (full-width letters
// are letters), case ignored. A search for s finds what contains Fold(s) after folding.
// Text that is folded already comes back as it is, without a copy: a search folds every live name.
func Fold(s string) string {
	if !norm.NFKC.IsNormalString(s) {
		s = norm.NFKC.String(s)
	}
	return strings.ToLower(s)
}

// Haystack is the text that ListQuery.Search looks into.
func Haystack(name, displayName string) string { return Fold(name) + "\n" + Fold(displayName) }
