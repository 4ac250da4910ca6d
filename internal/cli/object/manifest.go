package object

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/pattern"
)

// maxManifest bounds a file of manifests; one document is bounded by api.Decode.
const maxManifest = 64 << 20

// document is one manifest of a file.
type document struct {
	file string
	line int // where it starts, from 1
	data []byte
}

// ReadManifests reads objects from files; "-" is stdin. All documents are checked before the
// first is used, so that a slip in the last one changes nothing.
func ReadManifests(stdin io.Reader, files []string) ([]api.Object, error) {
	var objs []api.Object
	var faults []fault.Field
	for _, file := range files {
		data, err := readBounded(stdin, file)
		if err != nil {
			return nil, err
		}
		docs, err := splitDocuments(file, data)
		if err != nil {
			return nil, err
		}
		for _, doc := range docs {
			obj, err := api.Decode("", doc.data)
			if err != nil {
				faults = append(faults, doc.locate(err)...)
				continue
			}
			objs = append(objs, obj)
		}
	}
	if len(faults) > 0 {
		return nil, fault.New(fault.Invalid, "BadManifest", fault.T(
			"Nothing was changed: the manifest has mistakes.", "清单有误，未做任何更改。")).WithFields(faults...)
	}
	if len(objs) == 0 {
		return nil, fault.New(fault.Invalid, "EmptyManifest", fault.T(
			"There is no object in %s.", "%s 中没有任何对象。", strings.Join(files, ", ")))
	}
	return objs, nil
}

func readBounded(stdin io.Reader, file string) ([]byte, error) {
	r := stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, fault.New(fault.Invalid, "BadFile", fault.T(
				"%s can't be read: %s.", "无法读取 %s：%s。", file, call.ReasonOf(err))).Because(err)
		}
		defer f.Close()
		r = f
	}
	data, err := io.ReadAll(io.LimitReader(r, maxManifest+1))
	if err != nil {
		return nil, fault.New(fault.Invalid, "BadFile", fault.T(
			"%s can't be read: %s.", "无法读取 %s：%s。", file, call.ReasonOf(err))).Because(err)
	}
	if len(data) > maxManifest {
		return nil, fault.New(fault.TooLarge, "ManifestTooLarge", fault.T(
			"%s is over %d MiB.", "%s 超过 %d MiB。", file, maxManifest>>20))
	}
	return data, nil
}

// splitDocuments cuts at lines that start with "---", which YAML allows nowhere else. Empty
// documents are dropped; {"items": […]}, the output of `get -o json|yaml`, is taken apart.
func splitDocuments(file string, data []byte) ([]document, error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	var docs []document
	var body []byte
	start, line := 1, 0
	flush := func() error {
		defer func() { body = nil }()
		if blank(body) {
			return nil
		}
		more, err := expand(document{file, start, body})
		docs = append(docs, more...)
		return err
	}
	for rest := data; len(rest) > 0; {
		var l []byte
		if i := bytes.IndexByte(rest, '\n'); i >= 0 {
			l, rest = rest[:i+1], rest[i+1:]
		} else {
			l, rest = rest, nil
		}
		line++
		mark := bytes.TrimRight(l, "\r\n")
		if string(mark) == "---" || bytes.HasPrefix(mark, []byte("--- ")) || string(mark) == "..." {
			if err := flush(); err != nil {
				return nil, err
			}
			start = line + 1
			if after := bytes.TrimSpace(bytes.TrimPrefix(mark, []byte("---"))); len(after) > 0 && after[0] != '#' && string(mark) != "..." {
				body, start = append(append(body, after...), '\n'), line
			}
			continue
		}
		body = append(body, l...)
	}
	return docs, flush()
}

// blank says that a document holds nothing but comments and space.
func blank(body []byte) bool {
	for line := range bytes.Lines(body) {
		if l := bytes.TrimSpace(line); len(l) > 0 && l[0] != '#' {
			return false
		}
	}
	return true
}

func expand(doc document) ([]document, error) {
	if !bytes.Contains(doc.data, []byte("items")) {
		return []document{doc}, nil
	}
	var list struct {
		Kind  string `json:"kind"`
		Items []any  `json:"items"`
	}
	if err := yaml.Unmarshal(doc.data, &list); err != nil || list.Items == nil || list.Kind != "" {
		return []document{doc}, nil // not a list: api.Decode finds the fault, if there is one
	}
	var docs []document
	for _, item := range list.Items {
		data, err := call.Encode(item)
		if err != nil {
			return nil, fault.From(err)
		}
		docs = append(docs, document{doc.file, 0, data})
	}
	return docs, nil
}

var lineNumber = pattern.New(`line (\d+)`)

// locate turns a fault of Decode into fields that say file and line.
func (d document) locate(err error) []fault.Field {
	e := fault.From(err)
	if len(e.Fields) == 0 {
		return []fault.Field{{Path: d.at(d.line), Message: d.shift(e.Message)}}
	}
	var root yamlv3.Node
	if yamlv3.Unmarshal(d.data, &root) != nil {
		root = yamlv3.Node{}
	}
	out := make([]fault.Field, len(e.Fields))
	for i, f := range e.Fields {
		line := 0
		if n := find(&root, f.Path); n > 0 && d.line > 0 {
			line = d.line + n - 1
		}
		out[i] = fault.Field{Path: strings.TrimSuffix(d.at(line)+": "+f.Path, ": "), Message: d.shift(f.Message)}
	}
	return out
}

func (d document) at(line int) string {
	file := d.file
	if file == "-" {
		file = "stdin"
	}
	if line <= 0 {
		return file
	}
	return file + ":" + strconv.Itoa(line)
}

// shift makes line numbers within the document ones within the file.
func (d document) shift(text fault.Text) fault.Text {
	move := func(s string) string {
		return lineNumber.ReplaceAllStringFunc(s, func(m string) string {
			n, err := strconv.Atoi(m[len("line "):])
			if err != nil || d.line <= 1 {
				return m
			}
			return fmt.Sprintf("line %d", n+d.line-1)
		})
	}
	return fault.Text{EN: move(text.EN), ZH: move(text.ZH)}
}

// find is the line of the deepest part of a path such as spec.roles[0].replicas that exists.
func find(n *yamlv3.Node, path string) int {
	if n.Kind == yamlv3.DocumentNode && len(n.Content) > 0 {
		n = n.Content[0]
	}
	line := 0
	for _, step := range steps(path) {
		key, next, err := child(n, step)
		if err != nil {
			break
		}
		line, n = key.Line, next
	}
	if line == 0 {
		return n.Line
	}
	return line
}

// steps cuts "a.b[0].c" into a, b, 0, c.
func steps(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' })
}

var errNoChild = errors.New("no such child")

func child(n *yamlv3.Node, step string) (key, value *yamlv3.Node, err error) {
	switch n.Kind {
	case yamlv3.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == step {
				return n.Content[i], n.Content[i+1], nil
			}
		}
	case yamlv3.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i], n.Content[i], nil
		}
	}
	return nil, nil, errNoChild
}
