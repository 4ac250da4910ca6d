package inventory

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// nvidiaFolder is where NVIDIA's driver tells of its cards: a folder for each, by its PCI address.
const nvidiaFolder = "/proc/driver/nvidia/gpus"

// CardFiles are the device files of real cards. Virtual devices have none.
func CardFiles(devices []api.Device) []string { return cardFiles(devices, nvidiaFolder) }

func cardFiles(devices []api.Device, nvidia string) (files []string) {
	var minors map[string]int
	for _, d := range devices {
		if d.Virtual {
			continue
		}
		switch strings.ToLower(d.Vendor) {
		case "nvidia":
			if minors == nil {
				minors = minorsOf(nvidia)
			}
			// Minors follow the order in which the driver met the cards, which need not be that of our indices.
			minor, known := minors[strings.ToLower(d.UUID)]
			if !known {
				minor = d.Index
			}
			files = append(files, fmt.Sprintf("/dev/nvidia%d", minor))
		case "amd":
			files = append(files, fmt.Sprintf("/dev/dri/renderD%d", 128+d.Index), fmt.Sprintf("/dev/dri/card%d", d.Index))
		case "huawei", "ascend":
			files = append(files, fmt.Sprintf("/dev/davinci%d", d.Index))
		case "cambricon":
			files = append(files, fmt.Sprintf("/dev/cambricon_dev%d", d.Index))
		}
	}
	return files
}

// minorsOf is the minor number of each card by its UUID in lower case, as the driver says.
func minorsOf(folder string) map[string]int {
	out := map[string]int{}
	list, _ := filepath.Glob(filepath.Join(folder, "*", "information"))
	for _, file := range list {
		uuid, minor := "", -1
		f, err := os.Open(file)
		if err != nil {
			continue
		}
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			key, value, _ := strings.Cut(lines.Text(), ":")
			switch value = strings.TrimSpace(value); strings.TrimSpace(key) {
			case "GPU UUID":
				uuid = strings.ToLower(value)
			case "Device Minor":
				if n, err := strconv.Atoi(value); err == nil {
					minor = n
				}
			}
		}
		_ = f.Close()
		if uuid != "" && minor >= 0 {
			out[uuid] = minor
		}
	}
	return out
}
