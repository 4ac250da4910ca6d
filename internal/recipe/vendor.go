package recipe

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// vendor is a maker of devices: how its runtime is told which cards it may see, and what its
// collectives are called.
type vendor struct {
	name    string
	aliases []string
	// variable hides the other cards; uuids says that it takes UUIDs, which can't be renumbered.
	variable string
	uuids    bool
	// backend is its collective library; torch is what torch.distributed calls it.
	backend, torch string
	// device is what PyTorch calls its cards.
	device string
	// socket names the variable for the network interface; "": the library has none.
	socket string
	// env is set where the backend is in use.
	env []pair
	// mounts are what a container needs of the host beside the cards' own device files, libraries those of its driver
	// that an image must not bring itself: they go with the kernel's part.
	mounts, libraries []string
	// proven: run on the hardware itself. The others are tested against golden files only.
	proven bool
}

var nvidia, amd, huawei, cambricon = "nvidia", "amd", "huawei", "cambricon"

// vendors is the table; who starts processes in an image takes mounts and libraries from here too.
var vendors = []vendor{
	{
		name: nvidia, variable: "CUDA_VISIBLE_DEVICES", uuids: true, backend: "nccl", torch: "nccl", device: "cuda", socket: "NCCL_SOCKET_IFNAME", env: ncclEnv,
		mounts: []string{"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"},
		libraries: []string{
			"libcuda.so.1", "libnvidia-ml.so.1", "libnvidia-ptxjitcompiler.so.1", "libnvidia-nvvm.so.4", "libnvidia-gpucomp.so", "libcudadebugger.so.1",
			"libnvcuvid.so.1", "libnvidia-encode.so.1", "libnvidia-opticalflow.so.1",
		},
	},
	{
		name: amd, variable: "HIP_VISIBLE_DEVICES", backend: "rccl", torch: "nccl", device: "cuda", socket: "NCCL_SOCKET_IFNAME", env: ncclEnv, // RCCL reads NCCL's
		mounts: []string{"/dev/kfd", "/dev/dri"},
	},
	{
		name: huawei, aliases: []string{"ascend"}, variable: "ASCEND_RT_VISIBLE_DEVICES", backend: "hccl", torch: "hccl", device: "npu", socket: "HCCL_SOCKET_IFNAME",
		env:    []pair{{"HCCL_CONNECT_TIMEOUT", "${timeout}"}, {"HCCL_EXEC_TIMEOUT", "${timeout}"}, {"HCCL_WHITELIST_DISABLE", "1"}},
		mounts: []string{"/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc", "/usr/local/Ascend/driver", "/etc/hccn.conf"},
	},
	{
		name: cambricon, variable: "MLU_VISIBLE_DEVICES", backend: "cncl", torch: "cncl", device: "mlu",
		mounts: []string{"/dev/cambricon_ctl"},
	},
}

