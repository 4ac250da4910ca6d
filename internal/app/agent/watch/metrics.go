package watch

import (
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fermi-cluster/fermi/api/v1/card"
)

// Metrics have the names and labels of NVIDIA's own exporter, so that dashboards made for that work. What a card does not say is left out.
var figures = []struct {
	name, help string
	of         func(*card.DeviceReading) *int64
}{
	{"DCGM_FI_DEV_GPU_TEMP", "Degrees Celsius.", func(r *card.DeviceReading) *int64 { return r.Load.Celsius }},
	{"DCGM_FI_DEV_POWER_USAGE", "Watts.", func(r *card.DeviceReading) *int64 { return r.Load.Watts }},
	{"DCGM_FI_DEV_GPU_UTIL", "Percent of the time in which something was computed.", func(r *card.DeviceReading) *int64 { return r.Load.Busy }},
	{"DCGM_FI_DEV_FB_USED", "Memory in use, MiB.", func(r *card.DeviceReading) *int64 { return r.Load.MemoryUsed }},
	{"DCGM_FI_DEV_FB_FREE", "Free memory, MiB.", func(r *card.DeviceReading) *int64 { return r.Load.MemoryFree }},
	{"DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "Memory errors that were corrected, since the driver was loaded.", func(r *card.DeviceReading) *int64 { return r.ECC.VolatileCorrected }},
	{"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "Memory errors that could not be corrected, since the driver was loaded.", func(r *card.DeviceReading) *int64 { return r.ECC.VolatileUncorrected }},
	{"DCGM_FI_DEV_ECC_SBE_AGG_TOTAL", "Memory errors that were corrected, ever.", func(r *card.DeviceReading) *int64 { return r.ECC.AggregateCorrected }},
	{"DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", "Memory errors that could not be corrected, ever.", func(r *card.DeviceReading) *int64 { return r.ECC.AggregateUncorrected }},
	{"DCGM_FI_DEV_RETIRED_SBE", "Memory pages retired for errors that were corrected.", func(r *card.DeviceReading) *int64 { return r.Repair.PagesSingle }},
	{"DCGM_FI_DEV_RETIRED_DBE", "Memory pages retired for errors that could not be corrected.", func(r *card.DeviceReading) *int64 { return r.Repair.PagesDouble }},
	{"DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "Memory rows remapped for errors that were corrected.", func(r *card.DeviceReading) *int64 { return r.Repair.RowsCorrected }},
	{"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "Memory rows remapped for errors that could not be corrected.", func(r *card.DeviceReading) *int64 { return r.Repair.RowsUncorrected }},
	{"DCGM_FI_DEV_ROW_REMAP_FAILURE", "1: bad memory could not be taken out of use.", func(r *card.DeviceReading) *int64 { return flag(r.Repair.Failed) }},
	{"DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "Repeats on the PCIe link.", func(r *card.DeviceReading) *int64 { return r.PCIe.Replays }},
	{"DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "Repeats on all NVLinks.", func(r *card.DeviceReading) *int64 { return r.NVLink.Replay }},
	{"DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", "Recoveries of all NVLinks.", func(r *card.DeviceReading) *int64 { return r.NVLink.Recovery }},
	{"DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "Checksum errors on all NVLinks.", func(r *card.DeviceReading) *int64 { return r.NVLink.CRC }},
}

const xidErrors = "DCGM_FI_DEV_XID_ERRORS"

var labels = []string{"gpu", "UUID", "pci_bus_id", "modelName", "Hostname"}

func desc(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, labels, nil) }

func flag(b bool) *int64 {
	n := int64(0)
	if b {
		n = 1
	}
	return &n
}

// Describe is of prometheus.Collector.
func (w *watcher) Describe(out chan<- *prometheus.Desc) {
	for _, f := range figures {
		out <- desc(f.name, f.help)
	}
	out <- desc(xidErrors, "The last Xid that the kernel logged of it; 0: none.")
}

// Collect tells the newest readings.
func (w *watcher) Collect(out chan<- prometheus.Metric) {
	w.mu.Lock()
	cards, readings, lines := w.book.cards, w.readings, slices.Clone(w.book.lines)
	w.mu.Unlock()
	for i, d := range cards {
		at := []string{strconv.Itoa(i), d.UUID, d.Bus, d.Type, w.cfg.Node}
		last := 0
		for _, l := range lines {
			if card.SameBus(l.Bus, d.Bus) {
				last = l.Xid
			}
		}
		out <- prometheus.MustNewConstMetric(desc(xidErrors, "The last Xid that the kernel logged of it; 0: none."), prometheus.GaugeValue, float64(last), at...)
		r := readings[i]
		if r == nil || r.Lost || r.Silent > 0 {
			continue
		}
		for _, f := range figures {
			if n := f.of(r); n != nil {
				out <- prometheus.MustNewConstMetric(desc(f.name, f.help), prometheus.GaugeValue, float64(*n), at...)
			}
		}
	}
}
