package parquet

import (
	"strings"
)

// leaf is a column: something in the schema that has no children.
type leaf struct {
	name      string
	kind      int // of its values
	width     int // of values of a fixed length
	converted int // what the values mean; -1: nothing was said
	maxDef    int
	maxRep    int
	listDef   int // the level from which the outermost list that it is in has an element; 0: it is in none
}

// chunk is where a column's values of a group of rows lie.
type chunk struct {
	codec  int
	values int64
	data   int64
	dict   int64
}

// group is one of rows.
type group struct {
	chunks []chunk
	rows   int64
}

// footer is what the end of a file says.
type footer struct {
	leaves []leaf
	rows   int64
	first  *group
}

// node is an element of the schema, which is a tree laid out flat.
type node struct {
	leaf
	repetition, children int
}

const (
	required = 0
	optional = 1
	repeated = 2
)

func readFooter(raw []byte) (*footer, error) {
	d := &thrift{b: raw}
	f := &footer{}
	var nodes []node
	d.fields(func(id int, kind byte) bool {
		switch {
		case id == 2 && kind == typeList:
			d.list(func(i int, _ byte) {
				if i >= maxNodes {
					d.fail()
					return
				}
				nodes = append(nodes, readNode(d))
			})
		case id == 3 && kind == typeI64:
			f.rows = d.number()
		case id == 4 && kind == typeList:
			d.list(func(i int, kind byte) {
				if i > 0 {
					d.element(kind)
					return
				}
				f.first = readGroup(d)
			})
		default:
			return false
		}
		return true
	})
	if d.err != nil || len(nodes) == 0 || f.rows < 0 {
		return nil, errBad
	}
	t := tree{nodes: nodes, f: f}
	for range nodes[0].children {
		if !t.grow("", 0, 0, 0, 0) {
			return nil, errBad
		}
	}
	return f, nil
}

func readNode(d *thrift) node {
	n := node{leaf: leaf{converted: -1, kind: -1}}
	d.fields(func(id int, kind byte) bool {
		if id == 4 && kind == typeBinary {
			n.name = d.text()
			return true
		}
		to := map[int]*int{1: &n.kind, 2: &n.width, 3: &n.repetition, 5: &n.children, 6: &n.converted}[id]
		if to == nil || kind != typeI32 {
			return false
		}
		*to = int(int32(d.number()))
		return true
	})
	return n
}

// tree goes down the schema.
type tree struct {
	nodes []node
	at    int
	f     *footer
}

// grow takes the next element and all below it; false: there is none.
func (t *tree) grow(path string, depth, def, rep, listDef int) bool {
	if t.at++; t.at >= len(t.nodes) || depth > deepest {
		return false
	}
	n := t.nodes[t.at]
	if path != "" {
		n.name = path + "." + n.name
	}
	if n.repetition == optional || n.repetition == repeated {
		def++
	}
	if n.repetition == repeated {
		if rep++; listDef == 0 {
			listDef = def
		}
	}
	if len(n.name) > maxName {
		n.name = n.name[:maxName]
	}
	if n.children <= 0 {
		n.maxDef, n.maxRep, n.listDef = def, rep, listDef
		for _, end := range []string{".list.element", ".list.item", ".bag.array_element"} {
			n.name = strings.TrimSuffix(n.name, end)
		}
		t.f.leaves = append(t.f.leaves, n.leaf)
		return true
	}
	for range n.children {
		if !t.grow(n.name, depth+1, def, rep, listDef) {
			return false
		}
	}
	return true
}

func readGroup(d *thrift) *group {
	g := &group{}
	d.fields(func(id int, kind byte) bool {
		switch {
		case id == 1 && kind == typeList:
			d.list(func(i int, _ byte) {
				if i >= maxNodes {
					d.fail()
					return
				}
				g.chunks = append(g.chunks, readChunk(d))
			})
		case id == 3 && kind == typeI64:
			g.rows = d.number()
		default:
			return false
		}
		return true
	})
	return g
}

func readChunk(d *thrift) chunk {
	c := chunk{codec: -1}
	d.fields(func(id int, kind byte) bool {
		if id != 3 || kind != typeStruct {
			return false
		}
		d.fields(func(id int, kind byte) bool {
			if id == 4 && kind == typeI32 {
				c.codec = int(int32(d.number()))
				return true
			}
			to := map[int]*int64{5: &c.values, 9: &c.data, 11: &c.dict}[id]
			if to == nil || kind != typeI64 {
				return false
			}
			*to = d.number()
			return true
		})
		return true
	})
	return c
}
