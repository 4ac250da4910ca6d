package tree

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v2"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// Bounds of a document once aliases are expanded. A YAML alias of a long text costs one byte and
// may stand for a million: the tree is counted in bytes, not in nodes alone.
const (
	maxDepth = 32
	maxTree  = 16 << 20
)

// Notes takes down what is wrong with a document, and where.
type Notes interface {
	Put(path, reason string, text fault.Text)
	// Found is how many faults were noticed so far; Enough says that no more are wanted.
	Found() int
	Enough() bool
}

// Parse makes a document a tree of map[string]any, []any, string, bool, json.Number and nil.
// What cannot be read is noted; ok is false then.
func Parse(f Notes, doc []byte, path string) (tree any, ok bool) {
	before := f.Found()
	if json.Valid(doc) {
		dec := json.NewDecoder(bytes.NewReader(doc))
		dec.UseNumber()
		tree = (&jsonTree{f: f, dec: dec}).value(&spot{key: path}, 0)
		return tree, f.Found() == before
	}
	raw, err := parseYAML(doc)
	if err != nil {
		syntax(f, doc, path, err)
		return nil, false
	}
	tree = (&yamlTree{f: f, left: maxTree}).value(path, raw, 0)
	return tree, f.Found() == before
}

// parseYAML never panics: the parser is not ours, the bytes are a stranger's.
func parseYAML(doc []byte) (raw any, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("unreadable YAML: %v", r)
		}
	}()
	err = yaml.UnmarshalStrict(doc, &raw)
	return raw, err
}

// syntax notes why a document is neither JSON nor YAML.
func syntax(f Notes, doc []byte, path string, err error) {
	var many *yaml.TypeError
	if errors.As(err, &many) {
		for _, e := range many.Errors {
			if f.Enough() {
				break
			}
			f.Put(path, "DuplicateKey", fault.T("%s; give every key once.", "%s；每个键只能出现一次。", strings.ReplaceAll(e, "in map", "here")))
		}
		return
	}
	if t := bytes.TrimSpace(doc); len(t) > 0 && (t[0] == '{' || t[0] == '[') {
		var v any
		var se *json.SyntaxError
		if jerr := json.Unmarshal(doc, &v); errors.As(jerr, &se) {
			line := 1 + bytes.Count(doc[:min(int(se.Offset), len(doc))], []byte("\n"))
			f.Put(path, "BadSyntax", fault.T("The JSON is broken in line %d: %s.", "JSON 第 %d 行有语法错误：%s。", line, Quote(se.Error())))
			return
		}
	}
	f.Put(path, "BadSyntax", fault.T("The YAML is broken: %s.", "YAML 有语法错误：%s。", Quote(strings.TrimPrefix(err.Error(), "yaml: "))))
}

// tooDeep notes nesting that no kind has.
func tooDeep(f Notes, path string) {
	f.Put(path, "BadValue", fault.T("Nested deeper than %d levels; no kind needs that.", "嵌套超过 %d 层，没有任何类型需要这样深的结构。", maxDepth))
}

// spot is where a value stands. It becomes a path only when there is something to say about it.
type spot struct {
	up    *spot // nil: key is the whole path
	key   string
	index int // of a list; -1: key is that of an object
}

func (s *spot) path() string {
	switch {
	case s.up == nil:
		return s.key
	case s.index >= 0:
		return Item(s.up.path(), s.index)
	}
	return Child(s.up.path(), s.key)
}

// jsonTree reads valid JSON token by token, because encoding/json takes the last of two equal
// keys without a word.
type jsonTree struct {
	f    Notes
	dec  *json.Decoder
	deep bool // nothing more is read
}

func (t *jsonTree) value(at *spot, depth int) any {
	tok, err := t.dec.Token()
	if err != nil {
		t.broken(at, err)
		return nil
	}
	delim, ok := tok.(json.Delim)
	if !ok {
		return tok
	}
	if depth >= maxDepth {
		t.deep = true
		tooDeep(t.f, at.path())
		return nil
	}
	if delim == '[' {
		out := []any{}
		for i := 0; t.dec.More() && !t.deep; i++ {
			out = append(out, t.value(&spot{up: at, index: i}, depth+1))
		}
		t.close(at)
		return out
	}
	return t.object(at, depth)
}

func (t *jsonTree) object(at *spot, depth int) any {
	out := map[string]any{}
	for t.dec.More() && !t.deep {
		tok, err := t.dec.Token()
		key, ok := tok.(string)
		if err != nil || !ok {
			t.broken(at, err)
			return nil
		}
		here := spot{up: at, key: key, index: -1}
		if _, twice := out[key]; twice {
			t.f.Put(here.path(), "DuplicateKey", fault.T("The key is given twice; give it once.", "该键出现了两次，请只保留一个。"))
			t.deep = t.deep || t.f.Enough()
		}
		out[key] = t.value(&here, depth+1)
	}
	t.close(at)
	return out
}

