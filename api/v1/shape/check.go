package shape

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// Check compares bytes with a shape; nil: they fit. It names the first place that does not.
func (s *Shape) Check(data []byte) *fault.Field {
	if !json.Valid(data) {
		return &fault.Field{Message: fault.T("It is not JSON.", "不是 JSON。")}
	}
	return s.CheckValid(data)
}

// CheckValid is Check of bytes that are known to be JSON.
func (s *Shape) CheckValid(data []byte) *fault.Field {
	c := &check{data: data}
	if !c.value(s, "") {
		return c.wrong
	}
	return nil
}

// check is on its way through bytes that are JSON.
type check struct {
	data  []byte
	at    int
	steps int // values looked at, those of alternatives once for each
	wrong *fault.Field
}

// maxSteps ends a check whose alternatives would keep a processor for seconds.
var maxSteps = 5_000_000

func (c *check) refuse(path, en, zh string, args ...any) bool {
	if len(path) > 256 {
		path = strings.ToValidUTF8(path[:256], "") + "…"
	}
	c.wrong = &fault.Field{Path: path, Message: fault.T(en, zh, args...)}
	return false
}

func (c *check) space() {
	for c.at < len(c.data) {
		switch c.data[c.at] {
		case ' ', '\t', '\n', '\r':
			c.at++
		default:
			return
		}
	}
}

// value goes over one value; false: it does not fit.
func (c *check) value(s *Shape, path string) bool {
	c.space()
	begin := c.at
	if s == nil {
		c.skip()
		return true
	}
	if c.steps++; c.steps > maxSteps {
		return c.refuse(path, "It has too many values for the alternatives of its schema.", "相对于 schema 中的备选项，其值过多。")
	}
	if s.never {
		return c.refuse(path, "It must not be there.", "不允许出现。")
	}
	kind := c.kind()
	if !s.takes(kind, c) {
		return c.refuse(path, "It must be %s, not %s.", "类型应为 %s，而不是 %s。", strings.Join(s.types, " or "), kind)
	}
	for _, one := range s.allOf {
		if c.at = begin; !c.value(one, path) {
			return false
		}
	}
	if c.at = begin; len(s.anyOf) > 0 && !c.any(s, path) {
		return false
	}
	if c.at = begin; len(s.oneOf) > 0 && !c.one(s, path) {
		return false
	}
	c.at = begin
	switch kind {
	case "object":
		return c.object(s, path)
	case "array":
		return c.array(s, path)
	}
	c.skip()
	return c.scalar(s, path, kind, c.data[begin:c.at])
}

// any says that one of the alternatives fits; otherwise the last one's fault is told.
func (c *check) any(s *Shape, path string) bool {
	begin := c.at
	for _, one := range s.anyOf {
		if c.at = begin; c.value(one, path) {
			c.wrong = nil
			return true
		}
	}
	return false
}

// one says that exactly one of the alternatives fits; otherwise the last one's fault is told.
func (c *check) one(s *Shape, path string) bool {
	begin, fits := c.at, 0
	for _, one := range s.oneOf {
		if c.at = begin; c.value(one, path) {
			fits++
		}
	}
	if fits > 1 {
		return c.refuse(path, "It fits %d of the alternatives, and must fit one.", "符合 %d 个备选项，应只符合一个。", fits)
	}
	if fits == 1 {
		c.wrong = nil
	}
	return fits == 1
}

