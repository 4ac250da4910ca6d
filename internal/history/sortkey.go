package history

import (
	"encoding/base32"
	"sync"
	"time"

	"golang.org/x/text/collate"
	"golang.org/x/text/language"
)

// maxSortKey bounds a key before encoding: names that agree for so long are ordered by id.
const maxSortKey = 80

// orderly is base 32 with an alphabet in byte order, so that encoded keys compare as raw ones.
var orderly = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// A Collator is not safe for concurrent use and not cheap to make.
var collators = sync.Pool{New: func() any {
	return &keyMaker{coll: collate.New(language.Chinese, collate.Numeric, collate.Loose)}
}}

type keyMaker struct {
	coll *collate.Collator
	buf  collate.Buffer
}

// SortKey is the value by which displayName sorts, as plain ASCII: Chinese by pinyin, digits as
// numbers ("run 9" before "run 10"), case and accents aside (equal keys are ordered by id). The same text gives the same key everywhere, so that a
// server can merge live objects into a list of archived ones.
func SortKey(displayName string) string {
	m := collators.Get().(*keyMaker)
	defer collators.Put(m)
	m.buf.Reset()
	key := m.coll.KeyFromString(&m.buf, displayName)
	return orderly.EncodeToString(key[:min(len(key), maxSortKey)])
}

// TimeKey is the value by which times sort: RFC 3339 in UTC, with all nine digits.
func TimeKey(t time.Time) string {
	t = t.UTC()
	year, month, day := t.Date()
	if year < 0 || year > 9999 {
		return t.Format("2006-01-02T15:04:05.000000000Z")
	}
	hour, minute, second := t.Clock()
	key := []byte("0000-00-00T00:00:00.000000000Z") // by hand: a sorted list makes one for every live object
	for _, part := range []struct{ end, value int }{{4, year}, {7, int(month)}, {10, day}, {13, hour}, {16, minute}, {19, second}, {29, t.Nanosecond()}} {
		for i, v := part.end-1, part.value; v > 0; i, v = i-1, v/10 {
			key[i] += byte(v % 10)
		}
	}
	return string(key)
}
