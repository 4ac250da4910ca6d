package sensor

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/fermi-cluster/fermi/api/v1/card"
)

// maxOutput bounds what a tool may print: 64 cards print about 2 MiB.
const maxOutput = 8 << 20

// smiLog is what we need of `nvidia-smi -q -x`; drivers since 2015 print these words.
type smiLog struct {
	XMLName xml.Name `xml:"nvidia_smi_log"`
	GPUs    []smiGPU `xml:"gpu"`
}

type smiGPU struct {
	ID       string     `xml:"id,attr"`
	UUID     string     `xml:"uuid"`
	Recovery *string    `xml:"gpu_recovery_action"`
	Bus      string     `xml:"pci>pci_bus_id"`
	Replays  string     `xml:"pci>replay_counter"`
	Events   smiReasons `xml:"clocks_event_reasons"`
	Throttle smiReasons `xml:"clocks_throttle_reasons"`
	ECC      smiECC     `xml:"ecc_errors"`
	Retired  smiRetired `xml:"retired_pages"`
	Remapped smiRows    `xml:"remapped_rows"`
	Memory   string     `xml:"fb_memory_usage>total"`
	Temp     string     `xml:"temperature>gpu_temp"`
	smiLoad
}

// smiLoad is what it is doing.
type smiLoad struct {
	Model    string `xml:"product_name"`
	Used     string `xml:"fb_memory_usage>used"`
	Free     string `xml:"fb_memory_usage>free"`
	Busy     string `xml:"utilization>gpu_util"`
	Power    string `xml:"gpu_power_readings>instant_power_draw"`
	PowerWas string `xml:"power_readings>power_draw"` // of drivers before 530
}

// smiReasons are <clocks_event_reason_hw_slowdown>Active</…> and the like, whatever there are.
type smiReasons struct {
	List []struct {
		XMLName xml.Name
		Value   string `xml:",chardata"`
	} `xml:",any"`
}

type smiECC struct {
	Volatile     smiErrors `xml:"volatile"`
	Aggregate    smiErrors `xml:"aggregate"`
	Channel      string    `xml:"channel_repair_pending"`
	TPC          string    `xml:"tpc_repair_pending"`
	Unrepairable string    `xml:"unrepairable_memory"`
}

// smiErrors has the counters since Ampere, since Turing, and of before.
type smiErrors struct {
	SRAMCorrectable   string `xml:"sram_correctable"`
	SRAMUncorrectable string `xml:"sram_uncorrectable"`
	SRAMParity        string `xml:"sram_uncorrectable_parity"`
	SRAMSecded        string `xml:"sram_uncorrectable_secded"`
	DRAMCorrectable   string `xml:"dram_correctable"`
	DRAMUncorrectable string `xml:"dram_uncorrectable"`
	Single            string `xml:"single_bit>total"`
	Double            string `xml:"double_bit>total"`
}

type smiRetired struct {
	Single  string `xml:"multiple_single_bit_retirement>retired_count"`
	Double  string `xml:"double_bit_retirement>retired_count"`
	Black   string `xml:"pending_blacklist"`
	Pending string `xml:"pending_retirement"`
}

type smiRows struct {
	Corrected   string `xml:"remapped_row_corr"`
	Uncorrected string `xml:"remapped_row_unc"`
	Pending     string `xml:"remapped_row_pending"`
	Failure     string `xml:"remapped_row_failure"`
}

// ParseSMI reads what `nvidia-smi -q -x` printed, whole or of one card.
func ParseSMI(raw []byte) ([]card.DeviceReading, error) {
	if len(raw) > maxOutput {
		return nil, fmt.Errorf("%d bytes are more than cards have to say", len(raw))
	}
	var doc smiLog
	d := xml.NewDecoder(bytes.NewReader(raw))
	d.Strict = true
	d.Entity = nil
	d.CharsetReader = func(charset string, in io.Reader) (io.Reader, error) {
		return nil, fmt.Errorf("charset %q", charset)
	}
	if err := d.Decode(&doc); err != nil {
		return nil, err
	}
	out := make([]card.DeviceReading, 0, len(doc.GPUs))
	for i := range doc.GPUs {
		out = append(out, doc.GPUs[i].reading())
	}
	return out, nil
}

