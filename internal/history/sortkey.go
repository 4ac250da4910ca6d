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
func TimeKey(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000000Z") }
