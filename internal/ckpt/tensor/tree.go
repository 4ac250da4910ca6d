package tensor

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// maxDepth is what the SDK writes (100), and the two levels its decoder adds.
const maxDepth = 102

// Node is one value of a slot's tree: the JSON that the SDK writes for a state. Only blobs are looked
// into; every other value keeps its own text, so that writing a tree anew changes none of them.
type Node struct {
	raw  []byte // a value without blobs below it
	kind string // "" for an array, else the one key of the object
	kids []*Node
	leaf *Tensor
}

// Parse reads a tree from outside and lists its blobs in the order of their places, each once.
func Parse(raw []byte, data uint64) (*Node, []*Tensor, error) {
	p := treeParser{data: data, seen: map[[2]uint64]*Tensor{}}
	root, err := p.node(raw, "state", 0)
	if err != nil {
		return nil, nil, err
	}
	slices.SortStableFunc(p.leaves, func(a, b *Tensor) int {
		if a.At != b.At {
			return cmp.Compare(a.At, b.At)
		}
		return cmp.Compare(a.Bytes, b.Bytes)
	})
	return root, p.leaves, nil
}

type treeParser struct {
	data   uint64
	leaves []*Tensor
	seen   map[[2]uint64]*Tensor
}

func BadTree(path, en, zh string) *fault.Error {
	return fault.New(fault.Invalid, "BadTree", fault.T("%.200s: "+en+".", "%.200s："+zh+"。", path))
}

func (p *treeParser) node(raw []byte, path string, depth int) (*Node, error) {
	raw = bytes.Trim(raw, " \t\r\n") // what JSON takes for space; there is more in Unicode
	if depth > maxDepth {
		return nil, BadTree(path, "the tree is nested too deep", "目录嵌套过深")
	}
	if len(path) > MaxName {
		return nil, BadTree(path, "the path is longer than 1024 bytes", "路径超过 1024 字节")
	}
	if len(raw) > 0 && raw[0] == '[' {
		return p.array("", raw, path, depth)
	}
	if len(raw) == 0 || raw[0] != '{' {
		if !json.Valid(raw) {
			return nil, BadTree(path, "this is no JSON", "不是有效的 JSON")
		}
		return &Node{raw: raw}, nil
	}
	kind, body, err := oneKey(raw)
	if err != nil {
		return nil, BadTree(path, "an object must have one key", "对象必须只有一个键").Because(err)
	}
	switch kind {
	case "t", "s", "z", "m", "d", "o", "c":
		return p.array(kind, body, path, depth)
	case "f":
		return &Node{raw: raw}, nil
	}
	leaf, err := parseLeaf(kind, body, path)
	if err != nil {
		return nil, err
	}
	if leaf.At > p.data || leaf.Bytes > p.data-leaf.At {
		return nil, BadTree(path, "it lies outside of the data", "位于数据之外")
	}
	place := [2]uint64{leaf.At, leaf.Bytes}
	if have, ok := p.seen[place]; ok && leaf.Bytes > 0 {
		return &Node{kind: kind, leaf: have, raw: raw}, nil
	}
	p.seen[place] = leaf
	p.leaves = append(p.leaves, leaf)
	return &Node{kind: kind, leaf: leaf, raw: raw}, nil
}

func oneKey(raw []byte) (string, []byte, error) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		return "", nil, err
	}
	if len(m) != 1 {
		return "", nil, strconv.ErrSyntax
	}
	for k, v := range m {
		return k, v, nil
	}
	panic("unreachable")
}

