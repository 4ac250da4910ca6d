package serve

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/test/harness"
)

// makeGGUF FILE: a language model of two small layers with random weights, whose tokens are bytes.
const makeGGUF = `
import sys
import numpy
from gguf import GGUFWriter, LlamaFileType, TokenType
rng = numpy.random.default_rng(1)
width, layers, heads, inner, length = 64, 2, 4, 128, 2048
tokens = [b"<unk>", b"<s>", b"</s>"] + [b"<0x%02X>" % i for i in range(256)] + [bytes([c]) for c in range(97, 123)] + ["\u2581".encode()]
kinds = [TokenType.UNKNOWN, TokenType.CONTROL, TokenType.CONTROL] + [TokenType.BYTE] * 256 + [TokenType.NORMAL] * 27
w = GGUFWriter(sys.argv[1], "llama")
w.add_name("random")
w.add_context_length(length)
w.add_embedding_length(width)
w.add_block_count(layers)
w.add_feed_forward_length(inner)
w.add_head_count(heads)
w.add_head_count_kv(heads)
w.add_layer_norm_rms_eps(1e-5)
w.add_rope_dimension_count(width // heads)
w.add_vocab_size(len(tokens))
w.add_file_type(LlamaFileType.ALL_F32)
w.add_tokenizer_model("llama")
w.add_token_list(tokens)
w.add_token_scores([0.0] * len(tokens))
w.add_token_types(kinds)
w.add_bos_token_id(1)
w.add_eos_token_id(2)
w.add_unk_token_id(0)
w.add_chat_template("{% for m in messages %}{{ m['role'] }}: {{ m['content'] }} {% endfor %}")
def put(name, *shape):
    data = rng.normal(0, 0.2, shape) if len(shape) > 1 else numpy.ones(shape)
    w.add_tensor(name, data.astype(numpy.float32))
put("token_embd.weight", len(tokens), width)
put("output_norm.weight", width)
put("output.weight", len(tokens), width)
for i in range(layers):
    for part, shape in {"attn_norm": [width], "attn_q": [width, width], "attn_k": [width, width], "attn_v": [width, width], "attn_output": [width, width],
                        "ffn_norm": [width], "ffn_gate": [inner, width], "ffn_up": [inner, width], "ffn_down": [width, inner]}.items():
        put(f"blk.{i}.{part}.weight", *shape)
w.write_header_to_file()
w.write_kv_data_to_file()
w.write_tensors_to_file()
w.close()
`

// chatLlama is OpenAI's own client: models, a whole answer, the same as a stream, one with a question almost as long as is allowed, one that is longer.
const chatLlama = `
import os, sys, openai
client = openai.OpenAI(base_url=os.environ["BASE"], api_key=os.environ["KEY"], max_retries=0)
assert "llama" in [m.id for m in client.models.list()]
def ask(words, n=16, **more):
    return client.chat.completions.create(model="llama", messages=[{"role": "user", "content": words}], max_tokens=n, temperature=0, seed=1, extra_body={"ignore_eos": True}, **more)
whole = ask("hello")
assert whole.model == "llama" and whole.usage.completion_tokens == 16, whole
parts = [c for c in ask("hello", stream=True, stream_options={"include_usage": True})]
assert "".join(c.choices[0].delta.content or "" for c in parts if c.choices) == whole.choices[0].message.content, parts
assert parts[-1].usage.total_tokens == whole.usage.total_tokens, parts[-1]
long = ask("a" * 400)
assert long.usage.prompt_tokens > 400, long.usage
try:
    ask("a" * 600)
except openai.BadRequestError as e:
    print("too long:", e.body)
else:
    sys.exit("a question of more than 512 tokens is answered")
print("TOKENS", whole.usage.total_tokens)
`

// TestLlama: a member's model, found to be GGUF by its bytes, is answered with by llama.cpp's own server to OpenAI's own client. Each request has as much room
// as the service says, the gateway reads the engine's own words by the names that it has for them, and counts its tokens.
func TestLlama(t *testing.T) {
	root := os.Getenv("FERMI_LLAMA")
	if root == "" {
		t.Skip("make e2e-llama runs it")
	}
	python := filepath.Join(root, "python", "bin", "python3")
	file := filepath.Join(t.TempDir(), "random.gguf")
	if out, err := exec.CommandContext(t.Context(), python, "-c", makeGGUF, file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	w := newWorld(t, "--folder", "llama="+root)
	w.grant("llama")
	w.fermi("model", "upload", "random", file)
	if shown := w.fermi("model", "show", "random"); !strings.Contains(shown, "gguf") {
		t.Errorf("its format: %s", shown)
	}
	if out, err := w.try("service", "create", "llama", "--engine", "llama-cpp", "--model", "random", "--model-file", "random.gguf", "--folder", "llama", "--batch-size", "2", "--max-length", "512", "--format", "openai",
		"--", filepath.Join(root, "llama-server")); err != nil {
		logs, _ := w.try("service", "logs", "llama")
		t.Fatalf("%v\n%s\n%s", err, out, logs)
	}
	for _, at := range []string{w.url(), w.gateway} {
		cmd := exec.CommandContext(t.Context(), python, "-c", chatLlama)
		cmd.Env = append(os.Environ(), "BASE="+at+"/v1", "KEY="+w.key, "NO_PROXY=*", "no_proxy=*")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "TOKENS ") {
			logs, _ := w.try("service", "logs", "llama")
			t.Fatalf("OpenAI's client: %v\n%s\n%s", err, out, logs)
		}
	}
	if status, body, err := ask(t.Context(), http.MethodPost, w.gateway+"/v1/chat/completions", w.key, strings.NewReader(`{"model": "llama", "messages": "hello"}`)); err != nil || status != 400 || !strings.Contains(body, "messages") {
		t.Errorf("a question that is none: %d %s %v", status, body, err)
	}

	// Two places, and more questions than those: the engine says that some wait, under the name that the recipe has.
	var asking sync.WaitGroup
	for range 8 {
		asking.Go(func() {
			body := `{"model": "llama", "max_tokens": 100, "ignore_eos": true, "messages": [{"role": "user", "content": "go"}]}`
			if status, answer, err := ask(t.Context(), http.MethodPost, w.gateway+"/v1/chat/completions", w.key, strings.NewReader(body)); err != nil || status != 200 {
				t.Errorf("%d %s %v", status, answer, err)
			}
		})
	}
	waiting := serving.GaugesOf(serving.EngineLlama).Waiting[0]
	harness.Eventually(t, "the engine says that requests wait", func() bool {
		_, metrics, _ := ask(t.Context(), http.MethodGet, w.gateway+"/inference/llama/metrics", w.key, nil)
		for line := range strings.Lines(metrics) {
			if name, value, _ := strings.Cut(strings.TrimSpace(line), " "); name == waiting && value != "0" {
				return true
			}
		}
		return false
	})
	asking.Wait()
	harness.Eventually(t, "its tokens are counted", func() bool {
		figures := w.fermi("service", "figures", "llama", "-o", "json")
		_, tokens, ok := strings.Cut(figures, `"tokens": `)
		return ok && !strings.HasPrefix(tokens, "0")
	})
	w.fermi("service", "stop", "llama")
	if left := processesOf(root + "/llama-server"); len(left) > 0 {
		t.Errorf("processes are left: %q", left)
	}
}
