package card

import (
	"maps"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fermi-cluster/fermi/api/v1/card"
)

var (
	closedDesc  = prometheus.NewDesc("fermi_device_closed", "1 for each device that takes no work because it is, or may be, not well.", []string{"node", "device", "state", "reason"}, nil)
	faultsDesc  = prometheus.NewDesc("fermi_device_faults", "Faults that a device has had so far.", []string{"node", "device"}, nil)
	readingDesc = prometheus.NewDesc("fermi_device_reading", "What the maker's tool and the kernel say of a device; what they can't say is left out.", []string{"node", "device", "uuid", "reading"}, nil)
)

// Describe is of prometheus.Collector.
func (c *Controller) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{closedDesc, faultsDesc, readingDesc} {
		out <- d
	}
}

// Collect tells what is known now.
func (c *Controller) Collect(out chan<- prometheus.Metric) {
	c.book.mu.Lock()
	devices, readings := maps.Clone(c.book.health), maps.Clone(c.book.readings)
	c.book.mu.Unlock()
	for _, node := range slices.Sorted(maps.Keys(devices)) {
		for _, h := range devices[node] {
			device := strconv.Itoa(h.Device)
			if h.Closed() {
				out <- prometheus.MustNewConstMetric(closedDesc, prometheus.GaugeValue, 1, node, device, string(h.State), h.Reason)
			}
			out <- prometheus.MustNewConstMetric(faultsDesc, prometheus.GaugeValue, float64(h.Total), node, device)
		}
	}
	for _, node := range slices.Sorted(maps.Keys(readings)) {
		for device, r := range readings[node] {
			for name, value := range Figures(r) {
				out <- prometheus.MustNewConstMetric(readingDesc, prometheus.GaugeValue, float64(value), node, strconv.Itoa(device), r.UUID, name)
			}
		}
	}
}

// Figures are the numbers of a reading by their name; what is not known is left out.
func Figures(r *card.DeviceReading) map[string]int64 {
	out := map[string]int64{"lost": flag(r.Lost), "silent_seconds": int64(r.Silent.Seconds())}
	if r.Lost || r.Silent > 0 {
		return out
	}
	out["memory_repair_pending"], out["memory_repair_failed"], out["hardware_slowdown"] = flag(r.Repair.Pending), flag(r.Repair.Failed), flag(r.Slowed > 0)
	if r.Repair.KnowsRecovery {
		out["recovery_wanted"] = flag(r.Repair.Recovery != "")
	}
	for name, n := range map[string]*int64{
		"ecc_volatile_corrected": r.ECC.VolatileCorrected, "ecc_volatile_uncorrected": r.ECC.VolatileUncorrected,
		"ecc_aggregate_corrected": r.ECC.AggregateCorrected, "ecc_aggregate_uncorrected": r.ECC.AggregateUncorrected,
		"pages_single": r.Repair.PagesSingle, "pages_double": r.Repair.PagesDouble,
		"rows_corrected": r.Repair.RowsCorrected, "rows_uncorrected": r.Repair.RowsUncorrected,
		"nvlink_links": r.NVLink.Links, "nvlink_down": r.NVLink.Down, "nvlink_replay": r.NVLink.Replay, "nvlink_recovery": r.NVLink.Recovery, "nvlink_crc": r.NVLink.CRC,
		"pcie_replays": r.PCIe.Replays, "pcie_corrected": r.PCIe.Corrected, "pcie_nonfatal": r.PCIe.NonFatal, "pcie_fatal": r.PCIe.Fatal,
	} {
		if n != nil {
			out[name] = *n
		}
	}
	return out
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
