package v1

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/fermi-cluster/fermi/api/v1/where"
)

// draw fills a value of any of our types at random. What Go's JSON does not keep apart (a nil
// and an empty list with omitempty, a time finer than its text) is not drawn.
func draw(t *rapid.T, v reflect.Value, depth int) {
	switch v.Type() {
	case timeType:
		v.Set(reflect.ValueOf(time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "s"), rapid.Int64Range(0, 999).Draw(t, "ms")*1e6).UTC()))
		return
	case reflect.TypeFor[Bytes](), reflect.TypeFor[MilliCPU](), reflect.TypeFor[Duration]():
		v.SetInt(rapid.Int64Range(1, 1<<50).Draw(t, "amount"))
		return
	case reflect.TypeFor[Share]():
		v.SetUint(rapid.Uint64Range(1, 1000).Draw(t, "share"))
		return
	case reflect.TypeFor[Topology]():
		v.Set(reflect.ValueOf(rapid.SampledFrom([]Topology{{Mode: TopologyPack}, {Mode: TopologySpread}, {Mode: TopologyBounded, MaxPerRack: 3}}).Draw(t, "topology")))
		return
	case reflect.TypeFor[where.Span]():
		v.Set(reflect.ValueOf(rapid.SampledFrom([]where.Span{where.Exactly(3), {Least: 2, Most: 6}, {Least: 2, Most: where.MostReplicas}, {Most: 4}}).Draw(t, "span")))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			draw(t, v.Field(i), depth+1)
		}
	case reflect.Pointer:
		if rapid.Bool().Draw(t, "set") {
			v.Set(reflect.New(v.Type().Elem()))
			draw(t, v.Elem(), depth+1)
		}
	case reflect.Slice:
		if n := rapid.IntRange(0, 3).Draw(t, "len"); n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				draw(t, v.Index(i), depth+1)
			}
		}
	case reflect.Map:
		drawMap(t, v, depth)
	case reflect.Interface:
		v.Set(reflect.ValueOf(rapid.OneOf(
			rapid.Custom(func(t *rapid.T) any { return rapid.String().Draw(t, "text") }),
			rapid.Custom(func(t *rapid.T) any { return rapid.Float64().Draw(t, "number") }),
			rapid.Custom(func(t *rapid.T) any { return rapid.Bool().Draw(t, "bool") }),
		).Draw(t, "any")))
	case reflect.String:
		v.SetString(rapid.String().Draw(t, "text"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Float64:
		v.SetFloat(rapid.Float64().Draw(t, "float"))
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, "int"))
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(rapid.Uint64().Draw(t, "uint") & (1<<v.Type().Bits() - 1))
	default:
		t.Fatalf("cannot draw a %s", v.Type())
	}
}

func drawMap(t *rapid.T, v reflect.Value, depth int) {
	n := rapid.IntRange(0, 3).Draw(t, "len")
	if n == 0 {
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for range n {
		e := reflect.New(v.Type().Elem()).Elem()
		draw(t, e, depth+1)
		v.SetMapIndex(reflect.ValueOf(rapid.String().Draw(t, "key")), e)
	}
}

func TestRoundTrip(t *testing.T) {
	for _, info := range Kinds {
		t.Run(string(info.Kind), rapid.MakeCheck(func(t *rapid.T) {
			o := info.New()
			draw(t, reflect.ValueOf(o).Elem(), 0)
			data, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			back, err := Decode(info.Kind, data)
			if err != nil {
				t.Fatalf("%v\n%s", err, data)
			}
			// Slots come back empty instead of nil; a number that is whole comes back the same.
			if diff := cmp.Diff(o, back, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("(-was +is):\n%s", diff)
			}
		}))
	}
}

// TestYAMLSameAsJSON reads the golden objects through YAML.
func TestYAMLSameAsJSON(t *testing.T) {
	for kind, o := range whole() {
		data, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Decode(kind, data)
		if err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
		if diff := cmp.Diff(o, back); diff != "" {
			t.Errorf("%s (-was +is):\n%s", kind, diff)
		}
	}
}

// FuzzDecode: any bytes are refused with a whole answer, or give an object that survives being
// written and read again, also through Prepare.
func FuzzDecode(f *testing.F) {
	f.Add("", []byte(goodTask))
	f.Add("Zone", []byte("spec: {region: 北京}\n---\n"))
	f.Add("Zone", []byte("a: &a [1]\nb: *a\n<<: {c: 1}"))
	f.Add("Queue", []byte("{\"spec\":{\"paused\":true},\"spec\":{}}"))
	for _, info := range Kinds {
		data, err := os.ReadFile(filepath.Join("testdata", info.Singular+".json"))
		if err == nil {
			f.Add(string(info.Kind), data)
		}
	}
	f.Fuzz(func(t *testing.T, kind string, data []byte) {
		o, err := Decode(Kind(kind), data)
		if _, errAll := DecodeAll(data); errAll == nil && err != nil && kind == "" {
			if docs, _ := documents(data); len(docs) == 1 {
				t.Fatalf("DecodeAll accepts what Decode refuses: %v", err)
			}
		}
		if err != nil {
			refusedWhole(t, err)
			return
		}
		same(t, o)
		if err := Prepare(o, fixed); err != nil {
			refusedWhole(t, err)
			return
		}
		same(t, o)
	})
}

func same(t *testing.T, o Object) {
	t.Helper()
	data, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	back, err := Decode(o.Kind(), data)
	if err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	if diff := cmp.Diff(o, back, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("(-was +is):\n%s", diff)
	}
}
