package v1

import (
	"encoding/json"
	"strings"

	"github.com/fermi-cluster/fermi/api/v1/quantity"
)

// Share is a part of one device in thousandths; 0 is the whole. JSON: 0.5 or "500m".
type Share uint16

// WholeDevice is the share that leaves nothing to others.
const WholeDevice Share = 1000

// Of is the share as thousandths, 1000 for the whole.
func (s Share) Of() int64 {
	if s == 0 {
		return int64(WholeDevice)
	}
	return int64(s)
}

func (s Share) String() string { return MilliCPU(s).String() }

// MarshalJSON writes the canonical quantity.
func (s Share) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// UnmarshalJSON reads a fraction given as string or number.
func (s *Share) UnmarshalJSON(data []byte) error {
	text, ok := quantity.Scalar(data)
	v, err := ParseMilliCPU(text)
	if !ok || err != nil || v < 0 || v > MilliCPU(WholeDevice) {
		return quantity.Wrong("Expected a part of one device between 1m and 1, such as 0.5 or \"500m\".", "此处应为单卡的份额，介于 1m 与 1 之间，例如 0.5 或 \"500m\"。")
	}
	*s = Share(v)
	return nil
}

// Types lists the accepted device types in order of preference: "A100|H800" is two; empty is any.
func (a Accelerators) Types() []string {
	if a.Type == "" {
		return nil
	}
	types := strings.Split(a.Type, "|")
	for i, t := range types {
		types[i] = strings.TrimSpace(t)
	}
	return types
}

// FoldDevice makes device types comparable: "Ascend 910", "ascend-910" and "ASCEND910" are one.
func FoldDevice(deviceType string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ' || r == '-' || r == '_':
			return -1
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return r
	}, deviceType)
}
