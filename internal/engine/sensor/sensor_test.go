package sensor

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/card"
	"github.com/fermi-cluster/fermi/internal/clock"
)

func n(v int64) *int64 { return &v }

func golden(t testing.TB, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

const card0 = "GPU-00000000-1111-2222-3333-444444444444"

// TestH200: what a real card said, read.
func TestH200(t *testing.T) {
	list, err := ParseSMI(golden(t, "h200.xml"))
	if err != nil {
		t.Fatal(err)
	}
	want := []card.DeviceReading{{
		UUID: card0, Bus: "0000:00:06.0", Throttle: []string{"gpu_idle"},
		ECC:    card.ReadingECC{VolatileCorrected: n(0), VolatileUncorrected: n(0), AggregateCorrected: n(0), AggregateUncorrected: n(0)},
		Repair: card.ReadingRepair{RowsCorrected: n(0), RowsUncorrected: n(0), KnowsRecovery: true},
		PCIe:   card.ReadingPCIe{Replays: n(0)},
		Load:   card.ReadingLoad{Model: "NVIDIA H200", Celsius: n(38), Watts: n(81), Busy: n(0), MemoryUsed: n(0), MemoryFree: n(143156)},
	}}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Error(diff)
	}
}

// TestOtherDrivers: words of older and newer drivers, and of bad cards.
func TestOtherDrivers(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		look func(card.DeviceReading) bool
	}{
		"before Turing": {`<ecc_errors><volatile><single_bit><total>7</total></single_bit><double_bit><total>2</total></double_bit></volatile></ecc_errors>
			<retired_pages><multiple_single_bit_retirement><retired_count>3</retired_count></multiple_single_bit_retirement><double_bit_retirement><retired_count>1</retired_count></double_bit_retirement><pending_retirement>Yes</pending_retirement></retired_pages>
			<clocks_throttle_reasons><clocks_throttle_reason_hw_thermal_slowdown>Active</clocks_throttle_reason_hw_thermal_slowdown><clocks_throttle_reason_gpu_idle>Not Active</clocks_throttle_reason_gpu_idle></clocks_throttle_reasons>`,
			func(r card.DeviceReading) bool {
				return *r.ECC.VolatileCorrected == 7 && *r.ECC.VolatileUncorrected == 2 && *r.Repair.PagesSingle == 3 && *r.Repair.PagesDouble == 1 && r.Repair.Pending && !r.Repair.KnowsRecovery &&
					cmp.Equal(r.Throttle, []string{"hw_thermal_slowdown"}) && r.ECC.AggregateUncorrected == nil
			}},
		"Ampere": {`<ecc_errors><volatile><sram_correctable>1</sram_correctable><sram_uncorrectable>2</sram_uncorrectable><dram_correctable>3</dram_correctable><dram_uncorrectable>4</dram_uncorrectable></volatile></ecc_errors>`,
			func(r card.DeviceReading) bool {
				return *r.ECC.VolatileCorrected == 4 && *r.ECC.VolatileUncorrected == 6
			}},
		"no ECC": {`<ecc_errors><volatile><dram_uncorrectable>N/A</dram_uncorrectable></volatile></ecc_errors>`, func(r card.DeviceReading) bool { return r.ECC.VolatileUncorrected == nil }},
		"lost":   {`<temperature><gpu_temp>GPU is lost</gpu_temp></temperature>`, func(r card.DeviceReading) bool { return r.Lost && r.Says == "GPU is lost" }},
		"rows": {`<remapped_rows><remapped_row_unc>2</remapped_row_unc><remapped_row_pending>Yes</remapped_row_pending><remapped_row_failure>Yes</remapped_row_failure></remapped_rows>`, func(r card.DeviceReading) bool {
			return *r.Repair.RowsUncorrected == 2 && r.Repair.Pending && r.Repair.Failed
		}},
		"channel": {`<ecc_errors><channel_repair_pending>Yes</channel_repair_pending></ecc_errors>`, func(r card.DeviceReading) bool { return r.Repair.Pending }},
		"reset":   {`<gpu_recovery_action>GPU Reset</gpu_recovery_action>`, func(r card.DeviceReading) bool { return r.Repair.KnowsRecovery && r.Repair.Recovery == "GPU Reset" }},
		"unsaid":  {`<gpu_recovery_action>N/A</gpu_recovery_action>`, func(r card.DeviceReading) bool { return !r.Repair.KnowsRecovery && r.Repair.Recovery == "" }},
		"absurd": {`<ecc_errors><volatile><dram_uncorrectable>-5</dram_uncorrectable><dram_correctable>99999999999999999999</dram_correctable></volatile></ecc_errors>`, func(r card.DeviceReading) bool {
			return r.ECC.VolatileUncorrected == nil && r.ECC.VolatileCorrected == nil
		}},
	} {
		list, err := ParseSMI([]byte(`<nvidia_smi_log><gpu id="00000000:3B:00.0"><uuid>GPU-1</uuid>` + c.body + `</gpu></nvidia_smi_log>`))
		if err != nil || len(list) != 1 || list[0].Bus != "0000:3b:00.0" || !c.look(list[0]) {
			t.Errorf("%s: %+v %v", name, list, err)
		}
	}
	for _, bad := range []string{"", "No devices were found", "<nvidia_smi_log><gpu>", "<other/>", strings.Repeat("x", maxOutput+1)} {
		if _, err := ParseSMI([]byte(bad)); err == nil {
			t.Errorf("%.20q was read", bad)
		}
	}
}

