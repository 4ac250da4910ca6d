package recipe

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	api "github.com/fermi-cluster/fermi/api/v1"
)

func TestVisibleDevices(t *testing.T) {
	nv := func(i int, uuid string) api.Device {
		return api.Device{Index: i, UUID: uuid, Vendor: "NVIDIA", Type: "A100"}
	}
	npu := api.Device{Index: 3, Vendor: "huawei", Type: "Ascend 910", UUID: "x"}
	virtual := nv(0, "GPU-v")
	virtual.Virtual = true
	for name, c := range map[string]struct {
		devices      []api.Device
		cuda, ascend string
	}{
		"none":    {nil, "", ""},
		"uuids":   {[]api.Device{nv(1, "GPU-b"), nv(0, "GPU-a")}, "GPU-b,GPU-a", ""},
		"no uuid": {[]api.Device{nv(1, "GPU-b"), nv(4, "")}, "1,4", ""},
		"virtual": {[]api.Device{virtual}, "", ""},
		"ascend":  {[]api.Device{npu}, "", "3"},
	} {
		got := VisibleDevices(c.devices)
		want := map[string]string{
			"CUDA_VISIBLE_DEVICES": c.cuda, "ASCEND_RT_VISIBLE_DEVICES": c.ascend, "HIP_VISIBLE_DEVICES": "",
			"MLU_VISIBLE_DEVICES": "", "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestDeviceOf(t *testing.T) {
	for name, want := range map[string]string{
		"A100": "a100", "A10": "a10", "A100-SXM4-80GB": "a100", "Ascend 910": "ascend910", "Ascend910B": "ascend910b", "ascend-910b3": "ascend910b", "H20": "h20", "H200": "h200",
		"A1000": "", "FooCard": "", "": "",
	} {
		got := ""
		if d := deviceOf(name); d != nil {
			got = d.prefix
		}
		if got != want {
			t.Errorf("%q is %q, not %q", name, got, want)
		}
	}
}
