package contract

import (
	"net/http"
	"testing"

	"github.com/fermi-cluster/fermi/api/v1/serving"
)

// TestForms: what a form knows is checked, and of what is wrong the field is told.
func TestForms(t *testing.T) {
	chat, infer := "/v1/chat/completions", "/v2/models/m/versions/1/infer"
	for _, tc := range []struct {
		format     serving.Format
		path, body string
		want       string // the field; "-": good
	}{
		{serving.FormatOpenAI, chat, `{"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": true, "extra_body": {}}`, "-"},
		{serving.FormatOpenAI, chat, `{"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}], "stop": ["a"]}`, "-"},
		{serving.FormatOpenAI, chat, `{"messages": []}`, "messages"},
		{serving.FormatOpenAI, chat, `{"prompt": "hi"}`, "messages"},
		{serving.FormatOpenAI, chat, `{"messages": [{"role": "boss", "content": "hi"}]}`, "messages[0].role"},
		{serving.FormatOpenAI, chat, `{"messages": [{"role": "user", "content": 5}]}`, "messages[0].content"},
		{serving.FormatOpenAI, chat, `{"messages": [{"role": "user", "content": "hi"}], "temperature": 3}`, "temperature"},
		{serving.FormatOpenAI, chat, `{"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1.5}`, "max_tokens"},
		{serving.FormatOpenAI, "/v1/completions", `{"prompt": [1, 2]}`, "-"},
		{serving.FormatOpenAI, "/v1/completions?x=y", `{"prompt": {}}`, "prompt"},
		{serving.FormatOpenAI, "/v1/embeddings", `{"input": ["a"]}`, "-"},
		{serving.FormatOpenAI, "/v1/embeddings", `{}`, "input"},
		{serving.FormatKServe, infer, `{"inputs": [{"name": "x", "shape": [2, 2], "datatype": "FP32", "data": [[1, 2], [3e1, -4]]}]}`, "-"},
		{serving.FormatKServe, infer, `{"inputs": [{"name": "x", "shape": [2], "datatype": "BYTES", "data": ["a,b", "\"]"]}]}`, "-"},
		{serving.FormatKServe, infer, `{"inputs": [{"name": "x", "shape": [0], "datatype": "BOOL", "data": []}]}`, "-"},
		{serving.FormatKServe, infer, `{"inputs": [{"name": "x", "shape": [3], "datatype": "FP32", "data": [1, 2]}]}`, "inputs[0].data"},
		{serving.FormatKServe, infer, `{"inputs": [{"name": "x", "shape": [99999999999, 99999999999], "datatype": "FP32", "data": [1, 2]}]}`, "inputs[0].data"},
		{serving.FormatKServe, infer, `{"inputs": [{"name": "x", "shape": [-1], "datatype": "FP32", "data": [1]}]}`, "inputs[0].shape[0]"},
		{serving.FormatKServe, infer, `{"inputs": [{"name": "x", "shape": [1], "datatype": "FLOAT", "data": [1]}]}`, "inputs[0].datatype"},
		{serving.FormatKServe, infer, `{"inputs": [{"name": "x", "shape": [1], "datatype": "FP32"}]}`, "inputs[0].data"},
		{serving.FormatKServe, infer, `{"instances": [1]}`, "inputs"},
		{serving.FormatJSON, "/", `[1, {}]`, "-"},
		{serving.FormatJSON, "/", `x=1`, ""},
	} {
		c := New(&serving.Contract{Format: tc.format})
		if !c.Checks(http.MethodPost, tc.path) {
			t.Errorf("%s: %s is not checked", tc.format, tc.path)
			continue
		}
		bad := c.Check(tc.path, http.Header{}, []byte(tc.body))
		if tc.want == "-" && bad != nil || tc.want != "-" && (bad == nil || bad.Path != tc.want || bad.Message.EN == "" || bad.Message.ZH == "") {
			t.Errorf("%s: %+v, want %q", tc.body, bad, tc.want)
		}
	}
}

// TestNotChecked: other methods and paths pass as they are; a body in an encoding, or whose binary part is not where it says, is refused.
func TestNotChecked(t *testing.T) {
	if New(&serving.Contract{}) != nil {
		t.Error("no format is checked")
	}
	openAI, v2 := New(&serving.Contract{Format: serving.FormatOpenAI}), New(&serving.Contract{Format: serving.FormatKServe})
	for _, free := range []bool{openAI.Checks(http.MethodGet, "/v1/chat/completions"), openAI.Checks(http.MethodPost, "/v1/audio/speech"), v2.Checks(http.MethodPost, "/v2/repository/index"), v2.Checks(http.MethodPost, "/v1/chat/completions")} {
		if free {
			t.Error("it is checked")
		}
	}
	path, head := "/v2/models/m/infer", `{"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "parameters": {"binary_data_size": 4}}]}`
	for body, want := range map[string]http.Header{
		"":                        {"Content-Encoding": {"gzip"}},
		head:                      {"Inference-Header-Content-Length": {"9999"}},
		head + "\x00\x00\x80\x3f": {},
	} {
		if bad := v2.Check(path, want, []byte(body)); bad == nil {
			t.Errorf("%v is taken", want)
		}
	}
	h := http.Header{"Inference-Header-Content-Length": {"100"}}
	if bad := v2.Check(path, h, []byte(head+"\x00\x00\x80\x3f")); len(head) != 100 || bad != nil {
		t.Errorf("%d bytes of JSON before binary ones: %+v", len(head), bad)
	}
}

// TestOwn: a service's schema counts beside its form.
func TestOwn(t *testing.T) {
	c := New(&serving.Contract{Format: serving.FormatOpenAI, Schema: map[string]any{"properties": map[string]any{"max_tokens": map[string]any{"maximum": 100.0}}, "required": []any{"user"}}})
	for body, want := range map[string]string{
		`{"messages": [{"role": "user", "content": "hi"}], "max_tokens": 100, "user": "a"}`: "-",
		`{"messages": [{"role": "user", "content": "hi"}], "max_tokens": 101, "user": "a"}`: "max_tokens",
		`{"messages": [{"role": "user", "content": "hi"}]}`:                                 "user",
	} {
		if bad := c.Check("/v1/chat/completions", http.Header{}, []byte(body)); want == "-" && bad != nil || want != "-" && (bad == nil || bad.Path != want) {
			t.Errorf("%s: %+v", body, bad)
		}
	}
}
