package sensor

import (
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/fermi-cluster/fermi/api/v1/card"
)

// readPCI adds what the kernel knows of a card's PCIe link, and says whether the card is still there.
func readPCI(sys, bus string, into *card.ReadingPCIe) (there bool) {
	if bus == "" {
		return true
	}
	all := filepath.Join(sys, "bus/pci/devices")
	dir := filepath.Join(all, bus)
	if _, err := os.Stat(dir); err != nil {
		_, err := os.Stat(all)
		return err != nil // a machine without such a folder says nothing
	}
	into.Corrected = aerTotal(filepath.Join(dir, "aer_dev_correctable"))
	into.NonFatal = aerTotal(filepath.Join(dir, "aer_dev_nonfatal"))
	into.Fatal = aerTotal(filepath.Join(dir, "aer_dev_fatal"))
	return !offTheBus(filepath.Join(dir, "config"))
}

// aerTotal is the last line of the kernel's counters: "TOTAL_ERR_FATAL 0"; nil where there are none.
func aerTotal(file string) *int64 {
	f, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, 1<<14))
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(raw)) {
		if words := strings.Fields(line); len(words) == 2 && strings.HasPrefix(words[0], "TOTAL_ERR_") {
			return number(words[1])
		}
	}
	return nil
}

// offTheBus says that a card's registers read as ones only: nobody answers.
func offTheBus(config string) bool {
	f, err := os.Open(config)
	if err != nil {
		return false
	}
	defer f.Close()
	id := make([]byte, 4)
	if _, err := io.ReadFull(f, id); err != nil {
		return false
	}
	return id[0] == 0xff && id[1] == 0xff && id[2] == 0xff && id[3] == 0xff
}
