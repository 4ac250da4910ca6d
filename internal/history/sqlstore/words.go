package sqlstore

import (
	"encoding/base32"
	"encoding/binary"
	"slices"
	"sort"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/history"
)

// A word is the hash of something a row can be found by: a pair of neighbouring characters of
// its haystack, its project, its phase … Two may share a hash: what is found by words is a
// superset, and the exact conditions are checked on the row.
type word uint64

// newWord hashes with FNV-1a, written out: a list's worth of these is made for every row.
func newWord(tag byte, parts ...string) word {
	const prime = 1099511628211
	h := (14695981039346656037 ^ uint64(tag)) * prime
	for _, p := range parts {
		for i := range len(p) {
			h = (h ^ uint64(p[i])) * prime
		}
		h *= prime // as if a zero ended each part
	}
	return mix(h)
}

// mix spreads what differs over all bits.
func mix(x uint64) word {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	x ^= x >> 33
	return word(x)
}

var termEncoding = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// term is the word as the full-text index knows it: eight letters and digits, 40 bits.
func (w word) term() string {
	var raw [8]byte
	binary.BigEndian.PutUint64(raw[:], uint64(w))
	return termEncoding.EncodeToString(raw[:5])
}

const (
	tagPair    = 'g'
	tagWindow  = 'w'
	tagChar    = 'c'
	tagProject = 'p'
	tagOwner   = 'o'
	tagPhase   = 'f'
	tagQueue   = 'q'
	tagLabel   = 'l'
)

// entry is an archived row on its way in or out, without its number.
type entry struct {
	kind                           api.Kind
	id, project, owner, name       string
	sortKey, updated, phase, queue string
	labels, haystack               string
	expires                        any // int64 or nil
	body                           []byte
	text                           string // terms, made once
	mark                           []word // marks, made once
}

// words are what the full-text index holds for a row, in no order, each once.
func (e *entry) words() []word {
	kind := string(e.kind)
	out := make([]word, 0, len(e.haystack)+8)
	out = append(out, newWord(tagProject, kind, e.project), newWord(tagOwner, kind, e.owner),
		newWord(tagPhase, kind, e.phase), newWord(tagQueue, kind, e.queue))
	for l := range strings.SplitSeq(e.labels, labelSep) {
		if l != "" {
			out = append(out, newWord(tagLabel, kind, l))
		}
	}
	out = append(out, pairs(e.haystack)...)
	slices.Sort(out)
	return slices.Compact(out)
}

// marks are what the zones of a row know it by.
func (e *entry) marks() []word { return append(e.words(), chars(e.haystack)...) }

// terms is words and windows as text for the full-text index.
func (e *entry) terms() string {
	words := append(e.words(), windows(e.haystack)...)
	slices.Sort(words)
	words = slices.Compact(words)
	b := make([]byte, 0, 9*len(words))
	for _, w := range words {
		b = append(append(b, w.term()...), ' ')
	}
	return string(b)
}

// pairs are the pairs of neighbouring characters; none crosses a line.
func pairs(s string) []word {
	out := make([]word, 0, len(s))
	last := '\n'
	for _, r := range s {
		if r != '\n' && last != '\n' {
			out = append(out, mix(tagPair<<56|uint64(last)<<24|uint64(r)))
		}
		last = r
	}
	return out
}

// windowSize is how long a search must be to be looked up by windows instead of pairs.
const windowSize = 6

// windows are the runs of windowSize characters; none crosses a line. The pairs of a long search
// such as a whole name are all common ("task-0" is in every row); its windows are not.
func windows(s string) []word {
	var out []word
	for line := range strings.SplitSeq(s, "\n") {
		runes := []rune(line)
		for i := 0; i+windowSize <= len(runes); i++ {
			out = append(out, newWord(tagWindow, string(runes[i:i+windowSize])))
		}
	}
	return out
}

func chars(s string) []word {
	out := make([]word, 0, len(s))
	for _, r := range s {
		out = append(out, mix(tagChar<<56|uint64(r)))
	}
	return out
}

// labelSep frames labels in their column, so that one label is a substring. It cannot occur in a
// label, which is printable.
const labelSep = "\x1f"

func joinLabels(labels map[string]string) string {
	if len(labels) == 0 {
		return ""
	}
	all := make([]string, 0, len(labels))
	for k, v := range labels {
		all = append(all, k+"="+v)
	}
	sort.Strings(all)
	return labelSep + strings.Join(all, labelSep) + labelSep
}

// needs is what a row must have to match a query: of every group one word.
type needs [][]word

// needsOf leaves out single characters: the full-text index does not hold them.
func needsOf(q history.ListQuery) needs {
	var out needs
	kind := string(q.Kind)
	if q.Project != "" {
		out = append(out, []word{newWord(tagProject, kind, q.Project)})
	}
	if q.Owner != "" {
		out = append(out, []word{newWord(tagOwner, kind, q.Owner)})
	}
	if q.Queue != "" {
		out = append(out, []word{newWord(tagQueue, kind, q.Queue)})
	}
	if len(q.Phase) > 0 {
		var any []word
		for _, p := range q.Phase {
			any = append(any, newWord(tagPhase, kind, p))
		}
		out = append(out, any)
	}
	for k, v := range q.Labels {
		out = append(out, []word{newWord(tagLabel, kind, k+"="+v)})
	}
	for _, w := range pairs(history.Fold(q.Search)) {
		out = append(out, []word{w})
	}
	return out
}

// wordNeeds is what the full-text index is asked for: the windows of a long search alone, because
// every other condition is checked on the rows found, and would cost a walk of its own list here.
func wordNeeds(q history.ListQuery) needs {
	var out needs
	for _, w := range windows(history.Fold(q.Search)) {
		out = append(out, []word{w})
	}
	if len(out) == 0 {
		return needsOf(q)
	}
	return out
}

// match is the needs as a full-text expression.
func (n needs) match() string {
	var groups []string
	for _, g := range n {
		var any []string
		for _, w := range g {
			any = append(any, `"`+w.term()+`"`)
		}
		groups = append(groups, "("+strings.Join(any, " OR ")+")")
	}
	return strings.Join(groups, " AND ")
}
