package shape

import (
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// Shape is a schema that was understood. It is not changed, and safe for concurrent use.
type Shape struct {
	never    bool     // the schema false: nothing fits
	types    []string // any when empty
	fields   map[string]*Shape
	required []string
	others   *Shape // of fields that are not named; nil: whatever they are
	items    *Shape
	enum     []any // scalars; nil: any value
	number   span
	above    span // exclusive bounds
	length   span // of strings, in characters
	count    span // of items
	pattern  *regexp.Regexp
	anyOf    []*Shape
	oneOf    []*Shape
	allOf    []*Shape
}

// span are two bounds; nil: none.
type span struct{ low, high *float64 }

func (s span) holds(x float64) bool {
	return (s.low == nil || x >= *s.low) && (s.high == nil || x <= *s.high)
}

func (s span) inside(x float64) bool {
	return (s.low == nil || x > *s.low) && (s.high == nil || x < *s.high)
}

// Bounds of a schema.
const (
	maxDepth = 16
	maxParts = 1000
	maxText  = 64 << 10
)

var types = []string{"object", "array", "string", "number", "integer", "boolean", "null"}

// reader makes a shape of a schema, and gathers what is wrong with it.
type reader struct {
	whole  map[string]any // what $ref leads into
	faults []fault.Field
	parts  int
}

func (r *reader) add(path, en, zh string, args ...any) {
	if len(r.faults) < 20 {
		r.faults = append(r.faults, fault.Field{Path: path, Message: fault.T(en, zh, args...)})
	}
}

// Read understands a schema, or says what it does not: paths begin with at.
func Read(at string, schema map[string]any) (*Shape, []fault.Field) {
	r := &reader{whole: schema}
	if raw, err := json.Marshal(schema); err != nil || len(raw) > maxText {
		r.add(at, "The schema has more than %d bytes, or is no JSON.", "schema 超过 %d 字节，或不是 JSON。", maxText)
		return nil, r.faults
	}
	s := r.read(at, schema, 1)
	if len(r.faults) > 0 {
		return nil, r.faults
	}
	return s, nil
}

func (r *reader) read(at string, schema any, depth int) *Shape {
	if r.parts++; r.parts > maxParts || depth > maxDepth {
		r.add(at, "The schema has more than %d parts, is nested deeper than %d, or leads back to itself.", "schema 超过 %d 个部分、嵌套深于 %d 层，或引用了自身。", maxParts, maxDepth)
		return nil
	}
	if yes, ok := schema.(bool); ok {
		return &Shape{never: !yes}
	}
	words, ok := schema.(map[string]any)
	if !ok {
		r.add(at, "A schema is an object, such as {type: string}.", "schema 应为对象，例如 {type: string}。")
		return nil
	}
	s := &Shape{}
	for _, word := range sorted(words) {
		r.word(s, at+"."+word, word, words[word], depth)
	}
	return s
}

// word reads one word of a schema.
func (r *reader) word(s *Shape, at, word string, v any, depth int) {
	switch word {
	case "$schema", "$id", "title", "description", "default", "examples", "$comment", "format", "deprecated", "readOnly", "writeOnly", "discriminator": // say nothing that is checked
	case "$defs", "definitions": // read where $ref leads to them
	case "$ref":
		if to := r.target(v); to == nil {
			r.add(at, "It leads to a schema of this one, such as #/$defs/point.", "应指向本 schema 内的定义，例如 #/$defs/point。")
		} else if one := r.read(at, to, depth+1); one != nil {
			s.allOf = append(s.allOf, one)
		}
	case "type":
		s.types = r.texts(at, v, true)
		for _, name := range s.types {
			if !slices.Contains(types, name) {
				r.add(at, "One of %s.", "必须是 %s 之一。", strings.Join(types, ", "))
			}
		}
	case "properties":
		m, ok := v.(map[string]any)
		if !ok {
			r.add(at, "It is an object of names and schemas.", "应为由名称和 schema 组成的对象。")
			return
		}
		s.fields = map[string]*Shape{}
		for _, name := range sorted(m) {
			s.fields[name] = r.read(at+"."+name, m[name], depth+1)
		}
	case "required":
		s.required = r.texts(at, v, false)
	case "additionalProperties":
		s.others = r.read(at, v, depth+1)
	case "items":
		s.items = r.read(at, v, depth+1)
	case "enum":
		list, _ := v.([]any)
		if len(list) == 0 || slices.ContainsFunc(list, isNested) {
			r.add(at, "It is a list of strings, numbers, true, false and null.", "应为由字符串、数值、true、false、null 组成的列表。")
		}
		s.enum = list
	case "const":
		if isNested(v) {
			r.add(at, "It is a string, a number, true, false or null.", "应为字符串、数值、true、false 或 null。")
		}
		s.enum = []any{v}
	case "pattern":
		text, ok := v.(string)
		p, err := regexp.Compile(text)
		if !ok || err != nil {
			r.add(at, "It is no regular expression as Go knows them.", "不是 Go 支持的正则表达式。")
		}
		s.pattern = p
	case "anyOf":
		s.anyOf = r.schemas(at, v, depth)
	case "oneOf":
		s.oneOf = r.schemas(at, v, depth)
	case "allOf":
		s.allOf = append(s.allOf, r.schemas(at, v, depth)...)
	default:
		r.bound(s, at, word, v)
	}
}

// target is what a $ref leads to; nil: nothing in this schema.
func (r *reader) target(v any) any {
	text, _ := v.(string)
	steps, local := strings.CutPrefix(text, "#/")
	if !local {
		return nil
	}
	var at any = r.whole
	for step := range strings.SplitSeq(steps, "/") {
		m, _ := at.(map[string]any)
		if at = m[strings.NewReplacer("~1", "/", "~0", "~").Replace(step)]; at == nil {
			return nil
		}
	}
	return at
}

// schemas reads a list of them.
func (r *reader) schemas(at string, v any, depth int) (out []*Shape) {
	list, _ := v.([]any)
	if len(list) == 0 {
		r.add(at, "It is a list of schemas.", "应为 schema 列表。")
	}
	for _, one := range list {
		out = append(out, r.read(at, one, depth+1))
	}
	return out
}

// bound reads a word that bounds an amount.
func (r *reader) bound(s *Shape, at, word string, v any) {
	to := map[string]**float64{
		"minimum": &s.number.low, "maximum": &s.number.high, "exclusiveMinimum": &s.above.low, "exclusiveMaximum": &s.above.high,
		"minLength": &s.length.low, "maxLength": &s.length.high, "minItems": &s.count.low, "maxItems": &s.count.high,
	}[word]
	if to == nil {
		r.add(at, "This word of JSON Schema is not known here, so it would not be checked. Known: type, properties, required, additionalProperties, items, enum, const, pattern, anyOf, oneOf, allOf, $ref into $defs, and the bounds of numbers, strings and lists.",
			"不支持该 JSON Schema 关键字，无法据此检查。支持：type、properties、required、additionalProperties、items、enum、const、pattern、anyOf、oneOf、allOf、指向 $defs 的 $ref，以及数值、字符串和列表的上下限。")
		return
	}
	x, ok := numberOf(v)
	if !ok || math.IsNaN(x) || strings.HasSuffix(word, "Length") && x < 0 || strings.HasSuffix(word, "Items") && x < 0 {
		r.add(at, "It is a number.", "应为数值。")
		return
	}
	*to = &x
}

// texts is a list of strings, or one where that is allowed.
func (r *reader) texts(at string, v any, one bool) (out []string) {
	if text, ok := v.(string); ok && one {
		return []string{text}
	}
	list, ok := v.([]any)
	for _, e := range list {
		text, is := e.(string)
		out, ok = append(out, text), ok && is
	}
	if !ok || one && len(out) == 0 {
		r.add(at, "It is a list of strings.", "应为字符串列表。")
	}
	return out
}

func isNested(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}

// numberOf is a number in whatever way it was decoded.
func numberOf(v any) (float64, bool) {
	switch x := v.(type) {
	case float64:
		return x, true
	case int:
		return float64(x), true
	case json.Number:
		f, err := x.Float64()
		return f, err == nil
	}
	return 0, false
}

func sorted(m map[string]any) []string {
	out := make([]string, 0, len(m))
	for name := range m {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}
