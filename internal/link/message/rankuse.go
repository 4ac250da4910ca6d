package message

import "github.com/fermi-cluster/fermi/internal/link/linkpb"

// Use is what the processes and devices of a launcher used in a generation.
type Use struct {
	CPU          float64 // seconds of all processes
	Seconds      float64 // that passed
	Memory       int64   // resident bytes, now
	Devices      int     // that were looked at
	Busy         float64 // seconds in which one worked, over all
	Watched      float64 // seconds in which that was watched, over all
	DeviceMemory int64   // bytes in use, now
	DeviceTotal  int64
}

// Saves counts checkpoints of ranks.
type Saves struct {
	Begun, Whole int64
	Stall        float64 // seconds that training usually waits for one, on the slowest rank; 0: not known
}

func savesOf(m *linkpb.Saves) Saves {
	return Saves{Begun: m.GetBegun(), Whole: m.GetWhole(), Stall: m.GetStall()}
}

// sane refuses what no sum can be; NaN too.
func (u Use) sane() bool {
	const most = 1e18
	for _, v := range []float64{u.CPU, u.Seconds, float64(u.Memory), float64(u.Devices), u.Busy, u.Watched, float64(u.DeviceMemory), float64(u.DeviceTotal)} {
		if !(v >= 0 && v <= most) {
			return false
		}
	}
	return u.Busy <= u.Watched
}

func (u Use) message() *linkpb.Use {
	if u.Seconds == 0 && u.Devices == 0 {
		return nil
	}
	return &linkpb.Use{
		Cpu: u.CPU, Seconds: u.Seconds, Memory: u.Memory, Devices: int32(u.Devices), Busy: u.Busy, Watched: u.Watched,
		DeviceMemory: u.DeviceMemory, DeviceTotal: u.DeviceTotal,
	}
}

func useOf(m *linkpb.Use) Use {
	return Use{
		CPU: m.GetCpu(), Seconds: m.GetSeconds(), Memory: m.GetMemory(), Devices: int(m.GetDevices()), Busy: m.GetBusy(), Watched: m.GetWatched(),
		DeviceMemory: m.GetDeviceMemory(), DeviceTotal: m.GetDeviceTotal(),
	}
}

func (s Saves) message() *linkpb.Saves {
	if s == (Saves{}) {
		return nil
	}
	return &linkpb.Saves{Begun: s.Begun, Whole: s.Whole, Stall: s.Stall}
}

func checkUse(r *linkpb.Ranks) error {
	if s := r.GetSaves(); s.GetWhole() < 0 || s.GetBegun() < s.GetWhole() {
		return Refuse("more saves are whole than were begun")
	}
	if stall := r.GetSaves().GetStall(); !(stall >= 0 && stall <= 1e9) {
		return Refuse("the stall of a save is out of range")
	}
	if p := r.GetParameters(); !useOf(r.GetUse()).sane() || !(p >= 0 && p <= 1e18) {
		return Refuse("what ranks use is out of range")
	}
	return nil
}
