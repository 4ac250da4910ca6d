package figure

import (
	"math"
	"testing"

	"github.com/fermi-cluster/fermi/internal/link"
)

func TestMFUIsOfThePeak(t *testing.T) {
	p := paceFrom(link.Pace{Steps: 2, Seconds: 4, Flops: 989e12}, 2, 989e12)
	if math.Abs(p.MFU-0.5) > 1e-9 {
		t.Error(p.MFU)
	}
}
