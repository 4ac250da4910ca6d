package recipe

import (
	"encoding/json"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// dsFile is DeepSpeed's configuration, in the order people write it.
type dsFile struct {
	Train       int          `json:"train_batch_size"`
	Micro       int          `json:"train_micro_batch_size_per_gpu"`
	Steps       int          `json:"gradient_accumulation_steps"`
	Optimizer   *dsOptimizer `json:"optimizer,omitempty"`
	FP16        *dsFP16      `json:"fp16,omitempty"`
	BF16        *dsSwitch    `json:"bf16,omitempty"`
	Zero        dsZero       `json:"zero_optimization"`
	Tensor      *dsTensor    `json:"tensor_parallel,omitempty"`
	Distributed dsWorld      `json:"distributed"`
}

type dsOptimizer struct {
	Type   string             `json:"type"`
	Params map[string]float64 `json:"params"`
}

type dsSwitch struct {
	Enabled bool `json:"enabled"`
}

// dsFP16 scales the loss dynamically: 0.
type dsFP16 struct {
	Enabled    bool `json:"enabled"`
	LossScale  int  `json:"loss_scale"`
	Initial    int  `json:"initial_scale_power"`
	Window     int  `json:"loss_scale_window"`
	Hysteresis int  `json:"hysteresis"`
	Min        int  `json:"min_loss_scale"`
}

type dsZero struct {
	Stage     int        `json:"stage"`
	Overlap   bool       `json:"overlap_comm,omitempty"`
	Contig    bool       `json:"contiguous_gradients,omitempty"`
	Optimizer *dsOffload `json:"offload_optimizer,omitempty"`
	Params    *dsOffload `json:"offload_param,omitempty"`
}

type dsOffload struct {
	Device string `json:"device"`
	Pin    bool   `json:"pin_memory"`
}

type dsTensor struct {
	Size int `json:"autotp_size"`
}

// dsWorld is for people: DeepSpeed leaves it alone.
type dsWorld struct {
	Size  int `json:"world_size"`
	Nodes int `json:"nodes"`
}

func dsConfig(w *plan) (name, text string) {
	if !w.deepspeed() {
		return "", ""
	}
	wd := w.worlds[0]
	f := dsFile{
		Train: w.batch.train, Micro: w.batch.micro, Steps: w.batch.steps,
		Zero: dsZero{Stage: w.zero}, Distributed: dsWorld{wd.size, len(wd.groups)},
	}
	if lr, ok := number(w.in.Spec.HyperParameters["lr"]); ok {
		f.Optimizer = &dsOptimizer{"AdamW", map[string]float64{"lr": lr}}
	}
	switch w.in.Spec.Precision {
	case api.PrecisionFP16:
		f.FP16 = &dsFP16{Enabled: true, Initial: 16, Window: 1000, Hysteresis: 2, Min: 1}
	case api.PrecisionBF16:
		f.BF16 = &dsSwitch{true}
	}
	if w.zero >= 2 {
		f.Zero.Overlap, f.Zero.Contig = true, true
	}
	if w.st.Offload == api.OffloadCPU {
		host := &dsOffload{"cpu", true}
		f.Zero.Optimizer = host
		if w.zero == 3 {
			f.Zero.Params = host
		}
	}
	if w.sizes.tensor > 1 && w.fw.id == "deepspeed" {
		f.Tensor = &dsTensor{w.sizes.tensor}
	}
	return fileDS, encode(f)
}

// number reads a hyper-parameter that may be one.
func number(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case int:
		return float64(v), true
	case int64:
		return float64(v), true
	case json.Number:
		n, err := v.Float64()
		return n, err == nil
	}
	return 0, false
}
