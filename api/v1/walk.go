package v1

import (
	"encoding"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// walker compares a tree with a Go type and notes every difference with its path. It is the
// reason why a manifest's faults come all at once: encoding/json stops at the first.
type walker struct{ f *faults }

var (
	unmarshaler = reflect.TypeFor[json.Unmarshaler]()
	textReader  = reflect.TypeFor[encoding.TextUnmarshaler]()
	timeType    = reflect.TypeFor[time.Time]()
)

// walk checks v against t. Null counts as absent for a field of a struct; elsewhere it is refused.
func (w walker) walk(path string, v any, t reflect.Type, nonzero bool) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(unmarshaler) || reflect.PointerTo(t).Implements(textReader) {
		w.own(path, v, t, nonzero)
		return
	}
	switch t.Kind() {
	case reflect.Struct:
		w.object(path, v, t)
	case reflect.Map:
		w.dict(path, v, t)
	case reflect.Slice:
		w.array(path, v, t)
	case reflect.Interface:
		w.anything(path, v)
	default:
		w.scalar(path, v, t, nonzero)
	}
}

// own lets a type with its own JSON form read the value.
func (w walker) own(path string, v any, t reflect.Type, nonzero bool) {
	data, err := json.Marshal(v)
	if err != nil {
		w.bad(path, v, "a value", "一个值")
		return
	}
	got := reflect.New(t)
	if err := json.Unmarshal(data, got.Interface()); err != nil {
		var ve *ValueError
		switch {
		case errors.As(err, &ve):
			w.f.Put(path, "BadValue", ve.Text)
		case t == timeType:
			w.bad(path, v, "a time such as \"2026-01-02T15:04:05Z\"", "形如 \"2026-01-02T15:04:05Z\" 的时间")
		default:
			w.bad(path, v, "another form", "其他形式的值")
		}
		return
	}
	if nonzero && got.Elem().IsZero() {
		w.zero(path)
	}
}

func (w walker) object(path string, v any, t reflect.Type) {
	m, ok := v.(map[string]any)
	if !ok {
		w.bad(path, v, "an object with fields", "包含字段的对象")
		return
	}
	fields := fieldsOf(t)
	for _, key := range sortedKeys(m) {
		if w.f.Enough() {
			return
		}
		at := child(path, key)
		field, known := fields[key]
		switch {
		case !known:
			w.f.Put(at, "UnknownField", unknown(key, fields))
		case m[key] == nil:
			// absent
		default:
			w.walk(at, m[key], field.Type, field.Tag.Get("explicit") == "nonzero")
		}
	}
}

func (w walker) dict(path string, v any, t reflect.Type) {
	m, ok := v.(map[string]any)
	if !ok {
		w.bad(path, v, "an object of names and values", "由名称和值组成的对象")
		return
	}
	for _, key := range sortedKeys(m) {
		if w.f.Enough() {
			return
		}
		at := child(path, key)
		if m[key] == nil {
			w.bad(at, nil, "a value", "一个值")
			continue
		}
		w.walk(at, m[key], t.Elem(), false)
	}
}

func (w walker) array(path string, v any, t reflect.Type) {
	s, ok := v.([]any)
	if !ok {
		w.bad(path, v, "a list", "列表")
		return
	}
	for i, e := range s {
		if w.f.Enough() {
			return
		}
		if e == nil {
			w.bad(item(path, i), nil, "a value", "一个值")
			continue
		}
		w.walk(item(path, i), e, t.Elem(), false)
	}
}

// anything takes whatever Validate will judge; only numbers that float64 would silently change
// are refused here, where their digits can still be seen.
func (w walker) anything(path string, v any) {
	n, ok := v.(json.Number)
	if !ok {
		return
	}
	x, err := n.Float64()
	if err != nil || math.IsInf(x, 0) {
		w.bad(path, v, "a number of at most 1.8e308", "不超过 1.8e308 的数值")
		return
	}
	if !strings.ContainsAny(string(n), ".eE") && strconv.FormatFloat(x, 'f', -1, 64) != string(n) {
		w.f.Put(path, "BadValue", fault.T("%s has more digits than a number keeps exactly; put it in quotes.", "%s 的位数超出可精确表示的范围，请加引号写成文本。", quote(string(n))))
	}
}

