package message

import (
	"fmt"
	"slices"
	"time"

	"github.com/fermi-cluster/fermi/internal/link/linkpb"
	"github.com/fermi-cluster/fermi/internal/preflight"
)

// The bounds of a preflight.
const (
	maxTargets   = 8
	maxVersions  = 32
	maxVersion   = 64  // bytes
	maxFaults    = 64  // devices of a node
	maxFaultText = 200 // bytes
)

func preflightMessage(r *preflight.Round) *linkpb.Preflight {
	if r == nil {
		return nil
	}
	out := &linkpb.Preflight{Round: r.ID}
	for _, t := range r.Targets {
		out.Targets = append(out.Targets, targetMessage(t))
	}
	return out
}

func targetMessage(t preflight.Target) *linkpb.PreflightTarget {
	return &linkpb.PreflightTarget{Name: t.Name, Address: t.Address, Bandwidth: t.Bandwidth}
}

func targetOf(m *linkpb.PreflightTarget) preflight.Target {
	return preflight.Target{Name: m.GetName(), Address: m.GetAddress(), Bandwidth: m.GetBandwidth()}
}

func preflightOf(m *linkpb.Preflight) *preflight.Round {
	if m == nil {
		return nil
	}
	out := &preflight.Round{ID: m.GetRound()}
	for _, t := range m.GetTargets() {
		out.Targets = append(out.Targets, targetOf(t))
	}
	return out
}

func checkTarget(t *linkpb.PreflightTarget) error {
	if len(t.GetName()) > MaxName || len(t.GetAddress()) > maxLeadText {
		return fmt.Errorf("preflight with overlong texts")
	}
	return checkAddress(t.GetAddress())
}

func checkPreflight(m *linkpb.Preflight) error {
	if m == nil {
		return nil
	}
	if m.GetRound() == "" || len(m.GetRound()) > maxTable || len(m.GetTargets()) > maxTargets {
		return fmt.Errorf("preflight of %d targets", len(m.GetTargets()))
	}
	for _, t := range m.GetTargets() {
		if err := checkTarget(t); err != nil {
			return err
		}
	}
	return nil
}

func factsMessage(f *preflight.Facts) *linkpb.NodeFacts {
	if f == nil {
		return nil
	}
	return &linkpb.NodeFacts{Versions: f.Versions, FreeDisk: f.FreeDisk, SharedMemory: f.SharedMemory}
}

func factsOf(m *linkpb.NodeFacts) *preflight.Facts {
	if m == nil {
		return nil
	}
	return &preflight.Facts{Versions: m.GetVersions(), FreeDisk: m.GetFreeDisk(), SharedMemory: m.GetSharedMemory()}
}

func reportMessage(r *preflight.Report) *linkpb.PreflightReport {
	if r == nil {
		return nil
	}
	out := &linkpb.PreflightReport{Round: r.Round, Listen: r.Listen, Port: int32(r.Port)}
	for _, one := range r.Results {
		out.Results = append(out.Results, &linkpb.PreflightResult{Target: targetMessage(one.Target), Error: one.Error, LatencyNanos: int64(one.Latency), Rate: one.Rate})
	}
	out.Devices = r.Devices.Test
	for _, f := range r.Devices.Faults {
		out.DeviceFaults = append(out.DeviceFaults, &linkpb.DeviceFault{Index: int32(f.Index), Kind: f.Kind, Count: f.Count, Text: CutText(f.Text, maxFaultText)})
	}
	return out
}

func reportOf(m *linkpb.PreflightReport) *preflight.Report {
	if m == nil {
		return nil
	}
	out := &preflight.Report{Round: m.GetRound(), Listen: m.GetListen(), Port: int(m.GetPort())}
	for _, one := range m.GetResults() {
		out.Results = append(out.Results, preflight.Result{Target: targetOf(one.GetTarget()), Error: one.GetError(), Latency: time.Duration(one.GetLatencyNanos()), Rate: one.GetRate()})
	}
	out.Devices.Test = m.GetDevices()
	for _, f := range m.GetDeviceFaults() {
		out.Devices.Faults = append(out.Devices.Faults, preflight.DeviceFault{Index: int(f.GetIndex()), Kind: f.GetKind(), Count: f.GetCount(), Text: f.GetText()})
	}
	return out
}

// checkFacts is the hub's check of what a launcher found.
func checkFacts(f *linkpb.NodeFacts, r *linkpb.PreflightReport) error {
	if len(f.GetVersions()) > maxVersions || f.GetFreeDisk() < 0 || f.GetSharedMemory() < 0 {
		return Refuse("facts out of range")
	}
	for field, version := range f.GetVersions() {
		if len(field) > maxVersion || len(version) > maxVersion {
			return Refuse("facts have an overlong text")
		}
	}
	unknown := func(why string) bool { return why != "" && !slices.Contains(preflight.Errors, why) }
	if len(r.GetRound()) > maxTable || len(r.GetResults()) > maxTargets || unknown(r.GetListen()) || r.GetPort() < 0 || r.GetPort() > 65535 {
		return Refuse("preflight out of range")
	}
	for _, one := range r.GetResults() {
		if checkTarget(one.GetTarget()) != nil || unknown(one.GetError()) || one.GetLatencyNanos() < 0 || one.GetRate() < 0 {
			return Refuse("a connection of the preflight is out of range")
		}
	}
	return checkDevices(r)
}

func checkDevices(r *linkpb.PreflightReport) error {
	if word := r.GetDevices(); word != "" && !slices.Contains(preflight.Tests, word) || len(r.GetDeviceFaults()) > maxFaults {
		return Refuse("the test of devices is out of range")
	}
	for _, f := range r.GetDeviceFaults() {
		if f.GetIndex() < 0 || f.GetCount() < 0 || len(f.GetText()) > maxFaultText || !slices.Contains(preflight.DeviceFaults, f.GetKind()) {
			return Refuse("a device of the preflight is out of range")
		}
	}
	return nil
}