// ncclEnv makes a hung or broken collective an error, and leaves what was in flight in the outputs.
// The second spelling of each is what older or newer versions of PyTorch read.
var ncclEnv = []pair{
	{"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"}, {"NCCL_ASYNC_ERROR_HANDLING", "1"},
	{"TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "${timeout}"},
	{"TORCH_NCCL_TRACE_BUFFER_SIZE", "2000"}, {"TORCH_FR_BUFFER_SIZE", "2000"}, {"TORCH_NCCL_DUMP_ON_TIMEOUT", "1"},
	{"TORCH_NCCL_DEBUG_INFO_TEMP_FILE", OutputToken + "/nccl_trace_rank_"}, {"TORCH_FR_DUMP_TEMP_FILE", OutputToken + "/nccl_trace_rank_"},
}

// gloo is for processes without a card.
var gloo = vendor{name: "", backend: "gloo", torch: "gloo", socket: "GLOO_SOCKET_IFNAME", proven: true}

// device is what a type of card is known to be and to lack.
type device struct {
	prefix string // folded as api.FoldDevice does
	vendor string
	bf16   bool
}

// devices is the table of types; the longest prefix counts, so that A10 is not A100.
var devices = []device{
	{"a10", nvidia, true}, {"a100", nvidia, true}, {"a800", nvidia, true}, {"a30", nvidia, true}, {"a40", nvidia, true},
	{"h100", nvidia, true}, {"h800", nvidia, true}, {"h200", nvidia, true}, {"h20", nvidia, true}, {"b200", nvidia, true}, {"gb200", nvidia, true},
	{"l4", nvidia, true}, {"l40", nvidia, true}, {"l20", nvidia, true}, {"rtx3090", nvidia, true}, {"rtx4090", nvidia, true}, {"rtx5090", nvidia, true},
	{"v100", nvidia, false}, {"p100", nvidia, false}, {"p40", nvidia, false}, {"p4", nvidia, false}, {"t4", nvidia, false},
	{"rtx2080", nvidia, false}, {"rtx6000", nvidia, false},
	{"mi100", amd, true}, {"mi210", amd, true}, {"mi250", amd, true}, {"mi300", amd, true}, {"mi50", amd, false}, {"mi60", amd, false},
	{"ascend910", huawei, false}, {"ascend910b", huawei, true}, {"ascend910c", huawei, true}, {"ascend310", huawei, false},
	{"mlu270", cambricon, false}, {"mlu290", cambricon, false}, {"mlu370", cambricon, true}, {"mlu590", cambricon, true},
}

// deviceOf finds a type; nil when it is not known. A number that goes on is another model.
func deviceOf(deviceType string) *device {
	folded := api.FoldDevice(deviceType)
	var best *device
	for i := range devices {
		d := &devices[i]
		rest, ok := strings.CutPrefix(folded, d.prefix)
		if !ok || rest != "" && digit(rest[0]) && digit(d.prefix[len(d.prefix)-1]) {
			continue
		}
		if best == nil || len(d.prefix) > len(best.prefix) {
			best = d
		}
	}
	return best
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

// vendorNamed finds a row by name or alias; nil when there is none.
func vendorNamed(name string) *vendor {
	name = strings.ToLower(name)
	for i := range vendors {
		if v := &vendors[i]; v.name == name || slices.Contains(v.aliases, name) {
			return v
		}
	}
	return nil
}

// makerOf is the vendor's name of a device: what it says, or what its type is known for.
func makerOf(d api.Device) string {
	if v := vendorNamed(d.Vendor); v != nil {
		return v.name
	}
	if d.Vendor == "" {
		if known := deviceOf(d.Type); known != nil {
			return known.vendor
		}
	}
	return strings.ToLower(d.Vendor)
}

// VisibleDevices sets every vendor's variable: to exactly the assigned cards, to nothing where none
// is assigned, so that no real card is seen by accident. Virtual devices are no cards.
func VisibleDevices(assigned []api.Device) map[string]string {
	vars := map[string]string{"CUDA_DEVICE_ORDER": "PCI_BUS_ID"} // the order of our indices
	for i := range vendors {
		v := &vendors[i]
		var ids []string
		var own []api.Device
		for _, d := range assigned {
			if !d.Virtual && vendorNamed(d.Vendor) == v {
				own = append(own, d)
			}
		}
		// Runtimes do not take a mixture: UUIDs only when every card has one.
		byUUID := v.uuids && !slices.ContainsFunc(own, func(d api.Device) bool { return d.UUID == "" })
		for _, d := range own {
			if byUUID {
				ids = append(ids, d.UUID)
			} else {
				ids = append(ids, strconv.Itoa(d.Index))
			}
		}
		vars[v.variable] = strings.Join(ids, ",")
	}
	return vars
}

// LibraryFolders are where drivers put their libraries on a node.
var LibraryFolders = []string{
	"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/nvidia/lib64", "/usr/local/lib", "/usr/lib/wsl/lib",
}

// Driver is what the assigned cards need of the node in an image: files and folders at their own paths, and libraries.
func Driver(assigned []api.Device) (files, libraries []string) {
	for i := range vendors {
		v := &vendors[i]
		if slices.ContainsFunc(assigned, func(d api.Device) bool { return !d.Virtual && vendorNamed(d.Vendor) == v }) {
			files, libraries = append(files, v.mounts...), append(libraries, v.libraries...)
		}
	}
	// The device files are there with the whole of /dev.
	return slices.DeleteFunc(files, func(f string) bool { return strings.HasPrefix(f, "/dev/") }), libraries
}

// ControlFiles are the device files that a driver's programs open beside those of the assigned cards.
func ControlFiles(assigned []api.Device) (files []string) {
	for i := range vendors {
		v := &vendors[i]
		if !slices.ContainsFunc(assigned, func(d api.Device) bool { return !d.Virtual && vendorNamed(d.Vendor) == v }) {
			continue
		}
		for _, f := range v.mounts {
			if strings.HasPrefix(f, "/dev/") {
				files = append(files, f)
			}
		}
	}
	return files
}

// TorchDevice is what PyTorch calls these devices, cpu where there are none; "": they are of several kinds,
// virtual, or of a maker that is not known.
func TorchDevice(devices []api.Device) (name string) {
	for i, d := range devices {
		v := vendorNamed(d.Vendor)
		if v == nil || d.Virtual || i > 0 && v.device != name {
			return ""
		}
		name = v.device
	}
	return cmp.Or(name, "cpu")
}
