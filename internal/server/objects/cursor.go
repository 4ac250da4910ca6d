package objects

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"unicode/utf8"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/server/truth"
)

var SortWords = []string{
	"createdAt", "-createdAt", "name", "-name", "displayName", "-displayName", "updatedAt", "-updatedAt",
}

// order is how a list is sorted.
type order struct {
	word string // as asked: "-createdAt"
	by   string // history's column: "id", "name", "displayName", "updatedAt"
	desc bool
}

func orderOf(word string) order {
	by, desc := strings.CutPrefix(word, "-")
	if by == "createdAt" {
		by = "id" // ids sort by creation
	}
	return order{word: word, by: by, desc: desc}
}

// place is a position in an order: the sort column's value, ties broken by id.
type place struct {
	value, id string
}

// before says whether a comes earlier than b.
func (o order) before(a, b place) bool {
	if a.value != b.value {
		return (a.value < b.value) != o.desc
	}
	return a.id != b.id && (a.id < b.id) != o.desc
}

type cursor struct {
	Sort  string `json:"s"`
	Value string `json:"v,omitempty"`
	ID    string `json:"i"`
}

const maxCursor = 4 << 10

// encodeCursor makes the opaque text a client gives back.
func encodeCursor(o order, p place) string {
	data, _ := json.Marshal(cursor{Sort: o.word, Value: p.value, ID: p.id}) // strings always encode
	return base64.RawURLEncoding.EncodeToString(data)
}

// decodeCursor refuses anything this server would not have made for this order.
func decodeCursor(text string, o order) (*place, error) {
	if text == "" {
		return nil, nil
	}
	bad := fault.New(fault.Invalid, "BadCursor", fault.T("The cursor cannot be used.", "游标无效。")).WithHint(fault.T(
		"Take next of the last page as it is, with the same sort.", "请原样使用上一页的 next，并保持相同的排序。"))
	if len(text) > maxCursor {
		return nil, bad
	}
	data, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, bad.Because(err)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var c cursor
	if err := dec.Decode(&c); err != nil {
		return nil, bad.Because(err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, bad
	}
	switch {
	case c.Sort != o.word:
		return nil, bad
	case c.ID == "" || len(c.ID) > 128 || !api.IsName(c.ID):
		return nil, bad
	case o.by == "id" && c.Value != "", !utf8.ValidString(c.Value), strings.ContainsRune(c.Value, 0):
		return nil, bad
	}
	return &place{value: c.Value, id: c.ID}, nil
}

// placeOf is where an object stands in an order.
func (s *Lister) placeOf(o order, obj api.Object) place {
	m := obj.GetMeta()
	p := place{id: m.ID}
	switch o.by {
	case "name":
		p.value = m.Name
	case "displayName":
		p.value = s.keys.of(m.DisplayName)
	case "updatedAt":
		p.value = history.TimeKey(m.UpdatedAt)
	}
	return p
}

// sortKeys remembers collation keys: making one costs microseconds, and a sorted list of 100,000
// live objects needs all of them.
type sortKeys struct {
	mu sync.RWMutex
	by map[string]string
}

const maxSortKeys = 200000

// warm makes the keys of the objects of a kind that are there.
func (k *sortKeys) warm(ctx context.Context, t *truth.Truth, kind api.Kind) {
	snap, err := t.List(ctx, kind, "", 0)
	if err != nil {
		return // they are made when they are needed
	}
	snap.Ascend("", func(o api.Object) bool {
		k.of(o.GetMeta().DisplayName)
		return ctx.Err() == nil
	})
}

func (k *sortKeys) of(displayName string) string {
	k.mu.RLock()
	key, ok := k.by[displayName]
	k.mu.RUnlock()
	if ok {
		return key
	}
	key = history.SortKey(displayName)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.by == nil || len(k.by) >= maxSortKeys {
		k.by = map[string]string{}
	}
	k.by[displayName] = key
	return key
}