func (w walker) scalar(path string, v any, t reflect.Type, nonzero bool) {
	switch t.Kind() {
	case reflect.String:
		if _, ok := v.(string); !ok {
			w.bad(path, v, "text; put it in quotes if it looks like a number or true/false", "文本；如果看起来像数字或 true/false，请加引号")
		}
	case reflect.Bool:
		if _, ok := v.(bool); !ok {
			w.bad(path, v, "true or false", "true 或 false")
		}
	case reflect.Float32, reflect.Float64:
		n, ok := v.(json.Number)
		if x, err := n.Float64(); !ok || err != nil || math.IsInf(x, 0) {
			w.bad(path, v, "a number such as 1.5", "数值，例如 1.5")
		}
	default:
		w.integer(path, v, t, nonzero)
	}
}

func (w walker) integer(path string, v any, t reflect.Type, nonzero bool) {
	n, ok := v.(json.Number)
	var err error
	zero := false
	if t.Kind() >= reflect.Uint && t.Kind() <= reflect.Uint64 {
		var u uint64
		u, err = strconv.ParseUint(string(n), 10, t.Bits())
		zero = u == 0
	} else {
		var i int64
		i, err = strconv.ParseInt(string(n), 10, t.Bits())
		zero = i == 0
	}
	switch {
	case !ok || err != nil:
		w.bad(path, v, "a whole number without a unit, such as 8", "不带单位的整数，例如 8")
	case zero && nonzero:
		w.zero(path)
	}
}

func (w walker) zero(path string) {
	w.f.Put(path, "BadValue", fault.T("Zero means nothing here; give a larger value, or leave the field out for the default.", "此处不能为零；请给出更大的值，或去掉此字段以使用默认值。"))
}

func (w walker) bad(path string, v any, en, zh string) {
	w.f.Put(path, "BadValue", fault.T("Expected %[1]s, not %[3]s.", "此处应为%[2]s，而不是%[4]s。", en, zh, typeEN(v), typeZH(v)))
}

func typeEN(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return "the text " + quote(v)
	case json.Number:
		return "the number " + short(string(v))
	case bool:
		return strconv.FormatBool(v)
	case []any:
		return "a list"
	}
	return "an object"
}

func typeZH(v any) string {
	switch v := v.(type) {
	case nil:
		return "空值 null"
	case string:
		return "文本 " + quote(v)
	case json.Number:
		return "数字 " + short(string(v))
	case bool:
		return " " + strconv.FormatBool(v)
	case []any:
		return "列表"
	}
	return "对象"
}

func short(s string) string {
	if len(s) > 32 {
		return s[:30] + "…"
	}
	return s
}

// fieldsOf is the JSON fields of a struct by name, those of embedded ones with it.
func fieldsOf(t reflect.Type) map[string]reflect.StructField {
	out := make(map[string]reflect.StructField, t.NumField())
	for field := range t.Fields() {
		if field.Anonymous && field.Tag.Get("json") == "" {
			maps.Copy(out, fieldsOf(field.Type))
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name != "" && name != "-" {
			out[name] = field
		}
	}
	return out
}

func unknown(key string, fields map[string]reflect.StructField) fault.Text {
	names := sortedKeys(fields)
	text := fault.T("There is no field %s here; known are %s.", "此处没有字段 %s，可用字段有 %s。", quote(key), strings.Join(names, ", "))
	return suggest(text, key, names)
}

// suggest adds the nearest known word, if one is near enough to be a slip of the finger.
func suggest(text fault.Text, word string, known []string) fault.Text {
	best, at := "", 1+max(1, min(3, len(word)/3))
	if len(word) > 64 {
		return text
	}
	for _, k := range known {
		if d := distance(strings.ToLower(word), strings.ToLower(k)); d < at {
			best, at = k, d
		}
	}
	if best == "" {
		return text
	}
	return fault.T("%[1]s Did you mean %[3]s?", "%[2]s您是否想写 %[3]s？", text.EN, text.ZH, best)
}

// distance counts the insertions, deletions, replacements and swaps of neighbours between two
// short words (optimal string alignment).
func distance(a, b string) int {
	prev2 := make([]int, len(b)+1)
	prev := make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur := make([]int, len(b)+1)
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev = prev, cur
	}
	return prev[len(b)]
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