// kind is what the value is that begins here.
func (c *check) kind() string {
	switch c.data[c.at] {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	return "number"
}

func (s *Shape) takes(kind string, c *check) bool {
	if len(s.types) == 0 || slices.Contains(s.types, kind) {
		return true
	}
	if kind != "number" || !slices.Contains(s.types, "integer") {
		return false
	}
	begin := c.at
	c.skip()
	x, err := strconv.ParseFloat(string(c.data[begin:c.at]), 64)
	c.at = begin
	return err == nil && x == math.Trunc(x)
}

func (c *check) object(s *Shape, path string) bool {
	met := make([]bool, len(s.required))
	c.at++ // {
	for {
		c.space()
		if c.data[c.at] == '}' {
			c.at++
			break
		}
		if c.data[c.at] == ',' {
			c.at++
			c.space()
		}
		begin := c.at
		c.skip()
		name := textOf(c.data[begin:c.at])
		c.space()
		c.at++ // :
		if i := slices.Index(s.required, name); i >= 0 {
			met[i] = true
		}
		one, named := s.fields[name]
		if !named {
			one = s.others
		}
		at := name
		if path != "" {
			at = path + "." + name
		}
		if one != nil && one.never && !named {
			return c.refuse(at, "There is no such field.", "没有该字段。")
		}
		if !c.value(one, at) {
			return false
		}
	}
	for i, name := range s.required {
		if !met[i] {
			if path != "" {
				name = path + "." + name
			}
			return c.refuse(name, "It is missing.", "缺少该字段。")
		}
	}
	return true
}

func (c *check) array(s *Shape, path string) bool {
	n := 0
	c.at++ // [
	for {
		c.space()
		if c.data[c.at] == ']' {
			c.at++
			break
		}
		if c.data[c.at] == ',' {
			c.at++
		}
		at := ""
		if s.items != nil {
			at = fmt.Sprintf("%s[%d]", path, n)
		}
		if !c.value(s.items, at) {
			return false
		}
		n++
	}
	if !s.count.holds(float64(n)) {
		return c.refuse(path, "It has %d items; %s are allowed.", "有 %d 项；允许 %s。", n, s.count)
	}
	return true
}

func (c *check) scalar(s *Shape, path, kind string, raw []byte) bool {
	if s.enum != nil && !s.isOneOf(kind, raw) {
		words := make([]string, 0, len(s.enum))
		for _, v := range s.enum[:min(len(s.enum), 16)] {
			text, _ := json.Marshal(v) // a scalar
			words = append(words, string(text))
		}
		return c.refuse(path, "It must be one of %s.", "必须是 %s 之一。", strings.Join(words, ", "))
	}
	switch kind {
	case "number":
		x, err := strconv.ParseFloat(string(raw), 64)
		if err != nil || !s.number.holds(x) || !s.above.inside(x) {
			return c.refuse(path, "%s is out of range: %s are allowed.", "%s 超出范围：允许 %s。", raw[:min(len(raw), 40)], s.bounds())
		}
	case "string":
		if s.length == (span{}) && s.pattern == nil {
			return true
		}
		text := textOf(raw)
		if n := utf8.RuneCountInString(text); !s.length.holds(float64(n)) {
			return c.refuse(path, "It has %d characters; %s are allowed.", "有 %d 个字符；允许 %s。", n, s.length)
		}
		if s.pattern != nil && !s.pattern.MatchString(text) {
			return c.refuse(path, "It does not match %s.", "与 %s 不匹配。", s.pattern)
		}
	}
	return true
}

// bounds are those of numbers, for people.
func (s *Shape) bounds() string {
	if s.above != (span{}) {
		return s.above.String() + " (exclusive)"
	}
	return s.number.String()
}

// String is a span for people.
func (s span) String() string {
	word := func(x *float64) string { return strconv.FormatFloat(*x, 'g', -1, 64) }
	switch {
	case s.low != nil && s.high != nil:
		return word(s.low) + ".." + word(s.high)
	case s.low != nil:
		return "≥ " + word(s.low)
	case s.high != nil:
		return "≤ " + word(s.high)
	}
	return "numbers"
}

// isOneOf says that a scalar is among those that are allowed.
func (s *Shape) isOneOf(kind string, raw []byte) bool {
	return slices.ContainsFunc(s.enum, func(v any) bool {
		switch x := v.(type) {
		case nil:
			return kind == "null"
		case bool:
			return kind == "boolean" && x == (raw[0] == 't')
		case string:
			return kind == "string" && textOf(raw) == x
		}
		want, _ := numberOf(v)
		got, err := strconv.ParseFloat(string(raw), 64)
		return kind == "number" && err == nil && got == want
	})
}

// textOf is what a string says.
func textOf(raw []byte) (text string) {
	_ = json.Unmarshal(raw, &text) // it is one
	return text
}

// skip goes over one value, or a field's name.
func (c *check) skip() {
	c.space()
	switch c.data[c.at] {
	case '"':
		c.text()
	case '{', '[':
		for open := 0; ; {
			switch c.data[c.at] {
			case '"':
				c.text()
				continue
			case '{', '[':
				open++
			case '}', ']':
				open--
			}
			if c.at++; open == 0 {
				return
			}
		}
	default:
		for c.at < len(c.data) && !strings.ContainsRune(" \t\r\n,:]}", rune(c.data[c.at])) {
			c.at++
		}
	}
}

// text goes over a string.
func (c *check) text() {
	for c.at++; c.data[c.at] != '"'; c.at++ {
		if c.data[c.at] == '\\' {
			c.at++
		}
	}
	c.at++
}
