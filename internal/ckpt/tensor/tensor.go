package tensor

import (
	"math/bits"
)

// Bounds of what is read from outside.
const (
	MaxData = 1 << 44 // bytes of one rank
	MaxName = 1024
	maxDims = 32
)

// Tensor is one blob of a rank's state. A part of a larger tensor says where in it it lies.
type Tensor struct {
	Name  string   `json:"name"`
	DType string   `json:"dtype"`
	Shape []uint64 `json:"shape,omitempty"`
	// Global, Offset and Split are those of a part: the whole tensor's shape, where this part begins
	// in it, and the dimension along which it is shared among ranks.
	Global []uint64 `json:"global,omitempty"`
	Offset []uint64 `json:"offset,omitempty"`
	Split  *int     `json:"split,omitempty"`
	At     uint64   `json:"at"` // in the rank's data
	Bytes  uint64   `json:"bytes"`
}

// ElementBytes of the types that can be parts of a larger tensor.
var ElementBytes = map[string]uint64{
	"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1,
	"int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1, "bool": 1, "complex64": 8, "complex128": 16,
}

func (t *Tensor) Check() error {
	wrong := BadTree(t.Name, "its shape contradicts itself", "形状自相矛盾")
	if len(t.Name) > MaxName || len(t.DType) > 64 || len(t.Shape) > maxDims || t.At > MaxData || t.Bytes > MaxData {
		return wrong
	}
	if t.Split == nil {
		if t.Global != nil || t.Offset != nil {
			return wrong
		}
		return nil
	}
	size, known := ElementBytes[t.DType]
	dims := len(t.Global)
	if !known || dims == 0 || dims > maxDims || len(t.Shape) != dims || len(t.Offset) != dims || *t.Split < 0 || *t.Split >= dims {
		return wrong
	}
	whole := size
	for i, g := range t.Global {
		if t.Offset[i] > g || t.Shape[i] > g-t.Offset[i] {
			return wrong
		}
		var over uint64
		if over, whole = bits.Mul64(whole, max(g, 1)); over != 0 || whole > MaxData {
			return wrong
		}
		size *= t.Shape[i] // at most whole
	}
	if size != t.Bytes {
		return wrong
	}
	return nil
}