// array reads a list, or the body of an object that is one.
func (p *treeParser) array(kind string, raw []byte, path string, depth int) (*Node, error) {
	var parts []json.RawMessage
	if err := json.Unmarshal(raw, &parts); err != nil {
		return nil, BadTree(path, "this is no list", "不是列表").Because(err)
	}
	n := &Node{kind: kind}
	dict := kind == "d" || kind == "o" || kind == "c"
	for i, part := range parts {
		at := path + "." + strconv.Itoa(i)
		if !dict {
			kid, err := p.node(part, at, depth+1)
			if err != nil {
				return nil, err
			}
			n.kids = append(n.kids, kid)
			continue
		}
		var pair []json.RawMessage
		if err := json.Unmarshal(part, &pair); err != nil || len(pair) != 2 {
			return nil, BadTree(at, "this is no pair of key and value", "不是键值对").Because(err)
		}
		key, err := p.node(pair[0], at, depth+1)
		if err != nil {
			return nil, err
		}
		value, err := p.node(pair[1], path+"."+keyName(pair[0]), depth+1)
		if err != nil {
			return nil, err
		}
		n.kids = append(n.kids, &Node{kids: []*Node{key, value}})
	}
	return n, nil
}

func keyName(raw []byte) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// parseLeaf reads a blob: its last two numbers are its place.
func parseLeaf(kind string, body []byte, path string) (*Tensor, error) {
	wrong := BadTree(path, "this is no tensor, array or bytes", "不是张量、数组或字节串")
	var parts []json.RawMessage
	if err := json.Unmarshal(body, &parts); err != nil {
		return nil, wrong.Because(err)
	}
	fields := map[string]int{"y": 2, "a": 2, "n": 4, "x": 5, "h": 7}
	if n, ok := fields[kind]; !ok || n != len(parts) {
		return nil, wrong
	}
	t := &Tensor{Name: path, DType: "bytes"}
	into := []any{&t.At, &t.Bytes}
	var skip json.RawMessage
	switch kind {
	case "n", "x":
		into = append([]any{&t.DType, &t.Shape}, into...)
		if kind == "x" {
			into = slices.Insert(into, 2, any(&skip))
		}
	case "h":
		t.Split = new(int)
		into = append([]any{&t.DType, &t.Shape, &t.Global, &t.Offset, t.Split}, into...)
	}
	for i, part := range parts {
		if err := json.Unmarshal(part, into[i]); err != nil {
			return nil, wrong.Because(err)
		}
	}
	if err := t.Check(); err != nil {
		return nil, err
	}
	return t, nil
}

// Write writes the tree with the blobs where place puts them.
func (n *Node) Write(b *bytes.Buffer, place func(*Tensor) *Tensor) {
	switch {
	case n.leaf != nil:
		writeLeaf(b, n.kind, n.raw, place(n.leaf))
		return
	case n.raw != nil:
		b.Write(n.raw)
		return
	}
	if n.kind != "" {
		b.WriteString(`{"` + n.kind + `":`)
	}
	b.WriteByte('[')
	for i, kid := range n.kids {
		if i > 0 {
			b.WriteByte(',')
		}
		kid.Write(b, place)
	}
	b.WriteByte(']')
	if n.kind != "" {
		b.WriteByte('}')
	}
}

// writeLeaf keeps every field of the blob's own text but its place, and the shape of a shard.
func writeLeaf(b *bytes.Buffer, kind string, raw []byte, t *Tensor) {
	_, body, err := oneKey(raw)
	var parts []json.RawMessage
	if err == nil {
		err = json.Unmarshal(body, &parts)
	}
	if err != nil {
		panic("a leaf that was parsed before: " + err.Error())
	}
	if kind == "h" {
		parts[1], parts[3] = numbers(t.Shape), numbers(t.Offset)
	}
	parts[len(parts)-2] = strconv.AppendUint(nil, t.At, 10)
	parts[len(parts)-1] = strconv.AppendUint(nil, t.Bytes, 10)
	b.WriteString(`{"` + kind + `":[`)
	for i, part := range parts {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(part)
	}
	b.WriteString("]}")
}

func numbers(list []uint64) []byte {
	raw, err := json.Marshal(list)
	if err != nil {
		panic("numbers: " + err.Error())
	}
	return raw
}