func (g *smiGPU) reading() card.DeviceReading {
	r := card.DeviceReading{UUID: strings.TrimSpace(g.UUID), Bus: canonical(first(g.Bus, g.ID))}
	for _, v := range []string{g.Memory, g.Temp, g.Replays, g.ECC.Volatile.DRAMUncorrectable, g.ECC.Volatile.Double} {
		if strings.Contains(strings.ToLower(v), "is lost") {
			r.Lost, r.Says = true, clean(v)
			return r
		}
	}
	r.ECC.VolatileCorrected, r.ECC.VolatileUncorrected = g.ECC.Volatile.sums()
	r.ECC.AggregateCorrected, r.ECC.AggregateUncorrected = g.ECC.Aggregate.sums()
	r.Repair.PagesSingle, r.Repair.PagesDouble = number(g.Retired.Single), number(g.Retired.Double)
	r.Repair.RowsCorrected, r.Repair.RowsUncorrected = number(g.Remapped.Corrected), number(g.Remapped.Uncorrected)
	r.Repair.Pending = yes(g.Retired.Black) || yes(g.Retired.Pending) || yes(g.Remapped.Pending) || yes(g.ECC.Channel) || yes(g.ECC.TPC)
	r.Repair.Failed = yes(g.Remapped.Failure) || yes(g.ECC.Unrepairable)
	if g.Recovery != nil && known(*g.Recovery) {
		r.Repair.KnowsRecovery = true
		if word := clean(*g.Recovery); !strings.EqualFold(word, "none") {
			r.Repair.Recovery = word
		}
	}
	r.PCIe.Replays = number(g.Replays)
	r.Load = card.ReadingLoad{
		Model: clean(g.Model), Celsius: amount(g.Temp, "C"), Watts: amount(first(g.Power, g.PowerWas), "W"), Busy: amount(g.Busy, "%"),
		MemoryUsed: amount(g.Used, "MiB"), MemoryFree: amount(g.Free, "MiB"),
	}
	for _, reason := range append(g.Events.List, g.Throttle.List...) {
		name := strings.TrimPrefix(strings.TrimPrefix(reason.XMLName.Local, "clocks_event_reason_"), "clocks_throttle_reason_")
		if strings.TrimSpace(reason.Value) == "Active" && len(name) < 64 {
			r.Throttle = append(r.Throttle, name)
		}
	}
	return r
}

// sums are the errors that were, and were not, corrected.
func (e *smiErrors) sums() (corrected, uncorrected *int64) {
	corrected = sum(e.SRAMCorrectable, e.DRAMCorrectable)
	uncorrected = sum(e.SRAMUncorrectable, e.SRAMParity, e.SRAMSecded, e.DRAMUncorrectable)
	if corrected == nil && uncorrected == nil {
		return number(e.Single), number(e.Double)
	}
	return corrected, uncorrected
}

// sum is nil where none of the numbers is known.
func sum(list ...string) (out *int64) {
	for _, s := range list {
		if n := number(s); n != nil {
			if out == nil {
				out = new(int64)
			}
			*out += *n
		}
	}
	return out
}

// number is a count; nil for "N/A", "[N/A]", "Unknown Error" and all else that is none.
func number(s string) *int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	if err != nil || n < 0 || n > 1<<52 {
		return nil
	}
	return &n
}

// amount is a number of a unit, to the nearest: "79.95 W" is 80; nil for all else.
func amount(s, unit string) *int64 {
	text, ok := strings.CutSuffix(strings.TrimSpace(s), " "+unit)
	v, err := strconv.ParseFloat(text, 64)
	if !ok || err != nil || !(v >= 0 && v < 1<<40) {
		return nil
	}
	n := int64(v + 0.5)
	return &n
}

func yes(s string) bool { return strings.EqualFold(strings.TrimSpace(s), "yes") }

// known says that a word is one, not a way to say nothing.
func known(s string) bool {
	s = strings.Trim(strings.TrimSpace(s), "[]")
	return s != "" && s != "N/A" && s != "Not Supported" && !strings.Contains(s, "Unknown") && !strings.Contains(s, "deprecated") && !strings.Contains(s, "Permission")
}

func first(list ...string) string {
	for _, s := range list {
		if strings.TrimSpace(s) != "" {
			return strings.TrimSpace(s)
		}
	}
	return ""
}

// canonical is a PCI address as sysfs has it: 0000:3b:00.0.
func canonical(bus string) string {
	parts := strings.Split(strings.ToLower(strings.TrimSpace(bus)), ":")
	if len(parts) != 3 {
		return ""
	}
	domain, err := strconv.ParseUint(parts[0], 16, 32)
	if err != nil || len(parts[1]) != 2 || len(parts[2]) < 2 || len(parts[2]) > 4 || strings.ContainsAny(parts[1]+parts[2], "/ \n") {
		return ""
	}
	return fmt.Sprintf("%04x:%s:%s", domain, parts[1], parts[2])
}

// clean is a tool's word for people: one line, not long.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return ' '
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	return s[:min(len(s), 160)]
}
