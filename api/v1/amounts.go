package v1

import "github.com/fermi-cluster/fermi/api/v1/quantity"

// Amounts, under the names that the API has for them.
type (
	Bytes      = quantity.Bytes
	MilliCPU   = quantity.MilliCPU
	Duration   = quantity.Duration
	ValueError = quantity.ValueError
)

// ParseBytes reads "16Gi", "1.5G", "1024". Errors are *ValueError.
func ParseBytes(s string) (Bytes, error) { return quantity.ParseBytes(s) }

// ParseMilliCPU reads "500m", "64", "1.5". Errors are *ValueError.
func ParseMilliCPU(s string) (MilliCPU, error) { return quantity.ParseMilliCPU(s) }

// ParseDuration reads "90s", "1h30m". Errors are *ValueError.
func ParseDuration(s string) (Duration, error) { return quantity.ParseDuration(s) }
