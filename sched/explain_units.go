package sched

import (
	api "github.com/fermi-cluster/fermi/api/v1"
)

// unitOf is what stands after an amount: "24 A100", "64 GiB of memory"; in Chinese with its measure word.
func (x *explainer) unitOf(resource int) (unit api.Text) {
	switch {
	case resource >= VectorTypes:
		name := x.c.TypeName(uint16(resource - VectorTypes))
		return api.T("%s", "张 %s", name)
	case resource == VectorCPU:
		return api.T("cores", "核 CPU")
	case resource == VectorMemory:
		return api.T("GiB of memory", "GiB 内存")
	}
	return api.T("devices", "张加速卡")
}

// shareKey is the resource in the words of a queue's limit.
func (x *explainer) shareKey(resource int) string {
	switch {
	case resource >= VectorTypes:
		return x.c.TypeName(uint16(resource - VectorTypes))
	case resource == VectorCPU:
		return api.ShareCPU
	case resource == VectorMemory:
		return api.ShareMemory
	}
	return api.ShareDevices
}
