package serve

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
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
import os
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
	// ask.py AT KEY SERVICE MODEL http|grpc|grpcs: asks what kind of text two texts are, by Triton's own client.
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

// TestEngines: an ordinary member deploys each engine that can be installed here with real weights, and its maker's client gets
// answers through the gateway: over HTTP, gRPC, and gRPC with TLS. All of them say the same of the same texts.
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
	w := newWorld(t, "--folder", "engines="+root)
	w.grant("engines")
	secure, certificate := w.secureGateway()
	in := func(parts ...string) string { return filepath.Join(append([]string{root}, parts...)...) }
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
		{"triton", "triton", []string{"--engine", "triton", "--folder", "engines/models", "--model-file", "triton", "--env", env, "--env", "PYTHONPATH=" + in("triton", "lib", "python3.11", "site-packages"), "--env", "LD_LIBRARY_PATH=" + triton + "/external_libs:" + triton + "/lib", "--", triton + "/bin/tritonserver", "--backend-directory=" + triton + "/backends"}, []string{"http"}},
		{"triton-grpc", "triton", []string{"--engine", "triton", "--protocol", "grpc", "--folder", "engines/models", "--model-file", "triton", "--env", env, "--env", "PYTHONPATH=" + in("triton", "lib", "python3.11", "site-packages"), "--env", "LD_LIBRARY_PATH=" + triton + "/external_libs:" + triton + "/lib", "--", triton + "/bin/tritonserver", "--backend-directory=" + triton + "/backends"}, []string{"grpc", "grpcs"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			if why, err := os.ReadFile(in(row.home + ".why")); err == nil {
				t.Skip("not verified: " + strings.TrimSpace(string(why)))
			}
			if out, err := w.try(append([]string{"service", "create", row.name}, row.create...)...); err != nil {
				logs, _ := w.try("service", "logs", row.name)
				t.Fatalf("%v\n%s\n%s", err, out, logs)
			}
			model := "magika"
			if row.name == "onnx" {
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
		})
	}
	for who, kinds := range said {
		if kinds != said["onnx http"] && said["onnx http"] != "" {
			t.Errorf("%s says %s, ONNX Runtime %s", who, kinds, said["onnx http"])
		}
	}
	t.Logf("answers: %v", said)
}
