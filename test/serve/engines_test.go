package serve

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/fermi-cluster/fermi/test/harness"
)

// engineFiles are what the engines answer with, beside the weights: a model of MLServer's and one of Triton's, both of the same
// weights, and what a client asks.
var engineFiles = map[string]string{
	"mlserver/settings.json":       `{"debug": false, "parallel_workers": 0}`,
	"mlserver/model-settings.json": `{"name": "magika", "implementation": "runtime.Magika", "parameters": {"uri": "../magika.onnx"}}`,
	"mlserver/runtime.py": `
import os
import numpy, onnxruntime
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse

class Magika(MLModel):
    async def load(self):
        self.session = onnxruntime.InferenceSession(os.environ["WEIGHTS"])
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        x = NumpyCodec.decode_input(payload.inputs[0]).astype(numpy.int32)
        out = self.session.run(None, {self.session.get_inputs()[0].name: x})[0]
        return InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output("target_label", out)])
`,
	"triton/magika/config.pbtxt": `
name: "magika"
backend: "python"
max_batch_size: 0
input [ { name: "bytes" data_type: TYPE_INT32 dims: [ -1, 2048 ] } ]
output [ { name: "target_label" data_type: TYPE_FP32 dims: [ -1, -1 ] } ]
instance_group [ { kind: KIND_CPU } ]
`,
	"triton/magika/1/model.py": `
import os, sys
sys.path.insert(0, os.environ["SITE"])
import numpy, onnxruntime
import triton_python_backend_utils as pb

class TritonPythonModel:
    def initialize(self, args):
        self.session = onnxruntime.InferenceSession(os.environ["WEIGHTS"])

    def execute(self, requests):
        answers = []
        for r in requests:
            x = pb.get_input_tensor_by_name(r, "bytes").as_numpy().astype(numpy.int32)
            out = self.session.run(None, {self.session.get_inputs()[0].name: x})[0]
            answers.append(pb.InferenceResponse([pb.Tensor("target_label", out.astype(numpy.float32))]))
        return answers
`,
	"torchserve/handler.py": `
import json, os
import numpy, onnxruntime

session = None

def handle(data, context):
    global session
    if session is None:
        session = onnxruntime.InferenceSession(os.environ["WEIGHTS"])
    if data is None:
        return None
    answers = []
    for one in data:
        x = one.get("body", one.get("data"))
        x = numpy.array(x if isinstance(x, list) else json.loads(x), dtype=numpy.int32)
        answers.append(session.run(None, {session.get_inputs()[0].name: x})[0].tolist())
    return answers
`,
	// ask.py AT KEY SERVICE MODEL http|grpc|grpcs|torchserve: asks what kind of text two texts are, by Triton's own client, or as TorchServe's clients do, which are any for HTTP.
	"ask.py": `
import sys
import numpy
at, key, service, model, how = sys.argv[1:6]
texts = [b"import os\n\n\ndef main():\n    for name in os.listdir('.'):\n        print(name)\n\n\nif __name__ == '__main__':\n    main()\n" * 8,
         b"<!DOCTYPE html>\n<html><head><title>x</title></head><body><p>hello</p></body></html>\n" * 8]
x = numpy.full((2, 2048), 256, dtype=numpy.int32)
for i, text in enumerate(texts):
    x[i, :1024] = numpy.resize(numpy.frombuffer(text[:1024].ljust(1024), dtype=numpy.uint8), 1024)
    x[i, 1024:] = numpy.resize(numpy.frombuffer(text[-1024:].rjust(1024), dtype=numpy.uint8), 1024)
if how == "torchserve":
    import json, urllib.request
    for _ in range(3):
        asked = urllib.request.Request(f"http://{at}/inference/{service}/predictions/{model}", json.dumps(x.tolist()).encode(), {"Content-Type": "application/json", "Authorization": "Bearer " + key})
        kinds = numpy.array(json.load(urllib.request.urlopen(asked))).argmax(axis=1)
        assert kinds[0] != kinds[1], kinds
    print("KINDS", *kinds)
    sys.exit()
if how == "http":
    import tritonclient.http as kind
    client = kind.InferenceServerClient(url=f"{at}/inference/{service}")
    given = {"headers": {"Authorization": "Bearer " + key}}
else:
    import tritonclient.grpc as kind
    options = {}
    if how == "grpcs":
        options = {"ssl": True, "root_certificates": sys.argv[6]}
    client = kind.InferenceServerClient(url=at, **options)
    given = {"headers": {"authorization": "Bearer " + key, "x-fermi-service": service}}
meta = client.get_model_metadata(model, **given)
inputs = meta["inputs"] if how == "http" else meta.inputs
name = "bytes"
if inputs:
    name = inputs[0]["name"] if how == "http" else inputs[0].name
asked = kind.InferInput(name, list(x.shape), "INT32")
if how == "http":
    asked.set_data_from_numpy(x, binary_data=False)
    outputs = [kind.InferRequestedOutput("target_label", binary_data=False)]
else:
    asked.set_data_from_numpy(x)
    outputs = None
for _ in range(3):
    out = client.infer(model, [asked], outputs=outputs, **given).as_numpy("target_label")
    assert out.shape[0] == 2, out.shape
    kinds = out.argmax(axis=1)
    assert kinds[0] != kinds[1], kinds
print("KINDS", *kinds)
`,
}

