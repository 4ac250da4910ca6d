//go:build linux && cgo

package inventory

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// SeesNVIDIA says that this build of the program can load the driver's library, which is written in C.
const SeesNVIDIA = true

const maxDevices = 64 // a placement's mask has as many bits

// nvmlDevices asks the driver's library, which is loaded now and only here. Only functions that
// every driver of the last ten years has are called without asking: calling one that is missing
// would end the process.
func nvmlDevices() (devices []api.Device, err error) {
	defer func() {
		if p := recover(); p != nil {
			devices, err = nil, fmt.Errorf("%v", p)
		}
	}()
	lib := nvml.New()
	switch ret := lib.Init(); ret {
	case nvml.SUCCESS:
	case nvml.ERROR_LIBRARY_NOT_FOUND, nvml.ERROR_DRIVER_NOT_LOADED:
		return nil, errNoDriver
	default:
		return nil, fmt.Errorf("start: %s", nvmlText(lib, ret))
	}
	defer lib.Shutdown()
	count, ret := lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return nil, fmt.Errorf("count devices: %s", nvmlText(lib, ret))
	}
	var cards []card
	var bad error
	for i := range min(count, maxDevices) {
		c, err := readCard(lib, i)
		if err != nil {
			bad = errors.Join(bad, err) // one that fails hides no other
			continue
		}
		cards = append(cards, c)
	}
	if len(cards) == 0 {
		return nil, bad
	}
	for i, island := range islands(cards) {
		cards[i].device.Island = island
	}
	for _, c := range cards {
		devices = append(devices, c.device)
	}
	return devices, bad
}

func readCard(lib nvml.Interface, i int) (card, error) {
	fail := func(what string, ret nvml.Return) (card, error) {
		return card{}, fmt.Errorf("device %d: %s: %s", i, what, nvmlText(lib, ret))
	}
	d, ret := lib.DeviceGetHandleByIndex(i)
	if ret != nvml.SUCCESS {
		return fail("open", ret)
	}
	name, ret := d.GetName()
	if ret != nvml.SUCCESS {
		return fail("name", ret)
	}
	uuid, ret := d.GetUUID()
	if ret != nvml.SUCCESS {
		return fail("uuid", ret)
	}
	c := card{device: api.Device{Index: i, UUID: uuid, Vendor: "nvidia", Type: TypeOf(name)}}
	if m, ret := d.GetMemoryInfo(); ret == nvml.SUCCESS {
		c.device.Memory = api.Bytes(m.Total)
	}
	if pci, ret := d.GetPciInfo(); ret == nvml.SUCCESS {
		c.bus = busOf(pci)
		c.device.Bus = fmt.Sprintf("%04x:%02x:%02x.0", pci.Domain, pci.Bus, pci.Device)
	}
	c.links = readLinks(lib, d)
	return c, nil
}

// readLinks are the far ends of a card's NVLinks; empty where the driver cannot say.
func readLinks(lib nvml.Interface, d nvml.Device) []string {
	for _, symbol := range []string{"nvmlDeviceGetNvLinkState", "nvmlDeviceGetNvLinkRemotePciInfo_v2"} {
		if lib.Extensions().LookupSymbol(symbol) != nil {
			return nil
		}
	}
	var out []string
	for link := range nvml.NVLINK_MAX_LINKS {
		if state, ret := d.GetNvLinkState(link); ret != nvml.SUCCESS || state != nvml.FEATURE_ENABLED {
			continue
		}
		if pci, ret := d.GetNvLinkRemotePciInfo(link); ret == nvml.SUCCESS {
			out = append(out, busOf(pci))
		}
	}
	return out
}

func busOf(pci nvml.PciInfo) string {
	return strconv.FormatUint(uint64(pci.Domain), 16) + ":" + strconv.FormatUint(uint64(pci.Bus), 16) + ":" +
		strconv.FormatUint(uint64(pci.Device), 16)
}

// nvmlText is the driver's word for a failure; before the library is loaded there is none.
func nvmlText(lib nvml.Interface, ret nvml.Return) string {
	if lib.Extensions().LookupSymbol("nvmlErrorString") != nil {
		return "code " + strconv.Itoa(int(ret))
	}
	return lib.ErrorString(ret)
}
