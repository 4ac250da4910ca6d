package advice

import api "github.com/fermi-cluster/fermi/api/v1"

// UnitOf is what stands after an amount: "24 A100", "64 GiB of memory"; in Chinese with its measure word.
func UnitOf(resource int, typeName func(uint16) string) (unit api.Text) {
	switch {
	case resource >= Types:
		name := typeName(uint16(resource - Types))
		return api.T("%s", "张 %s", name)
	case resource == CPU:
		return api.T("cores", "核 CPU")
	case resource == Memory:
		return api.T("GiB of memory", "GiB 内存")
	}
	return api.T("devices", "张加速卡")
}

// ShareKey is the resource in the words of a queue's limit.
func ShareKey(resource int, typeName func(uint16) string) string {
	switch {
	case resource >= Types:
		return typeName(uint16(resource - Types))
	case resource == CPU:
		return api.ShareCPU
	case resource == Memory:
		return api.ShareMemory
	}
	return api.ShareDevices
}
