package batch

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestRead: only what is exactly as long as it says is asked together with others.
func TestRead(t *testing.T) {
	tensor := func(rest string) string { return `{"inputs": [{"name": "x", "datatype": "FP32", ` + rest + `}]}` }
	for body, rows := range map[string]int{
		tensor(`"shape": [2, 2], "data": [1, 2, 3, 4]`):                      2,
		tensor(`"shape": [2, 2], "data": [[1, 2], [3, 4]]`):                  2,
		tensor(`"shape": [1], "data": ["a,]b"]`):                             1,
		tensor(`"shape": [1, 2, 1], "data": [[[1], [2]]]`):                   1,
		`{"instances": [[1, 2], {"a": 3}, "b"], "signature_name": "s"}`:      3,
		tensor(`"shape": [2, 2], "data": [1, 2, 3]`):                         0,
		tensor(`"shape": [2, 2], "data": [1, 2, 3, 4, 5]`):                   0,
		tensor(`"shape": [2, 2], "data": [[1, 2, 3], [4]]`):                  0,
		tensor(`"shape": [2, 2], "data": [[1, 2], 3, 4]`):                    0,
		tensor(`"shape": [1, 2], "data": [[[1], [2]]]`):                      0,
		tensor(`"shape": [], "data": [1]`):                                   0,
		tensor(`"shape": [0], "data": []`):                                   0,
		tensor(`"shape": [-1], "data": [1]`):                                 0,
		tensor(`"shape": [1073741824, 1073741824, 1073741824], "data": [1]`): 0,
		tensor(`"shape": [1], "data": [1], "binary": 3`):                     0,
		`{"inputs": []}`:                0,
		`{"inputs": "a text to embed"}`: 0,
		`{"instances": []}`:             0,
		`{"instances": 3}`:              0,
		`{"messages": []}`:              0,
		`[1]`:                           0,
		`{"inputs": [{"name":"x","datatype":"FP32","shape":[2],"data":[1,2]},{"name":"y","datatype":"FP32","shape":[1],"data":[1]}]}`: 0,
	} {
		q := Read([]byte(body))
		if q == nil && rows != 0 || q != nil && q.Rows != rows {
			t.Errorf("%s: %+v instead of %d rows", body, q, rows)
		}
	}
}

// TestTogether: any questions of one signature, asked as one of an engine that doubles each number, get what each would have got alone.
func TestTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width, flat, tensors := rapid.IntRange(1, 3).Draw(t, "width"), rapid.Bool().Draw(t, "flat"), rapid.Bool().Draw(t, "tensors")
		var all []*Question
		var alone [][]byte
		for i := range rapid.IntRange(1, 5).Draw(t, "questions") {
			rows := rapid.IntRange(1, 4).Draw(t, "rows")
			data := [][]int{}
			for range rows {
				data = append(data, rapid.SliceOfN(rapid.IntRange(-9, 9), width, width).Draw(t, "row"))
			}
			body := asked(data, flat, tensors, fmt.Sprint("q", i))
			q := Read(body)
			if q == nil || q.Rows != rows || i > 0 && q.Signature != all[0].Signature {
				t.Fatalf("%s: %+v", body, q)
			}
			all, alone = append(all, q), append(alone, doubles(body))
		}
		got, err := Split(doubles(Join(all)), all)
		if err != nil {
			t.Fatal(err)
		}
		for i := range all {
			var a, b any
			if json.Unmarshal(got[i], &a) != nil || json.Unmarshal(alone[i], &b) != nil || !cmp.Equal(a, b) {
				t.Fatalf("question %d: %s instead of %s", i, got[i], alone[i])
			}
		}
	})
}

func asked(data [][]int, flat, tensors bool, id string) []byte {
	if !tensors {
		return []byte(plain(map[string]any{"instances": data}))
	}
	var in any = data
	if flat {
		var all []int
		for _, row := range data {
			all = append(all, row...)
		}
		in = all
	}
	return []byte(plain(map[string]any{"id": id, "inputs": []any{map[string]any{"name": "x", "datatype": "INT32", "shape": []int{len(data), len(data[0])}, "data": in}}}))
}

// doubles is an engine.
func doubles(body []byte) []byte {
	var q struct {
		ID     *string `json:"id"`
		Inputs []struct {
			Shape []int `json:"shape"`
			Data  any   `json:"data"`
		} `json:"inputs"`
		Instances any `json:"instances"`
	}
	if err := json.Unmarshal(body, &q); err != nil {
		panic(err)
	}
	if q.Inputs == nil {
		return []byte(plain(map[string]any{"predictions": double(q.Instances)}))
	}
	out := map[string]any{"model_name": "m", "outputs": []any{map[string]any{"name": "y", "shape": q.Inputs[0].Shape, "data": double(q.Inputs[0].Data)}}}
	if q.ID != nil {
		out["id"] = *q.ID
	}
	return []byte(plain(out))
}

func double(v any) any {
	switch x := v.(type) {
	case float64:
		return 2 * x
	case []any:
		out := []any{}
		for _, e := range x {
			out = append(out, double(e))
		}
		return out
	}
	return v
}

// TestSplitRefuses: an answer with other rows than were asked is nobody's.
func TestSplitRefuses(t *testing.T) {
	all := []*Question{Read([]byte(`{"instances": [1, 2]}`)), Read([]byte(`{"instances": [3]}`))}
	v2 := []*Question{Read(asked([][]int{{1}, {2}}, true, true, "a")), Read(asked([][]int{{3}}, true, true, "b"))}
	for answer, to := range map[string][]*Question{
		`{"predictions": [1, 2]}`: all, `{"predictions": 3}`: all, `{"error": "x"}`: all, `torn`: all,
		`{"outputs": [{"shape": [2], "data": [1, 2]}]}`: v2, `{"outputs": [{"shape": [3], "data": [1, 2]}]}`: v2, `{"outputs": []}`: v2, `{"outputs": [{"shape": [], "data": []}]}`: v2,
	} {
		if got, err := Split([]byte(answer), to); err == nil {
			t.Errorf("%s was split into %s", answer, got)
		}
	}
}

// FuzzRead: no body breaks it, and what it takes in comes out again.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 2], "data": [[1, 2], [3, 4]]}], "id": "a"}`))
	f.Add([]byte(`{"instances": [[1], {"a": 2}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		q := Read(body)
		if q == nil {
			return
		}
		two := Read(Join([]*Question{q, q}))
		if two == nil || two.Rows != 2*q.Rows {
			t.Errorf("%s twice: %+v", body, two)
		}
	})
}
