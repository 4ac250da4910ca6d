package v1

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/fermi-cluster/fermi/api/v1/tree"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// APIVersion is what a manifest may say about itself.
const APIVersion = "fermi/v1"

// MaxManifest is the most bytes Decode and DecodeAll read.
const MaxManifest = 4 << 20

// Decode reads one object from JSON or YAML. The document may say apiVersion and kind; its kind
// must be the one given, or is taken from the document when the one given is "". Everything that
// is not understood is refused, all of it at once, with paths: fault Invalid with reason
// UnknownField, BadValue, DuplicateKey, BadSyntax, or BadManifest for a mixture.
func Decode(kind Kind, data []byte) (Object, error) {
	docs, err := documents(data)
	if err != nil {
		return nil, err
	}
	var f faults
	switch {
	case len(docs) == 0:
		f.Put("", "BadManifest", fault.T("The manifest is empty.", "清单为空。"))
		return nil, f.err()
	case len(docs) > 1:
		f.Put("", "BadManifest", fault.T("The manifest holds %d documents where one is expected.", "清单包含 %d 个文档，此处只接受一个。", len(docs)))
		return nil, f.err()
	}
	o := decodeOne(&f, kind, docs[0], "")
	if err := f.err(); err != nil {
		return nil, err
	}
	return o, nil
}

// DecodeAll reads every document of a YAML stream, each naming its kind; JSON is one document.
// Paths begin with documents[i] where there is more than one.
func DecodeAll(data []byte) ([]Object, error) {
	docs, err := documents(data)
	if err != nil {
		return nil, err
	}
	var f faults
	if len(docs) == 0 {
		f.Put("", "BadManifest", fault.T("The manifest is empty.", "清单为空。"))
	}
	objects := make([]Object, 0, len(docs))
	for i, doc := range docs {
		if f.Enough() {
			break
		}
		prefix := ""
		if len(docs) > 1 {
			prefix = item("documents", i)
		}
		if o := decodeOne(&f, "", doc, prefix); o != nil {
			objects = append(objects, o)
		}
	}
	if err := f.err(); err != nil {
		return nil, err
	}
	return objects, nil
}

// documents splits a manifest. A line of "---" or "..." at the first column always ends a YAML
// document, also inside a block or quoted text, so that splitting by lines is right.
func documents(data []byte) ([][]byte, error) {
	if len(data) > MaxManifest {
		return nil, fault.New(fault.TooLarge, "ManifestTooLarge", fault.T(
			"The manifest has %d bytes; at most %d are read.", "清单大小为 %d 字节，上限为 %d 字节。", len(data), MaxManifest))
	}
	if !utf8.Valid(data) {
		return nil, fault.New(fault.Invalid, "BadSyntax", fault.T("The manifest is not UTF-8 text.", "清单不是 UTF-8 文本。"))
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if json.Valid(data) {
		return [][]byte{data}, nil
	}
	var docs [][]byte
	var doc []byte
	flush := func() {
		if !blank(doc) {
			docs = append(docs, doc)
		}
		doc = nil
	}
	for line := range bytes.Lines(data) {
		if rest, ok := separator(line); ok {
			flush()
			doc = append(doc, rest...)
			continue
		}
		doc = append(doc, line...)
	}
	flush()
	return docs, nil
}

// separator says that a line begins a new document, and what else stands on it.
func separator(line []byte) ([]byte, bool) {
	if !bytes.HasPrefix(line, []byte("---")) && !bytes.HasPrefix(line, []byte("...")) {
		return nil, false
	}
	rest := line[3:]
	if len(rest) > 0 && !bytes.ContainsAny(rest[:1], " \t\r\n") {
		return nil, false
	}
	return rest, true
}

// blank says that a document has only comments and space.
func blank(doc []byte) bool {
	for line := range bytes.Lines(doc) {
		if t := bytes.TrimSpace(line); len(t) > 0 && t[0] != '#' {
			return false
		}
	}
	return true
}

func decodeOne(f *faults, kind Kind, doc []byte, path string) Object {
	before := f.Found()
	whole, ok := tree.Parse(f, doc, path)
	if !ok {
		return nil
	}
	top, ok := whole.(map[string]any)
	if !ok {
		f.Put(path, "BadValue", fault.T("Expected an object with metadata and spec, not %[1]s.", "此处应为包含 metadata 和 spec 的对象，而不是%[2]s。", typeEN(whole), typeZH(whole)))
		return nil
	}
	info, ok := kindOf(f, kind, top, path)
	if !ok {
		return nil
	}
	delete(top, "apiVersion")
	delete(top, "kind")
	o := info.New()
	walker{f}.walk(path, top, reflect.TypeOf(o).Elem(), false)
	if f.Found() > before {
		return nil
	}
	if err := fill(o, top); err != nil {
		f.Put(path, "BadManifest", fault.T("The document does not fit a %s: %v", "文档与 %s 不符：%v", info.Kind, err))
		return nil
	}
	return o
}

// fill moves a checked tree into the Go type. That the walk missed something is our mistake, but
// still no reason to accept it.
func fill(o Object, tree map[string]any) error {
	data, err := json.Marshal(tree)
	if err != nil {
		return fmt.Errorf("write the tree: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	return dec.Decode(o)
}

// kindOf finds the row for a document and checks what it says about itself.
func kindOf(f *faults, want Kind, top map[string]any, path string) (KindInfo, bool) {
	if v, ok := top["apiVersion"]; ok && v != APIVersion {
		f.Put(child(path, "apiVersion"), "BadValue", fault.T("Only apiVersion %s is known here; write that or leave it out.", "此处仅支持 apiVersion %s，请改为该值或去掉此字段。", APIVersion))
	}
	kind := want
	if v, ok := top["kind"]; ok {
		s, isText := v.(string)
		switch {
		case !isText:
			f.Put(child(path, "kind"), "BadValue", fault.T("The kind is a word such as TrainingTask.", "kind 应为字符串，例如 TrainingTask。"))
			return KindInfo{}, false
		case want != "" && Kind(s) != want:
			f.Put(child(path, "kind"), "BadValue", fault.T("A %s is expected here, not %s.", "此处应为 %s，而不是 %s。", want, quote(s)))
			return KindInfo{}, false
		}
		kind = Kind(s)
	}
	info, ok := InfoOf(kind)
	if ok {
		return info, true
	}
	names := make([]string, len(Kinds))
	for i, row := range Kinds {
		names[i] = string(row.Kind)
	}
	if kind == "" {
		f.Put(child(path, "kind"), "BadValue", fault.T("Say which kind this is: one of %s.", "请用 kind 说明类型：%s 之一。", strings.Join(names, ", ")))
		return KindInfo{}, false
	}
	text := fault.T("There is no kind %s; known are %s.", "没有名为 %s 的类型，已知类型有 %s。", quote(string(kind)), strings.Join(names, ", "))
	f.Put(child(path, "kind"), "BadValue", suggest(text, string(kind), names))
	return KindInfo{}, false
}
