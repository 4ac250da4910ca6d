// Package contract checks what services are asked before a replica is, where a service says what its questions look like.
//
// Place: layer 4, below the gateway; pure. It knows the forms that services name (OpenAI's, the Open Inference Protocol's, JSON) and a schema of the
// service's own. Promise: what is refused is told by its field; a path that a form says nothing of is not checked. Enemies: a tensor whose data is not
// as long as its shape says, numbers that overflow when they are multiplied, bodies in another encoding that a replica would read and a gateway not.
package contract

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/api/v1/shape"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Most is how large a question may be that is checked: it is read whole.
const Most = 8 << 20

// Contract is what a service's questions look like. It is not changed.
type Contract struct {
	format serving.Format
	own    *shape.Shape // the service's schema; nil: none
}

// New reads what a service says; nil: nothing is checked. A schema that can't be read was refused when it was written.
func New(c *serving.Contract) *Contract {
	if c.Format == "" {
		return nil
	}
	out := &Contract{format: c.Format}
	if c.Schema != nil {
		out.own, _ = shape.Read("schema", c.Schema)
	}
	return out
}

// Checks says that a question of this method and path is to be checked.
func (c *Contract) Checks(method, path string) bool {
	switch method {
	case http.MethodPost, http.MethodPut, http.MethodPatch:
		return c.format == serving.FormatJSON || c.shapeOf(path) != nil
	}
	return false
}

// shapeOf is that of a form's question to a path; nil: it says nothing of that.
func (c *Contract) shapeOf(path string) *shape.Shape {
	path, _, _ = strings.Cut(path, "?")
	switch c.format {
	case serving.FormatOpenAI:
		for _, known := range openAI {
			if strings.HasSuffix(path, known.path) {
				return known.shape()
			}
		}
	case serving.FormatKServe:
		if strings.HasPrefix(path, "/v2/models/") && strings.HasSuffix(path, "/infer") {
			return tensors()
		}
	case serving.FormatJSON:
		return anything()
	}
	return nil
}

// Check compares a question with the contract; nil: it is kept.
func (c *Contract) Check(path string, h http.Header, body []byte) *fault.Field {
	if e := h.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return &fault.Field{Message: fault.T("It comes in the encoding %.40q; the service is asked without one.", "内容编码为 %.40q；请以未编码的形式发送。", e)}
	}
	binary := false
	if text := h.Get("Inference-Header-Content-Length"); text != "" && c.format == serving.FormatKServe {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > len(body) {
			return &fault.Field{Message: fault.T("Inference-Header-Content-Length is not the length of its JSON.", "Inference-Header-Content-Length 与 JSON 部分的长度不符。")}
		}
		body, binary = body[:n], true
	}
	if bad := c.shapeOf(path).Check(body); bad != nil {
		return bad
	}
	if c.format == serving.FormatKServe {
		if bad := checkTensors(body, binary); bad != nil {
			return bad
		}
	}
	if c.own == nil {
		return nil
	}
	return c.own.CheckValid(body)
}

// must reads a schema of ours when it is first needed: every launcher is a start of this program.
func must(text string) func() *shape.Shape {
	return sync.OnceValue(func() *shape.Shape {
		var schema map[string]any
		err := json.Unmarshal([]byte(text), &schema)
		s, faults := shape.Read("", schema)
		if err != nil || len(faults) > 0 {
			panic(fmt.Sprint("contract: a schema of ours can't be read: ", err, faults))
		}
		return s
	})
}

var anything = must(`{}`)

// sampling are fields that OpenAI's questions share.
const sampling = `"model": {"type": "string"}, "stream": {"type": ["boolean", "null"]}, "temperature": {"type": ["number", "null"], "minimum": 0, "maximum": 2},
	"top_p": {"type": ["number", "null"], "minimum": 0, "maximum": 1}, "max_tokens": {"type": ["integer", "null"], "minimum": 1}, "n": {"type": ["integer", "null"], "minimum": 1},
	"stop": {"anyOf": [{"type": ["string", "null"]}, {"type": "array", "items": {"type": "string"}}]}, "user": {"type": "string"}`