func TestNVLink(t *testing.T) {
	got := map[string]*card.ReadingNVLink{}
	ParseNVLink([]byte("GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-aa)\n\t Link 0: Replay Errors: 1\n\t Link 0: Recovery Errors: 2\n\t Link 0: CRC Errors: 3\n\n\t Link 1: Replay Errors: 4\n\t Link 1: Recovery Errors: 0\n\t Link 1: CRC Flit Errors: 5\n"+
		"GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-bb)\n\t Link 0: Recovery Errors: 0\nGPU 2: no uuid\n\t Link 0: Recovery Errors: 9\n"), got)
	ParseNVLink([]byte("GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-aa)\n\t Link 0: 26.562 GB/s\n\t Link 1: <inactive>\n"), got)
	want := map[string]*card.ReadingNVLink{
		"GPU-aa": {Links: n(2), Down: n(1), Replay: n(5), Recovery: n(2), CRC: n(8)}, "GPU-bb": {Recovery: n(0)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// machine is one with three cards whose tool is a script.
func machine(t *testing.T, script string) (*Sensor, []api.Device) {
	t.Helper()
	dir := t.TempDir()
	smi := filepath.Join(dir, "nvidia-smi")
	one := func(i int) string {
		return fmt.Sprintf(`<gpu id="00000000:0%d:00.0"><uuid>GPU-%d</uuid><ecc_errors><volatile><dram_uncorrectable>%d</dram_uncorrectable></volatile></ecc_errors></gpu>`, i, i, i)
	}
	for i := range 3 {
		file := filepath.Join(dir, "GPU-"+strconv.Itoa(i))
		if err := os.WriteFile(file, []byte("<nvidia_smi_log>"+one(i)+"</nvidia_smi_log>"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "all"), []byte("<nvidia_smi_log>"+one(0)+one(1)+one(2)+"</nvidia_smi_log>"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(smi, []byte("#!/bin/sh\ncd "+dir+"\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	var devices []api.Device
	for i := range 3 {
		devices = append(devices, api.Device{Index: i, UUID: "GPU-" + strconv.Itoa(i), Vendor: "nvidia", Bus: fmt.Sprintf("0000:0%d:00.0", i)})
	}
	return New(Config{SMI: smi, Sys: dir, Clock: clock.Real, Log: slog.New(slog.DiscardHandler), Patience: 20 * time.Second}), devices
}

// TestOneBadCard: one card that fails hides no other, whether the tool gives up at it or hangs.
func TestOneBadCard(t *testing.T) {
	for name, c := range map[string]struct {
		script       string
		patience     time.Duration
		lost, silent bool
	}{
		"all well":   {`case "$1" in nvlink) ;; *) cat all ;; esac`, 20 * time.Second, false, false},
		"gives up":   {`case "$*" in nvlink*) ;; "-q -x") echo "Unable to determine the device handle for GPU0000:01:00.0: GPU is lost.  Reboot the system to recover this GPU"; exit 15 ;; *GPU-1) echo "No devices were found"; exit 6 ;; *) cat "$4" ;; esac`, 20 * time.Second, true, false},
		"leaves out": {`case "$*" in nvlink*) ;; "-q -x") cat GPU-0 ;; *GPU-1) echo "GPU is lost" >&2; exit 15 ;; *) cat "$4" ;; esac`, 20 * time.Second, true, false},
		"hangs":      {`case "$*" in nvlink*) ;; "-q -x"|*GPU-1) exec sleep 600 ;; *) cat "$4" ;; esac`, 5 * time.Second, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, devices := machine(t, c.script)
			s.cfg.Patience = c.patience
			got := s.Read(t.Context(), devices)
			for i := range 3 {
				r := got[i]
				if r == nil {
					t.Fatalf("device %d has no reading", i)
				}
				if i == 1 {
					if r.Lost != c.lost || (r.Silent > 0) != c.silent {
						t.Errorf("the bad one: %+v", r)
					}
					continue
				}
				if r.Lost || r.Silent > 0 || r.ECC.VolatileUncorrected == nil || *r.ECC.VolatileUncorrected != int64(i) {
					t.Errorf("device %d is hidden: %+v", i, r)
				}
			}
		})
	}
	t.Run("no tool", func(t *testing.T) {
		s, devices := machine(t, "")
		s.cfg.SMI = filepath.Join(t.TempDir(), "none")
		if got := s.Read(t.Context(), devices); got != nil {
			t.Errorf("%+v", got)
		}
	})
}

// TestLasting: how long a card is slowed or silent is counted from the first time on.
func TestLasting(t *testing.T) {
	since, at := map[string]time.Time{}, time.Date(2026, 11, 18, 0, 0, 0, 0, time.UTC)
	if d := lasting(since, "a", true, at); d <= 0 || d > time.Second {
		t.Error(d)
	}
	if d := lasting(since, "a", true, at.Add(time.Minute)); d != time.Minute {
		t.Error(d)
	}
	if d := lasting(since, "a", false, at.Add(time.Hour)); d != 0 || len(since) != 0 {
		t.Error(d, since)
	}
}

// TestBus: the kernel's own word of a card's link, and of one that left.
func TestBus(t *testing.T) {
	s, devices := machine(t, `case "$1" in nvlink) ;; *) cat all ;; esac`)
	all := filepath.Join(s.cfg.Sys, "bus/pci/devices")
	for i, config := range []string{"\xde\x10\x35\x23", "\xff\xff\xff\xff"} {
		dir := filepath.Join(all, fmt.Sprintf("0000:0%d:00.0", i))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{
			"config": config, "aer_dev_fatal": "DLP 1\nTOTAL_ERR_FATAL 1\n", "aer_dev_nonfatal": "TOTAL_ERR_NONFATAL 2\n", "aer_dev_correctable": "RxErr 3\nTOTAL_ERR_COR 3\n",
		} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	got := s.Read(t.Context(), devices)
	if r := got[0]; r.Lost || *r.PCIe.Fatal != 1 || *r.PCIe.NonFatal != 2 || *r.PCIe.Corrected != 3 {
		t.Errorf("%+v", r)
	}
	if !got[1].Lost || !got[2].Lost {
		t.Errorf("one whose registers are ones, and one that is gone: %+v %+v", got[1], got[2])
	}
}

// TestKernelLog: only what the kernel wrote itself is told.
func TestKernelLog(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "kmsg")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	s := New(Config{Kmsg: pipe, Boot: "b1", Clock: clock.Real, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	lines, ended := make(chan card.KernelLine, 16), make(chan error, 1)
	go func() { ended <- s.Follow(ctx, func(l card.KernelLine) { lines <- l }) }()
	for _, text := range []string{
		"6,100,5000000,-;NVRM: loading NVIDIA UNIX x86_64 Kernel Module",
		"12,101,5000001,-;NVRM: Xid (PCI:0000:3b:00): 79, written by a program", // facility 1
		"3,102,5000002,-;someone says NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus",
		"4,103,7000000,-;NVRM: Xid (PCI:0000:3B:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
		" SUBSYSTEM=pci",
		"garbage", "4,x,y,-;NVRM: Xid (PCI:0000:3b:00): 79,",
		"4,104,8000000,-;NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
	} {
		if _, err := io.WriteString(w, text+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	a, b := <-lines, <-lines
	if a.Xid != 79 || a.Sequence != 103 || a.Bus != "0000:3b:00" || a.Boot != "b1" || !card.SameBus(a.Bus, "00000000:3B:00.0") || b.Xid != 154 || !strings.Contains(b.Text, "Node Reboot Required") {
		t.Errorf("%+v %+v", a, b)
	}
	if d := b.At.Sub(a.At); d != time.Second {
		t.Errorf("%s apart", d)
	}
	cancel()
	if err := <-ended; err != nil || len(lines) > 0 {
		t.Error(err, len(lines))
	}
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	if err := New(Config{Kmsg: pipe + ".none", Clock: clock.Real, Log: slog.New(slog.DiscardHandler)}).Follow(ctx, nil); err != nil {
		t.Error(err)
	}
}

// textOf is what `nvidia-smi -q` says to people, read in another way than ours: by section and name.
func textOf(raw string) map[string]string {
	out := map[string]string{}
	var path []string
	for line := range strings.Lines(raw) {
		depth := (len(line) - len(strings.TrimLeft(line, " "))) / 4
		name, value, has := strings.Cut(strings.TrimSpace(line), " : ")
		path = append(path[:min(depth, len(path))], strings.TrimSpace(name))
		if has {
			out[strings.Join(path[1:], "/")] = strings.TrimSpace(value)
		}
	}
	return out
}

// compare says where a reading and the words for people differ.
func compare(t *testing.T, r card.DeviceReading, text map[string]string) {
	t.Helper()
	total := func(names ...string) string {
		var sum int64
		known := false
		for _, name := range names {
			if v, err := strconv.ParseInt(text[name], 10, 64); err == nil {
				sum, known = sum+v, true
			}
		}
		if !known {
			return "unknown"
		}
		return strconv.FormatInt(sum, 10)
	}
	ours := func(v *int64) string {
		if v == nil {
			return "unknown"
		}
		return strconv.FormatInt(*v, 10)
	}
	for name, pair := range map[string][2]string{
		"volatile corrected":    {ours(r.ECC.VolatileCorrected), total("ECC Errors/Volatile/SRAM Correctable", "ECC Errors/Volatile/DRAM Correctable")},
		"volatile uncorrected":  {ours(r.ECC.VolatileUncorrected), total("ECC Errors/Volatile/SRAM Uncorrectable", "ECC Errors/Volatile/SRAM Uncorrectable Parity", "ECC Errors/Volatile/SRAM Uncorrectable SEC-DED", "ECC Errors/Volatile/DRAM Uncorrectable")},
		"aggregate corrected":   {ours(r.ECC.AggregateCorrected), total("ECC Errors/Aggregate/SRAM Correctable", "ECC Errors/Aggregate/DRAM Correctable")},
		"aggregate uncorrected": {ours(r.ECC.AggregateUncorrected), total("ECC Errors/Aggregate/SRAM Uncorrectable", "ECC Errors/Aggregate/SRAM Uncorrectable Parity", "ECC Errors/Aggregate/SRAM Uncorrectable SEC-DED", "ECC Errors/Aggregate/DRAM Uncorrectable")},
		"pages, single":         {ours(r.Repair.PagesSingle), total("Retired Pages/Single Bit ECC")},
		"pages, double":         {ours(r.Repair.PagesDouble), total("Retired Pages/Double Bit ECC")},
		"rows, corrected":       {ours(r.Repair.RowsCorrected), total("Remapped Rows/Correctable Error")},
		"rows, uncorrected":     {ours(r.Repair.RowsUncorrected), total("Remapped Rows/Uncorrectable Error")},
		"replays":               {ours(r.PCIe.Replays), total("PCI/Replays Since Reset")},
		"pending":               {fmt.Sprint(r.Repair.Pending), fmt.Sprint(text["Remapped Rows/Pending"] == "Yes" || text["Retired Pages/Pending Page Blacklist"] == "Yes" || text["ECC Errors/Channel Repair Pending"] == "Yes" || text["ECC Errors/TPC Repair Pending"] == "Yes")},
		"failed":                {fmt.Sprint(r.Repair.Failed), fmt.Sprint(text["Remapped Rows/Remapping Failure Occurred"] == "Yes" || text["ECC Errors/Unrepairable Memory"] == "Yes")},
		"recovery":              {strings.Replace("None"+r.Repair.Recovery, "None", "", len(r.Repair.Recovery)), strings.TrimSuffix(text["GPU Recovery Action"], "N/A")},
		"uuid":                  {r.UUID, text["GPU UUID"]},
	} {
		if name == "recovery" && !r.Repair.KnowsRecovery {
			continue
		}
		if pair[0] != pair[1] {
			t.Errorf("%s: ours is %s, nvidia-smi -q says %s", name, pair[0], pair[1])
		}
	}
	for words, reason := range map[string]string{"HW Slowdown": "hw_slowdown", "HW Slowdown/HW Thermal Slowdown": "hw_thermal_slowdown", "HW Slowdown/HW Power Brake Slowdown": "hw_power_brake_slowdown", "SW Thermal Slowdown": "sw_thermal_slowdown"} {
		says := text["Clocks Event Reasons/"+words] == "Active" || text["Clocks Throttle Reasons/"+words] == "Active"
		if has := strings.Contains(" "+strings.Join(r.Throttle, " ")+" ", " "+reason+" "); has != says {
			t.Errorf("%s: ours is %v, nvidia-smi -q says %v", reason, has, says)
		}
	}
}

// TestEqualsWhatPeopleRead: our readings are what `nvidia-smi -q` says; of a recorded H200, and with FERMI_CARD=1 of the card here.
func TestEqualsWhatPeopleRead(t *testing.T) {
	list, err := ParseSMI(golden(t, "h200.xml"))
	if err != nil {
		t.Fatal(err)
	}
	compare(t, list[0], textOf(string(golden(t, "h200.txt"))))
	if os.Getenv("FERMI_CARD") != "1" {
		return
	}
	raw, err := exec.Command("nvidia-smi", "-q", "-x").Output()
	if err != nil {
		t.Fatal(err)
	}
	if list, err = ParseSMI(raw); err != nil || len(list) == 0 {
		t.Fatal(len(list), err)
	}
	s := New(Config{Clock: clock.Real, Log: slog.New(slog.DiscardHandler)})
	for i, r := range list {
		text, err := exec.Command("nvidia-smi", "-q", "-i", r.UUID).Output()
		if err != nil {
			t.Fatal(err)
		}
		got := s.Read(t.Context(), []api.Device{{Index: i, UUID: r.UUID, Vendor: "nvidia"}})[i]
		if got == nil || got.Lost || got.Silent > 0 {
			t.Fatalf("%+v", got)
		}
		compare(t, *got, textOf(string(text)))
	}
}

func FuzzSMI(f *testing.F) {
	f.Add(golden(f, "h200.xml"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		list, err := ParseSMI(raw)
		for _, r := range list {
			if err != nil || len(r.Says) > 160 || r.ECC.VolatileUncorrected != nil && *r.ECC.VolatileUncorrected < 0 {
				t.Errorf("%+v %v", r, err)
			}
		}
	})
}

func FuzzKernelLog(f *testing.F) {
	f.Add([]byte("4,103,7000000,-;NVRM: Xid (PCI:0000:3B:00): 79, GPU has fallen off the bus."))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if r, ok := parseRecord(raw); ok {
			if _, code, text, ok := parseXid(r); ok && (code <= 0 || code > 9999 || len(text) > 160) {
				t.Errorf("%d %q", code, text)
			}
		}
	})
}

func FuzzNVLink(f *testing.F) {
	f.Add([]byte("GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-aa)\n\t Link 0: Replay Errors: 1\n"))
	f.Fuzz(func(t *testing.T, raw []byte) { ParseNVLink(raw, map[string]*card.ReadingNVLink{}) })
}
