package v1

import (
	"strconv"
	"strings"

	"github.com/fermi-cluster/fermi/api/v1/tree"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// AlsoWrong says what else is wrong with a manifest that Decode refused for these fields: whoever wrote it is told all of it
// at once. It looks at the rest of the manifest, without the refused fields, as if they had been left out; what that alone
// makes wrong is not repeated. The object is that rest, prepared, for further checks and nothing else; nil where there is none.
func AlsoWrong(kind Kind, data []byte, refused []fault.Field) (Object, []fault.Field) {
	docs, err := documents(data)
	if err != nil || len(docs) != 1 {
		return nil, nil
	}
	var ignored faults
	whole, ok := tree.Parse(&ignored, docs[0], "")
	top, isMap := whole.(map[string]any)
	if !ok || !isMap {
		return nil, nil
	}
	for _, f := range refused {
		prune(top, f.Path)
	}
	info, ok := InfoOf(kind)
	if !ok {
		return nil, nil
	}
	delete(top, "apiVersion")
	delete(top, "kind")
	o := info.New()
	if fill(o, top) != nil {
		return nil, nil
	}
	var out []fault.Field
	if err := Prepare(o, func(n int) string { return strings.Repeat("x", n) }); err != nil {
		for _, f := range fault.From(err).Fields {
			if !touches(refused, f.Path) {
				out = append(out, f)
			}
		}
	}
	return o, out
}

// touches says that a path is one of those refused, or above or below one.
func touches(refused []fault.Field, path string) bool {
	for _, f := range refused {
		if f.Path == path || isBelow(f.Path, path) || isBelow(path, f.Path) {
			return true
		}
	}
	return false
}

func isBelow(path, above string) bool {
	rest, ok := strings.CutPrefix(path, above)
	return ok && rest != "" && (above == "" || rest[0] == '.' || rest[0] == '[')
}

// prune takes the field that a path leads to out of a tree. Of a list the whole list goes: its other items would move.
func prune(top map[string]any, path string) {
	at, key := top, ""
	var node any = top
	for path != "" {
		word, index, rest, ok := step(path)
		if !ok {
			return
		}
		path = rest
		if index < 0 {
			m, isMap := node.(map[string]any)
			if !isMap {
				break
			}
			at, key = m, word
			node = m[word]
			continue
		}
		list, isList := node.([]any)
		if !isList || index >= len(list) {
			break
		}
		node = list[index]
	}
	delete(at, key)
}

// step reads the first key or index of a path, as child and item write them.
func step(path string) (word string, index int, rest string, ok bool) {
	path = strings.TrimPrefix(path, ".")
	if strings.HasPrefix(path, "[\"") {
		quoted, err := strconv.QuotedPrefix(path[1:])
		if err != nil {
			return "", 0, "", false
		}
		word, err = strconv.Unquote(quoted)
		rest, closed := strings.CutPrefix(path[1+len(quoted):], "]")
		return word, -1, rest, err == nil && closed
	}
	if strings.HasPrefix(path, "[") {
		digits, rest, closed := strings.Cut(path[1:], "]")
		n, err := strconv.Atoi(digits)
		return "", n, rest, closed && err == nil && n >= 0
	}
	end := strings.IndexAny(path, ".[")
	if end < 0 {
		end = len(path)
	}
	return path[:end], -1, path[end:], end > 0
}
