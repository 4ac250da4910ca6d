package inventory

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	api "github.com/fermi-cluster/fermi/api/v1"
)

func TestCardFiles(t *testing.T) {
	dir := t.TempDir()
	for bus, text := range map[string]string{
		"0000:01:00.0": "Model: \t\t NVIDIA A100\nIRQ:   \t\t 1\nGPU UUID: \t GPU-AAAA\nDevice Minor: \t 1\n",
		"0000:02:00.0": "Model: \t\t NVIDIA A100\nGPU UUID: \t GPU-bbbb\nDevice Minor: \t 0\n",
		"0000:03:00.0": "nonsense",
	} {
		if err := os.MkdirAll(filepath.Join(dir, bus), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, bus, "information"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := unseen(dir); err != error(unseenError(3)) {
		t.Errorf("a build that can't ask the driver says %v", err)
	}
	if err := unseen(t.TempDir()); err != errNoDriver {
		t.Errorf("without a driver it says %v", err)
	}
	got := cardFiles([]api.Device{
		{Index: 0, UUID: "GPU-aaaa", Vendor: "NVIDIA"}, {Index: 1, UUID: "GPU-bbbb", Vendor: "NVIDIA"}, {Index: 7, UUID: "GPU-new", Vendor: "NVIDIA"},
		{Index: 2, Vendor: "AMD"}, {Index: 3, Vendor: "Huawei"}, {Index: 4, Vendor: "Cambricon"},
		{Index: 5, Vendor: "NVIDIA", Virtual: true}, {Index: 6, Vendor: "unknown"},
	}, dir)
	want := []string{"/dev/nvidia1", "/dev/nvidia0", "/dev/nvidia7", "/dev/dri/renderD130", "/dev/dri/card2", "/dev/davinci3", "/dev/cambricon_dev4"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