func (t *jsonTree) close(at *spot) {
	if t.deep {
		return
	}
	if _, err := t.dec.Token(); err != nil {
		t.broken(at, err)
	}
}

func (t *jsonTree) broken(at *spot, err error) {
	if t.deep {
		return
	}
	t.deep = true
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	t.f.Put(at.path(), "BadSyntax", fault.T("The JSON is broken: %s.", "JSON 有语法错误：%s。", Quote(err.Error())))
}

// yamlTree turns what the YAML parser made into the same tree JSON gives.
type yamlTree struct {
	f    Notes
	left int // bytes still allowed
	over bool
}

func (t *yamlTree) value(path string, raw any, depth int) any {
	if t.spend(path, 8); t.over {
		return nil
	}
	switch v := raw.(type) {
	case nil, bool:
		return v
	case string:
		return t.text(path, v)
	case int:
		return json.Number(strconv.Itoa(v))
	case int64:
		return json.Number(strconv.FormatInt(v, 10))
	case uint64:
		return json.Number(strconv.FormatUint(v, 10))
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			t.f.Put(path, "BadValue", fault.T("Expected a finite number.", "此处应为有限的数值。"))
			return nil
		}
		return json.Number(strconv.FormatFloat(v, 'g', -1, 64))
	}
	if depth >= maxDepth {
		tooDeep(t.f, path)
		return nil
	}
	switch v := raw.(type) {
	case []any:
		out := make([]any, 0, len(v))
		for i, e := range v {
			if t.over || t.f.Enough() {
				break
			}
			out = append(out, t.value(Item(path, i), e, depth+1))
		}
		return out
	case map[any]any:
		return t.object(path, v, depth)
	}
	t.f.Put(path, "BadValue", fault.T("A YAML value of this type has no JSON form; use text, a number, true or false.", "该 YAML 值没有对应的 JSON 形式，请使用文本、数字或 true/false。"))
	return nil
}

func (t *yamlTree) object(path string, v map[any]any, depth int) any {
	out := make(map[string]any, len(v))
	keys := make([]string, 0, len(v))
	var others []string
	for k := range v {
		if key, ok := k.(string); ok {
			keys = append(keys, key)
		} else {
			others = append(others, fmt.Sprint(k))
		}
	}
	sort.Strings(keys) // so that the same document always gives the same answer
	sort.Strings(others)
	for _, key := range others {
		if t.f.Enough() {
			return out
		}
		t.f.Put(path, "BadValue", fault.T("The key %s is not text; put it in quotes.", "键 %s 不是文本，请加引号。", Quote(key)))
	}
	for _, key := range keys {
		if t.over || t.f.Enough() {
			break
		}
		at := Child(path, key)
		if _, ok := t.text(at, key).(string); ok {
			out[key] = t.value(at, v[key], depth+1)
		}
	}
	return out
}

// text checks a text: YAML's !!binary and escapes can make bytes that JSON cannot hold.
func (t *yamlTree) text(path, s string) any {
	if t.spend(path, len(s)); t.over {
		return nil
	}
	if !utf8.ValidString(s) {
		t.f.Put(path, "BadValue", fault.T("The text is not valid UTF-8.", "文本不是合法的 UTF-8 编码。"))
		return nil
	}
	return s
}

func (t *yamlTree) spend(path string, n int) {
	if t.left -= n; t.left < 0 && !t.over {
		t.over = true
		t.f.Put(path, "BadValue", fault.T("The document grows beyond %d bytes when its aliases are expanded; write it out or make it smaller.", "展开别名后文档超过 %d 字节，请缩小内容。", maxTree))
	}
}

// Quote shows a user's text in a sentence: shortened, and with nothing in it that could change
// how the sentence reads.
func Quote(s string) string {
	if len(s) > 64 {
		cut := 60
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + "…"
	}
	return strconv.Quote(s)
}

// Child is the path of a key: a.b, or a["b c"] for keys that are no plain word.
func Child(path, key string) string {
	plain := key != "" && len(key) <= 64
	for i := 0; i < len(key) && plain; i++ {
		c := key[i]
		plain = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '-' || c >= '0' && c <= '9'
	}
	switch {
	case !plain:
		return path + "[" + Quote(key) + "]"
	case path == "":
		return key
	}
	return path + "." + key
}

// Item is the path of an entry of a list.
func Item(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
