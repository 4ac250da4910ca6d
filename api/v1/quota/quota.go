// Package quota is the words for how much a project or user may have, and has.
//
// Place: layer 1, below the vocabulary of projects and users. Promise: what is absent or 0 says nothing. Enemies: a bound that two people
// name differently.
package quota

import (
	"github.com/fermi-cluster/fermi/api/v1/quantity"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// ProjectUsage is what a project keeps, in the words of its limits.
type ProjectUsage struct {
	Logs        quantity.Bytes `json:"logs"`
	Outputs     quantity.Bytes `json:"outputs"`
	Archives    quantity.Bytes `json:"archives"`
	Checkpoints quantity.Bytes `json:"checkpoints"`
	Assets      quantity.Bytes `json:"assets"`
	Images      quantity.Bytes `json:"images"`
	Objects     int            `json:"objects"`
	Secrets     int            `json:"secrets"`
}

// Environments bounds what all environments of a user or project have together.
type Environments struct {
	Running int            `json:"running,omitempty" explicit:"nonzero" doc:"Environments that run or wait to run; -1 is no bound."`
	Devices int            `json:"devices,omitempty" explicit:"nonzero" doc:"Accelerators of those that run or wait to run; -1 is no bound."`
	Storage quantity.Bytes `json:"storage,omitempty" explicit:"nonzero" doc:"What their homes may hold, also those of stopped ones; one that names no storage counts as 50Gi; -1 is no bound."`
}

const most = 1_000_000

// Check lists what can't be.
func (q *Environments) Check(at string) (out []fault.Field) {
	if q == nil {
		return nil
	}
	for _, x := range []struct {
		name string
		n    int64
		most int64
	}{{"running", int64(q.Running), most}, {"devices", int64(q.Devices), most}, {"storage", int64(q.Storage), 1 << 60}} {
		if x.n < -1 || x.n > x.most {
			out = append(out, fault.Field{Path: at + "." + x.name, Message: fault.T("It is out of range: -1 is no bound, absent is the default.", "超出范围：-1 表示不限，不填则使用默认值。")})
		}
	}
	return out
}

// Or is q with what it leaves open taken from d.
func (q *Environments) Or(d Environments) Environments {
	if q == nil {
		return d
	}
	if q.Running != 0 {
		d.Running = q.Running
	}
	if q.Devices != 0 {
		d.Devices = q.Devices
	}
	if q.Storage != 0 {
		d.Storage = q.Storage
	}
	return d
}
