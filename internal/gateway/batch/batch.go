// Package batch makes one question of several to the same model, and several answers of its one.
//
// Place: layer 4, below the gateway; pure. It knows two forms: tensors of the Open Inference Protocol (V2) as JSON, and {"instances": […]} as TensorFlow
// Serving has it. Promise: each asker gets the rows of its own question, or nobody gets any. Enemies: a question whose data is not as long as it
// says, which would push its rows into the answers of others; an engine whose answer has another number of rows than were asked.
package batch

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
)

// Question is one that can be asked together with others.
type Question struct {
	// Rows is how many it asks about.
	Rows int
	// Signature tells which can be asked together: those with the same one.
	Signature string

	id     json.RawMessage            // of V2; nil: none
	others map[string]json.RawMessage // what all of them say alike
	inputs []tensor                   // nil: it has instances
	rows   []json.RawMessage          // its instances
}

// tensor is one of V2.
type tensor struct {
	Name       string            `json:"name"`
	Shape      []int             `json:"shape"`
	Type       string            `json:"datatype"`
	Parameters json.RawMessage   `json:"parameters,omitempty"`
	Data       []json.RawMessage `json:"data"`
}

const (
	maxRows = 1 << 20
	maxDims = 16
)

// Read finds out whether a question can be asked together with others; nil: it can't.
func Read(body []byte) *Question {
	q := &Question{}
	if json.Unmarshal(body, &q.others) != nil {
		return nil
	}
	switch {
	case q.others["inputs"] != nil:
		return q.readTensors()
	case q.others["instances"] != nil:
		if json.Unmarshal(q.others["instances"], &q.rows) != nil || len(q.rows) == 0 || len(q.rows) > maxRows {
			return nil
		}
		delete(q.others, "instances")
		q.Rows, q.Signature = len(q.rows), "instances "+plain(q.others)
		return q
	}
	return nil
}

// readTensors reads a question of V2.
func (q *Question) readTensors() *Question {
	d := json.NewDecoder(bytes.NewReader(q.others["inputs"]))
	d.DisallowUnknownFields() // a field that we don't know may change what the data means
	if d.Decode(&q.inputs) != nil || len(q.inputs) == 0 {
		return nil
	}
	q.id = q.others["id"]
	delete(q.others, "inputs")
	delete(q.others, "id")
	said := []string{"tensors", plain(q.others)}
	for i := range q.inputs {
		t := &q.inputs[i]
		if len(t.Shape) == 0 || t.Shape[0] != q.inputs[0].Shape[0] || t.Shape[0] < 1 || t.Shape[0] > maxRows {
			return nil
		}
		flat := isFlat(t.Data)
		if n, ok := product(t.Shape); !ok || flat && len(t.Data) != n || !flat && !isShaped(t.Data, t.Shape) {
			return nil
		}
		said = append(said, plain([]any{t.Name, t.Type, t.Shape[1:], t.Parameters, flat}))
	}
	q.Rows, q.Signature = q.inputs[0].Shape[0], strings.Join(said, " ")
	return q
}

// plain is something as one text; the same for the same.
func plain(v any) string {
	raw, _ := json.Marshal(v) // it was decoded before
	return string(raw)
}

// product is how many numbers a tensor has; false: none, or too many.
func product(shape []int) (n int, ok bool) {
	n = 1
	for _, d := range shape {
		if d < 1 || d > maxRows || len(shape) > maxDims {
			return 0, false
		}
		if n *= d; n > 1<<30 {
			return 0, false
		}
	}
	return n, true
}

// isFlat says that none of the elements is an array or an object.
func isFlat(data []json.RawMessage) bool {
	return !slices.ContainsFunc(data, func(e json.RawMessage) bool { return e[0] == '[' || e[0] == '{' })
}

