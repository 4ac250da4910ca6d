package store

import (
	"encoding"
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// step decodes one value of a type; false means: not for me.
type step func(*decoder, reflect.Value) bool

var (
	plans    sync.Map // reflect.Type → step
	planning sync.Mutex
)

func planOf(t reflect.Type) step {
	if p, ok := plans.Load(t); ok {
		return p.(step)
	}
	planning.Lock()
	defer planning.Unlock()
	c := compiler{}
	return c.of(t)
}

// compiler makes plans; a type inside of itself is left to encoding/json.
type compiler map[reflect.Type]bool

func (c compiler) of(t reflect.Type) step {
	if p, ok := plans.Load(t); ok {
		return p.(step)
	}
	if c[t] {
		return standard
	}
	c[t] = true
	p := c.compile(t)
	plans.Store(t, p)
	return p
}

var (
	unmarshalerType     = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshalerType = reflect.TypeFor[encoding.TextUnmarshaler]()
)

func (c compiler) compile(t reflect.Type) step {
	p := reflect.PointerTo(t)
	switch {
	case p.Implements(unmarshalerType) && t.Kind() == reflect.Int64:
		return amountStep(t)
	case p.Implements(unmarshalerType):
		return ownUnmarshal
	case p.Implements(textUnmarshalerType):
		return standard
	}
	switch t.Kind() {
	case reflect.String:
		if t == reflect.TypeFor[json.Number]() {
			return standard // not every text is one
		}
		return stringStep
	case reflect.Bool:
		return boolStep
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return intStep
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return uintStep
	case reflect.Float32, reflect.Float64:
		return floatStep
	case reflect.Interface:
		if t.NumMethod() == 0 {
			return anyStep
		}
	case reflect.Pointer:
		return c.pointer(t)
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Uint8 {
			return c.slice(t)
		}
	case reflect.Map:
		switch {
		case t == reflect.TypeFor[map[string]string]():
			return mapStep(func(d *decoder) (string, bool) { return d.str() })
		case t == reflect.TypeFor[map[string]any]():
			return mapStep(anyOf)
		case t.Key() == reflect.TypeFor[string]():
			return c.mapping(t)
		}
	case reflect.Struct:
		return c.structure(t)
	}
	return standard
}

// standard leaves one value to encoding/json.
func standard(d *decoder, v reflect.Value) bool {
	raw, ok := d.span()
	return ok && json.Unmarshal(raw, v.Addr().Interface()) == nil
}

// ownUnmarshal calls a type's own method, which expects valid JSON: a plain text is.
func ownUnmarshal(d *decoder, v reflect.Value) bool {
	start := d.pos
	if _, ok := d.text(); ok {
		return v.Addr().Interface().(json.Unmarshaler).UnmarshalJSON(d.raw[start:d.pos]) == nil
	}
	d.pos = start
	raw, ok := d.span()
	return ok && json.Valid(raw) && v.Addr().Interface().(json.Unmarshaler).UnmarshalJSON(raw) == nil
}

// amountStep is for quantities and durations: reading one is slow, and there are few of them.
func amountStep(t reflect.Type) step {
	return func(d *decoder, v reflect.Value) bool {
		start := d.pos
		raw, ok := d.span()
		if !ok {
			return false
		}
		if n, ok := d.amounts[amount{t, string(raw)}]; ok {
			v.SetInt(n)
			return true
		}
		d.pos = start
		if !ownUnmarshal(d, v) || d.pos != start+len(raw) {
			return false
		}
		if d.amounts == nil {
			d.amounts = map[amount]int64{}
		}
		if len(d.amounts) < maxAmounts && len(raw) <= 32 {
			d.amounts[amount{t, string(raw)}] = v.Int()
		}
		return true
	}
}

// anyStep reads scalars; the rest is rare.
func anyStep(d *decoder, v reflect.Value) bool {
	x, ok := anyOf(d)
	if ok && x != nil {
		v.Set(reflect.ValueOf(x))
	}
	return ok
}

func anyOf(d *decoder) (x any, ok bool) {
	if d.pos >= len(d.raw) {
		return nil, false
	}
	switch c := d.raw[d.pos]; {
	case c == '"':
		return d.str()
	case c == '-' || c >= '0' && c <= '9':
		return d.float(64)
	}
	raw, ok := d.span()
	return x, ok && json.Unmarshal(raw, &x) == nil
}

// mapStep is mapping for the maps that nearly every object has, without reflection: one of string is
// never null inside, or it is not for us.
func mapStep[T any](elem func(*decoder) (T, bool)) step {
	return func(d *decoder, v reflect.Value) bool {
		if d.eatNull() {
			return true
		}
		if !d.eat('{') {
			return false
		}
		m := map[string]T{}
		*v.Addr().Interface().(*map[string]T) = m
		if d.eat('}') {
			return true
		}
		for n := 1; ; n++ {
			key, ok := d.str()
			if !ok || !d.eat(':') {
				return false
			}
			if m[key], ok = elem(d); !ok || len(m) != n { // a repeated key
				return false
			}
			if d.eat('}') {
				return true
			}
			if !d.eat(',') {
				return false
			}
		}
	}
}

func stringStep(d *decoder, v reflect.Value) bool {
	if d.eatNull() {
		return true
	}
	s, ok := d.str()
	if ok {
		v.SetString(s)
	}
	return ok
}

func boolStep(d *decoder, v reflect.Value) bool {
	raw, ok := d.span()
	if !ok {
		return false
	}
	switch string(raw) {
	case "true":
		v.SetBool(true)
	case "false", "null":
	default:
		return false
	}
	return true
}

func intStep(d *decoder, v reflect.Value) bool {
	negative := d.eat('-')
	n, ok := d.digits()
	if !ok || n > math.MaxInt64 {
		return false
	}
	i := int64(n)
	if negative {
		i = -i
	}
	if v.OverflowInt(i) {
		return false
	}
	v.SetInt(i)
	return true
}

func uintStep(d *decoder, v reflect.Value) bool {
	n, ok := d.digits()
	if !ok || v.OverflowUint(n) {
		return false
	}
	v.SetUint(n)
	return true
}

func (c compiler) pointer(t reflect.Type) step {
	elem := c.of(t.Elem())
	return func(d *decoder, v reflect.Value) bool {
		if d.eatNull() {
			return true
		}
		p := reflect.New(t.Elem())
		v.Set(p)
		return elem(d, p.Elem())
	}
}

func (c compiler) slice(t reflect.Type) step {
	elem := c.of(t.Elem())
	return func(d *decoder, v reflect.Value) bool {
		if d.eatNull() {
			return true
		}
		if !d.eat('[') {
			return false
		}
		if d.eat(']') {
			v.Set(reflect.MakeSlice(t, 0, 0))
			return true
		}
		for n := 0; ; n++ {
			if n == v.Cap() {
				v.Grow(max(1, n))
			}
			v.SetLen(n + 1)
			if !elem(d, v.Index(n)) {
				return false
			}
			if d.eat(']') {
				return true
			}
			if !d.eat(',') {
				return false
			}
		}
	}
}

func (c compiler) mapping(t reflect.Type) step {
	elem := c.of(t.Elem())
	return func(d *decoder, v reflect.Value) bool {
		if d.eatNull() {
			return true
		}
		if !d.eat('{') {
			return false
		}
		m := reflect.MakeMap(t)
		v.Set(m)
		if d.eat('}') {
			return true
		}
		for n := 1; ; n++ {
			key, ok := d.str()
			if !ok || !d.eat(':') {
				return false
			}
			e := reflect.New(t.Elem()).Elem()
			if !elem(d, e) {
				return false
			}
			m.SetMapIndex(reflect.ValueOf(key), e)
			if m.Len() != n {
				return false // a repeated key
			}
			if d.eat('}') {
				return true
			}
			if !d.eat(',') {
				return false
			}
		}
	}
}

// fieldPlan is one field of a struct.
type fieldPlan struct {
	name  string
	index []int // of an embedded struct, and within it
	step  step
}

// at is the field of a value.
func (f *fieldPlan) at(v reflect.Value) reflect.Value {
	for _, i := range f.index {
		v = v.Field(i)
	}
	return v
}

// structure knows plain structs: exported fields with ordinary tags, at most 64 of them.
func (c compiler) structure(t reflect.Type) step {
	fields, ok := c.fields(t, nil)
	if !ok {
		return standard
	}
	return func(d *decoder, v reflect.Value) bool {
		if d.eatNull() {
			return true
		}
		if !d.eat('{') {
			return false
		}
		if d.eat('}') {
			return true
		}
		seen, next := uint64(0), 0
		for {
			key, ok := d.text()
			if !ok || !d.eat(':') {
				return false
			}
			f := find(fields, next, key)
			if f < 0 || seen&(1<<f) != 0 {
				return false
			}
			seen, next = seen|1<<f, f+1
			if !fields[f].step(d, fields[f].at(v)) {
				return false
			}
			if d.eat('}') {
				return true
			}
			if !d.eat(',') {
				return false
			}
		}
	}
}

// fields are those of a struct, and of plain structs that it embeds; not ok: it is not plain.
func (c compiler) fields(t reflect.Type, index []int) (fields []fieldPlan, ok bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		at := append(slices.Clone(index), i)
		if f.Anonymous && f.IsExported() && name == "" && f.Type.Kind() == reflect.Struct && len(index) == 0 {
			inner, ok := c.fields(f.Type, at)
			if !ok {
				return nil, false
			}
			fields = append(fields, inner...)
			continue
		}
		if f.Anonymous || strings.Contains(options, "string") {
			return nil, false
		}
		if !f.IsExported() || (name == "-" && options == "") {
			continue
		}
		if name == "" {
			name = f.Name
		}
		fields = append(fields, fieldPlan{name, at, c.of(f.Type)})
	}
	for i := range fields { // which of two counts is for the standard to say
		if slices.ContainsFunc(fields[:i], func(g fieldPlan) bool { return g.name == fields[i].name }) {
			return nil, false
		}
	}
	return fields, len(fields) <= 64
}

// find looks from where the last field was: values come in the order of the struct.
func find(fields []fieldPlan, from int, key []byte) int {
	for i := from; i < len(fields); i++ {
		if fields[i].name == string(key) {
			return i
		}
	}
	for i := range from {
		if fields[i].name == string(key) {
			return i
		}
	}
	return -1
}

// floatStep reads a number as encoding/json does.
func floatStep(d *decoder, v reflect.Value) bool {
	f, ok := d.float(v.Type().Bits())
	if ok {
		v.SetFloat(f)
	}
	return ok
}