// TestEngines: an ordinary member deploys each engine that runs on CPUs with real weights, and its maker's client gets
// answers through the gateway: over HTTP, gRPC, and gRPC with TLS. All of them say the same of the same texts, and leave no process behind.
func TestEngines(t *testing.T) {
	root := os.Getenv("FERMI_ENGINES")
	if root == "" {
		t.Skip("make e2e-engines runs it")
	}
	for name, text := range engineFiles {
		file := filepath.Join(root, "models", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	weights, err := os.ReadFile(filepath.Join(root, "magika.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "models", "magika.onnx"), weights, 0o644); err != nil {
		t.Fatal(err)
	}
	in := func(parts ...string) string { return filepath.Join(append([]string{root}, parts...)...) }
	if out, err := exec.CommandContext(t.Context(), in("torchserve", "bin", "torch-model-archiver"), "--model-name", "magika", "--version", "1.0", "--handler", in("models", "torchserve", "handler.py"), "--export-path", in("models", "torchserve"), "--force").CombinedOutput(); err != nil {
		t.Fatalf("torch-model-archiver: %v\n%s", err, out)
	}
	w := newWorld(t, "--folder", "engines="+root)
	w.grant("engines")
	secure, certificate := w.secureGateway()
	env := "WEIGHTS=" + in("models", "magika.onnx")
	triton := in("triton", "lib", "python3.11", "site-packages", "pytriton", "tritonserver")
	said := map[string]string{}
	for _, row := range []struct {
		name, home string
		create     []string
		how        []string
	}{
		{"onnx", "onnx", []string{"--engine", "onnxruntime", "--folder", "engines/models", "--model-file", "magika.onnx", "--batch-size", "8", "--", in("onnx", "bin", "python3"), "-m", "fermi.onnx"}, []string{"http"}},
		{"mlserver", "mlserver", []string{"--engine", "mlserver", "--folder", "engines/models/mlserver", "--env", env, "--", in("mlserver", "bin", "mlserver"), "start"}, []string{"http"}},
		{"mlserver-grpc", "mlserver", []string{"--engine", "mlserver", "--protocol", "grpc", "--folder", "engines/models/mlserver", "--env", env, "--", in("mlserver", "bin", "mlserver"), "start"}, []string{"grpc", "grpcs"}},
		{"triton", "triton", []string{"--engine", "triton", "--folder", "engines/models", "--model-file", "triton", "--env", env, "--env", "PYTHONPATH=" + in("triton", "lib", "python3.11", "site-packages"), "--env", "SITE=" + in("triton", "lib", "python3.11", "site-packages"), "--env", "LD_LIBRARY_PATH=" + triton + "/external_libs:" + triton + "/lib", "--", triton + "/bin/tritonserver", "--backend-directory=" + triton + "/backends"}, []string{"http"}},
		{"triton-grpc", "triton", []string{"--engine", "triton", "--protocol", "grpc", "--folder", "engines/models", "--model-file", "triton", "--env", env, "--env", "PYTHONPATH=" + in("triton", "lib", "python3.11", "site-packages"), "--env", "SITE=" + in("triton", "lib", "python3.11", "site-packages"), "--env", "LD_LIBRARY_PATH=" + triton + "/external_libs:" + triton + "/lib", "--", triton + "/bin/tritonserver", "--backend-directory=" + triton + "/backends"}, []string{"grpc", "grpcs"}},
		{"torchserve", "torchserve", []string{"--engine", "torchserve", "--folder", "engines/models", "--model-file", "torchserve/magika.mar", "--memory", "4Gi", "--env", env, "--env", "PATH=" + in("torchserve", "bin") + ":/usr/bin:/bin", "--", in("torchserve", "bin", "torchserve")}, []string{"torchserve"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			if _, err := os.Stat(in(row.home + ".done")); err != nil {
				t.Fatalf("the engine %s is not installed: %v", row.home, err)
			}
			if out, err := w.try(append([]string{"service", "create", row.name}, row.create...)...); err != nil {
				logs, _ := w.try("service", "logs", row.name)
				t.Fatalf("%v\n%s\n%s", err, out, logs)
			}
			model := "magika"
			if row.name == "onnx" || row.name == "torchserve" {
				model = row.name
			}
			for _, how := range row.how {
				at := strings.TrimPrefix(w.gateway, "http://")
				if how == "grpcs" {
					at = secure
				}
				cmd := exec.CommandContext(t.Context(), in("client", "bin", "python3"), in("models", "ask.py"), at, w.key, row.name, model, how, certificate)
				cmd.Env = append(os.Environ(), "NO_PROXY=*", "no_proxy=*", "GRPC_ENABLE_FORK_SUPPORT=0")
				out, err := cmd.CombinedOutput()
				_, kinds, ok := strings.Cut(string(out), "KINDS ")
				if err != nil || !ok {
					t.Fatalf("%s: %v\n%s", how, err, out)
				}
				said[row.name+" "+how] = strings.TrimSpace(kinds)
			}
			if status, body, err := ask(t.Context(), http.MethodGet, w.gateway+"/inference/"+row.name+"/", w.foreign, nil); err != nil || status != 404 {
				t.Errorf("somebody else's key: %d %s %v", status, body, err)
			}
			w.fermi("service", "stop", row.name)
			if left := w.replicas(row.name); len(left) > 0 {
				t.Errorf("%d replicas are left", len(left))
			}
			if left := processesOf(in(row.home) + "/"); len(left) > 0 {
				t.Errorf("processes are left: %q", left)
			}
		})
	}
	for who, kinds := range said {
		if kinds != said["onnx http"] && said["onnx http"] != "" {
			t.Errorf("%s says %s, ONNX Runtime %s", who, kinds, said["onnx http"])
		}
	}
	t.Logf("answers: %v", said)
}

// makeData.py is a dataset of texts, as the model reads them, with what it says of them itself as labels; makeNet.py is a small TorchScript module.
const (
	makeData = `
import os, sys
import numpy, onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1])
rng, rows = numpy.random.default_rng(1), []
texts = [b"import os\nprint(os.getcwd())\n", b"<html><body>x</body></html>\n", b"int main() { return 0; }\n", b'{"a": [1, 2, 3]}\n', b"# Title\n\nSome words.\n", b"SELECT a FROM b WHERE c = 1;\n"]
for i in range(60):
    text = numpy.frombuffer((texts[i % 6] * 400)[rng.integers(0, 20):][:2048], dtype=numpy.uint8)
    rows.append(numpy.concatenate([text[:1024], text[-1024:]]).astype(numpy.int32))
x = numpy.stack(rows)
name = session.get_inputs()[0].name
os.makedirs(sys.argv[2], exist_ok=True)
numpy.savez(sys.argv[2] + "/texts.npz", **{name: x, "label": session.run(None, {name: x})[0].argmax(axis=1)})
`
	makeNet = `
import sys
import torch
torch.manual_seed(1)
torch.jit.save(torch.jit.trace(torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3)), torch.zeros(1, 8)), sys.argv[1])
`
)

// TestOptimize: a member has the weights of a real model quantised and a module exported; the new versions are there with what was measured, say what they
// were made from, and the quantised one answers as a service. One that loses more than is allowed leaves no version.
func TestOptimize(t *testing.T) {
	root := os.Getenv("FERMI_ENGINES")
	if root == "" {
		t.Skip("make e2e-engines runs it")
	}
	in := func(parts ...string) string { return filepath.Join(append([]string{root}, parts...)...) }
	dir := t.TempDir()
	for _, args := range [][]string{{in("optimize", "bin", "python3"), "-c", makeData, in("magika.onnx"), filepath.Join(dir, "texts")}, {in("torchserve", "bin", "python3"), "-c", makeNet, filepath.Join(dir, "net.pt")}} {
		if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	w := newWorld(t, "--folder", "engines="+root)
	w.grant("engines")
	w.fermi("model", "upload", "magika", in("magika.onnx"))
	w.fermi("model", "upload", "net", filepath.Join(dir, "net.pt"))
	w.fermi("data", "upload", "texts", filepath.Join(dir, "texts"))
	python := in("optimize", "bin", "python3")
	figures := func(version string, task string) map[string]string {
		t.Helper()
		harness.Eventually(t, version+" is there, or its task has failed", func() bool {
			_, err := w.try("model", "show", version)
			return err == nil || strings.Contains(w.fermi("get", "task", task, "-o", "json"), `"phase": "Failed"`)
		})
		shown, err := w.try("model", "show", version)
		if err != nil {
			t.Fatalf("%v\n%s\n%s", err, shown, w.fermi("logs", task))
		}
		out := map[string]string{}
		for line := range strings.Lines(shown) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			out[name] = strings.TrimSpace(value)
		}
		return out
	}
	number := func(said map[string]string, name string) float64 {
		n, err := strconv.ParseFloat(said[name], 64)
		if err != nil {
			t.Errorf("%s is %q", name, said[name])
		}
		return n
	}

	w.fermi("model", "optimize", "magika", "--to", "uint8", "--data", "texts", "--max-loss", "50", "--python", python, "--folder", "engines", "--name", "smaller")
	said := figures("magika@2", "smaller")
	if number(said, "size.after") >= number(said, "size.before") || number(said, "latency.after.ms") <= 0 || number(said, "accuracy.before.percent") != 100 || number(said, "accuracy.after.percent") < 50 || said["optimized.from"] != "magika" {
		t.Errorf("measured: %v", said)
	}
	t.Logf("measured: %v", said)
	w.fermi("service", "create", "smaller", "--engine", "onnxruntime", "--model", "magika@2", "--model-file", "magika.onnx", "--folder", "engines", "--", in("onnx", "bin", "python3"), "-m", "fermi.onnx")
	if status, body, err := ask(t.Context(), http.MethodGet, w.gateway+"/inference/smaller/v2/models/smaller", w.key, nil); err != nil || status != 200 || !strings.Contains(body, "INT32") {
		t.Errorf("the smaller model as a service: %d %s %v", status, body, err)
	}

	w.fermi("model", "optimize", "net", "--to", "onnx", "--shape", "1,8", "--output-model", "net-onnx", "--python", in("torchserve", "bin", "python3"), "--folder", "engines", "--name", "exported")
	said = figures("net-onnx", "exported")
	if number(said, "agreement.percent") != 100 || number(said, "difference.most") > 1e-4 || said["accuracy.after.percent"] != "" || !strings.Contains(said["measured.not"], "no labels") || said["Format"] != "onnx" {
		t.Errorf("measured: %v", said)
	}

	w.fermi("model", "optimize", "net-onnx", "--to", "int8", "--max-loss", "-1", "--output-model", "none", "--python", python, "--folder", "engines", "--name", "refused")
	harness.Eventually(t, "what loses too much fails", func() bool {
		return strings.Contains(w.fermi("get", "task", "refused", "-o", "json"), `"phase": "Failed"`)
	})
	if out, err := w.try("model", "show", "none"); err == nil {
		t.Errorf("it left a version: %s", out)
	}
}

// processesOf are the command lines that name a folder.
func processesOf(folder string) (out []string) {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range lines {
		if raw, err := os.ReadFile(file); err == nil && strings.Contains(string(raw), folder) {
			out = append(out, strings.ReplaceAll(string(raw), "\x00", " "))
		}
	}
	return out
}