// isShaped says that arrays in arrays are exactly as long as a shape says.
func isShaped(data []json.RawMessage, shape []int) bool {
	if len(data) != shape[0] || len(shape) == 1 {
		return len(data) == shape[0] && isFlat(data)
	}
	for _, e := range data {
		var below []json.RawMessage
		if json.Unmarshal(e, &below) != nil || !isShaped(below, shape[1:]) {
			return false
		}
	}
	return true
}

// Join is the question of all of them; they have one signature.
func Join(all []*Question) []byte {
	out := map[string]any{}
	for name, value := range all[0].others {
		out[name] = value
	}
	if all[0].inputs == nil {
		var rows []json.RawMessage
		for _, q := range all {
			rows = append(rows, q.rows...)
		}
		out["instances"] = rows
		return []byte(plain(out))
	}
	inputs := slices.Clone(all[0].inputs)
	for i := range inputs {
		t := &inputs[i]
		t.Shape, t.Data = slices.Clone(t.Shape), slices.Clone(t.Data)
		for _, q := range all[1:] {
			t.Shape[0] += q.Rows
			t.Data = append(t.Data, q.inputs[i].Data...)
		}
	}
	out["inputs"] = inputs
	return []byte(plain(out))
}

var errRows = errors.New("the answer has not the rows that were asked")

// Split is the answer to each of them, of the answer to their one question.
func Split(answer []byte, all []*Question) ([][]byte, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(answer, &fields); err != nil {
		return nil, err
	}
	total := 0
	for _, q := range all {
		total += q.Rows
	}
	if all[0].inputs != nil {
		return splitTensors(fields, all, total)
	}
	var rows []json.RawMessage
	if json.Unmarshal(fields["predictions"], &rows) != nil || len(rows) != total {
		return nil, errRows
	}
	out := make([][]byte, 0, len(all))
	for _, q := range all {
		fields["predictions"] = json.RawMessage(plain(rows[:q.Rows]))
		rows = rows[q.Rows:]
		out = append(out, []byte(plain(fields)))
	}
	return out, nil
}

// output is a tensor of an answer; what else it says is passed on.
type output struct {
	fields map[string]json.RawMessage
	shape  []int
	data   []json.RawMessage
	per    int // elements of data for a row
}

func splitTensors(fields map[string]json.RawMessage, all []*Question, total int) ([][]byte, error) {
	var raw []map[string]json.RawMessage
	if json.Unmarshal(fields["outputs"], &raw) != nil || len(raw) == 0 {
		return nil, errRows
	}
	outputs := make([]output, len(raw))
	for i, f := range raw {
		o := output{fields: f}
		if json.Unmarshal(f["shape"], &o.shape) != nil || json.Unmarshal(f["data"], &o.data) != nil || len(o.shape) == 0 || o.shape[0] != total {
			return nil, errRows
		}
		n, ok := product(o.shape)
		switch flat := isFlat(o.data); {
		case ok && flat && len(o.data) == n:
			o.per = n / total
		case ok && !flat && len(o.data) == total:
			o.per = 1
		default:
			return nil, errRows
		}
		outputs[i] = o
	}
	delete(fields, "id")
	out := make([][]byte, 0, len(all))
	for _, q := range all {
		mine := make([]map[string]json.RawMessage, len(outputs))
		for i := range outputs {
			o := &outputs[i]
			mine[i] = map[string]json.RawMessage{}
			for name, value := range o.fields {
				mine[i][name] = value
			}
			o.shape[0] = q.Rows
			mine[i]["shape"] = json.RawMessage(plain(o.shape))
			mine[i]["data"] = json.RawMessage(plain(o.data[:q.Rows*o.per]))
			o.data = o.data[q.Rows*o.per:]
		}
		whole := map[string]any{"outputs": mine}
		for name, value := range fields {
			if name != "outputs" {
				whole[name] = value
			}
		}
		if q.id != nil {
			whole["id"] = q.id
		}
		out = append(out, []byte(plain(whole)))
	}
	return out, nil
}