// openAI are the questions of which the form says what they are; the longer path comes first.
var openAI = []struct {
	path  string
	shape func() *shape.Shape
}{
	{"/chat/completions", must(`{"type": "object", "required": ["messages"], "properties": {` + sampling + `, "max_completion_tokens": {"type": ["integer", "null"], "minimum": 1},
		"messages": {"type": "array", "minItems": 1, "items": {"type": "object", "required": ["role"], "properties": {
			"role": {"enum": ["system", "developer", "user", "assistant", "tool", "function"]},
			"content": {"anyOf": [{"type": ["string", "null"]}, {"type": "array", "items": {"type": "object", "required": ["type"], "properties": {"type": {"type": "string"}}}}]}}}},
		"tools": {"type": ["array", "null"], "items": {"type": "object", "required": ["type"]}}}}`)},
	{"/completions", must(`{"type": "object", "required": ["prompt"], "properties": {` + sampling + `,
		"prompt": {"anyOf": [{"type": "string"}, {"type": "array", "minItems": 1, "items": {"anyOf": [{"type": ["string", "integer"]}, {"type": "array", "items": {"type": "integer"}}]}}]}}}`)},
	{"/embeddings", must(`{"type": "object", "required": ["input"], "properties": {"model": {"type": "string"},
		"input": {"anyOf": [{"type": "string", "minLength": 1}, {"type": "array", "minItems": 1, "items": {"anyOf": [{"type": ["string", "integer"]}, {"type": "array", "items": {"type": "integer"}}]}}]}}}`)},
}

// tensors is a question of the Open Inference Protocol (V2).
var tensors = must(`{"type": "object", "required": ["inputs"], "properties": {"id": {"type": "string"}, "parameters": {"type": "object"},
	"inputs": {"type": "array", "minItems": 1, "items": {"type": "object", "required": ["name", "shape", "datatype"], "properties": {"name": {"type": "string"}, "parameters": {"type": "object"},
		"shape": {"type": "array", "maxItems": 16, "items": {"type": "integer", "minimum": 0}},
		"datatype": {"enum": ["BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64", "BF16", "BYTES"]},
		"data": {"type": "array"}}}},
	"outputs": {"type": "array", "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}}}}`)

// maxElements bounds what a tensor is said to have: its JSON could not be as long.
const maxElements = Most

// checkTensors compares what tensors have with what their shapes say. The bytes have the form of such a question.
func checkTensors(body []byte, binary bool) *fault.Field {
	var q struct {
		Inputs []struct {
			Shape      []float64       `json:"shape"`
			Parameters json.RawMessage `json:"parameters"`
			Data       json.RawMessage `json:"data"`
		} `json:"inputs"`
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return &fault.Field{Path: "inputs", Message: fault.T("They can't be read.", "无法读取。")}
	}
	for i, t := range q.Inputs {
		at := fmt.Sprintf("inputs[%d]", i)
		if t.Data == nil {
			var p map[string]json.RawMessage
			_ = json.Unmarshal(t.Parameters, &p)
			if binary && p["binary_data_size"] != nil || p["shared_memory_region"] != nil {
				continue
			}
			return &fault.Field{Path: at + ".data", Message: fault.T("It is missing.", "缺少该字段。")}
		}
		want := 1.0
		for _, d := range t.Shape {
			want *= d
		}
		got := leaves(t.Data)
		if want > maxElements || float64(got) != want {
			dims := make([]string, len(t.Shape))
			for k, d := range t.Shape {
				dims[k] = strconv.FormatFloat(d, 'f', -1, 64)
			}
			return &fault.Field{Path: at + ".data", Message: fault.T("It has %d elements; the shape [%.80s] has %g.", "有 %d 个元素；shape [%.80s] 应有 %g 个。", got, strings.Join(dims, ", "), want)}
		}
	}
	return nil
}

// leaves counts the elements of an array that are no arrays, in arrays in it too. The bytes are JSON.
func leaves(data []byte) (n int) {
	text, inValue, deep := false, false, 0
	for i := 0; i < len(data); i++ {
		b := data[i]
		if text {
			if b == '\\' {
				i++
			} else if b == '"' {
				text = false
			}
			continue
		}
		switch {
		case b == '"':
			text = true
			if deep == 0 {
				n++
			}
		case b == '{':
			if deep == 0 {
				n++
			}
			deep++
		case b == '}':
			deep--
		case strings.IndexByte(" \t\r\n,[]:", b) >= 0:
			inValue = false
			continue
		case !inValue && deep == 0:
			n++
		}
		inValue = true
	}
	return n
}
