package kinds

import (
	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/image"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// WithCatalogue adds the entries of the catalogue that a new cluster begins with to what every cluster has: where find knows the first of that, the
// cluster is not new, and what was deleted stays away. Nobody has checked them: which registry has them is the operator's to say, by changing the
// reference, and fermi image verify says what is there.
func WithCatalogue(out []api.Object, meta func(prefix, name, display string) api.Meta, find func(api.Key) error) []api.Object {
	if _, known := api.InfoOf(image.Kind); !known || !fault.Is(find(api.KeyOf(out[0])), fault.NotFound) {
		return out
	}
	for _, e := range begins {
		m := meta("img", e.name, "")
		m.Owner = "admin"
		out = append(out, &image.Image{Meta: m, Spec: e.spec})
	}
	return out
}

const gibi = api.Bytes(1 << 30)

// begins are the usual ones, by the names under which people know them.
var begins = []struct {
	name string
	spec image.ImageSpec
}{
	{"pytorch-2-1-cuda12", image.ImageSpec{
		Reference: "pytorch/pytorch:2.1.0-cuda12.1-cudnn8-runtime", Category: image.Official, Framework: "PyTorch 2.1.0", CUDA: "12.1", Python: "3.10", Size: 3 * gibi,
		Uses: []image.Use{"training", "notebook"}, Tags: []string{"pytorch", "cudnn8"}, Description: fault.T("PyTorch for training on GPUs.", "用于 GPU 训练的 PyTorch。"),
	}},
	{"tensorflow-2-14-gpu", image.ImageSpec{
		Reference: "tensorflow/tensorflow:2.14.0-gpu", Category: image.Official, Framework: "TensorFlow 2.14.0", CUDA: "11.8", Python: "3.11", Size: 3 * gibi,
		Uses: []image.Use{"training"}, Tags: []string{"tensorflow", "keras"}, Description: fault.T("TensorFlow with GPU support.", "支持 GPU 的 TensorFlow。"),
	}},
	{"jupyter-pytorch-notebook", image.ImageSpec{
		Reference: "jupyter/pytorch-notebook:latest", Category: image.Official, Framework: "PyTorch", Size: 2 * gibi,
		Uses: []image.Use{"notebook"}, Tags: []string{"jupyter", "pytorch"}, Description: fault.T("JupyterLab with PyTorch; starts it by itself (entryPoint).", "含 PyTorch 的 JupyterLab，可自行启动（entryPoint）。"),
	}},
	{"triton-inference-server-23-10", image.ImageSpec{
		Reference: "triton-inference-server:23.10-py3", Category: image.Official, Framework: "Triton 2.39", CUDA: "12.2", Python: "3.10", Size: 7 * gibi,
		Uses: []image.Use{"inference"}, Tags: []string{"triton", "onnx", "tensorrt"}, Description: fault.T("Triton Inference Server for models of several frameworks.", "支持多种框架模型的 Triton 推理服务器。"),
	}},
	{"vllm-openai-0-2-1", image.ImageSpec{
		Reference: "vllm/vllm-openai:v0.2.1", Category: image.Official, Framework: "vLLM 0.2.1", CUDA: "12.1", Python: "3.10", Size: 5 * gibi,
		Uses: []image.Use{"inference"}, Tags: []string{"vllm", "llm", "openai"}, Description: fault.T("Large language models behind OpenAI's API.", "以 OpenAI 接口提供大语言模型推理。"),
	}},
	{"rapids-ml-23-10", image.ImageSpec{
		Reference: "rapids-ml:23.10", Category: image.Community, Framework: "RAPIDS 23.10", CUDA: "11.8", Python: "3.10", Size: 8 * gibi,
		Uses: []image.Use{"notebook", "training"}, Tags: []string{"rapids", "cudf", "cuml"}, Description: fault.T("Data frames and classic machine learning on GPUs.", "在 GPU 上进行数据处理与经典机器学习。"),
	}},
	{"stable-diffusion-webui", image.ImageSpec{
		Reference: "stable-diffusion-webui:latest", Category: image.Community, Framework: "Stable Diffusion", Size: 6 * gibi,
		Uses: []image.Use{"inference"}, Tags: []string{"diffusion", "webui"}, Description: fault.T("Images from text, in the browser.", "在浏览器中由文本生成图像。"),
	}},
}
