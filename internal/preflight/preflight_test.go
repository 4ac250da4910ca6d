package preflight

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// four are replicas among which nothing is wrong.
func four(change func(m []Member)) []Member {
	list := make([]Member, 4)
	for i := range list {
		list[i] = Member{
			Name: fmt.Sprintf("worker-%d", i), Node: fmt.Sprintf("n%d", i), Group: "",
			Facts:  &Facts{Versions: map[string]string{"python": "3.11", "torch": "2.1.0"}, FreeDisk: 1 << 40, SharedMemory: 1 << 34},
			Answer: &Report{Round: "r", Results: []Result{{Target: Target{Name: "worker-0", Address: "10.0.0.1:4000"}, Latency: time.Duration(i+1) * time.Millisecond, Rate: int64(100 - i)}}},
		}
	}
	change(list)
	return list
}

func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		change func(m []Member)
		field  string
		en, zh string
	}{
		"nothing": {func([]Member) {}, "", "", ""},
		"torch": {func(m []Member) { m[2].Facts.Versions = map[string]string{"python": "3.11", "torch": "1.13.1"} }, "torch",
			"torch differs: 1.13.1 on worker-2, 2.1.0 on worker-0 worker-1 worker-3; use the same", "torch 版本不一致：worker-2 为 1.13.1"},
		"no torch":   {func(m []Member) { m[2].Facts.Versions = map[string]string{"python": "3.11"} }, "torch", "none on 1 others", "另有 1 个没有"},
		"refused":    {func(m []Member) { m[1].Answer.Results[0].Error = Refused }, "pair", "worker-1 (node n1) can't reach worker-0 at 10.0.0.1:4000: the connection is refused", "无法连接 worker-0"},
		"silent":     {func(m []Member) { m[1].Answer.Results[0].Error = Silent }, "pair", "no answer", "没有应答"},
		"unanswered": {func(m []Member) { m[3].Answer = nil }, "answer", "worker-3 on node n3 did not finish", "节点 n3 上的 worker-3"},
		"held port, its victims aren't named": {func(m []Member) {
			m[0].Answer.Listen, m[0].Answer.Port = Taken, 4000
			for i := range m {
				m[i].Answer.Results[0].Error = Stranger
			}
		}, "port", "worker-0 can't listen on port 4000 of node n0", "节点 n0 的端口 4000"},
		"disk":          {func(m []Member) { m[1].Disk = 1 << 41 }, "disk", "Node n1 has 1Ti of disk free for worker-1, which needs 2Ti", "节点 n1"},
		"lost device":   {func(m []Member) { m[1].Answer.Devices = Devices{Tested, []DeviceFault{{3, DeviceLost, 0, ""}}} }, "device", "Device 3 of node n1 (worker-1) does not answer", "节点 n1 的加速卡 3（worker-1）没有应答"},
		"memory errors": {func(m []Member) { m[1].Answer.Devices = Devices{Tested, []DeviceFault{{3, DeviceErrors, 7, ""}}} }, "device", "had 7 memory errors", "7 个不可纠正的显存错误"},
		"bad memory":    {func(m []Member) { m[1].Answer.Devices = Devices{Tested, []DeviceFault{{3, DevicePending, 0, ""}}} }, "device", "goes out of use with the next reset", "请复位该卡"},
		"silent driver": {func(m []Member) { m[1].Answer.Devices = Devices{Tested, []DeviceFault{{0, DeviceSilent, 0, ""}}} }, "device", "The driver of node n1, asked for the devices of worker-1,", "节点 n1 的驱动"},
		"wrong result": {func(m []Member) {
			m[1].Answer.Devices = Devices{Computed, []DeviceFault{{3, DeviceWrong, 0, "9 of 64"}}}
		}, "device", "Device 3 of node n1 (worker-1) computed a wrong result (9 of 64)", "试算结果错误（9 of 64）"},
		"hung":   {func(m []Member) { m[1].Answer.Devices = Devices{Computed, []DeviceFault{{3, DeviceHung, 0, ""}}} }, "device", "did not finish a short computation", "未在限定时间内完成试算"},
		"unseen": {func(m []Member) { m[1].Answer.Devices = Devices{Computed, []DeviceFault{{0, DeviceUnseen, 2, ""}}} }, "device", "sees only 2 of the devices that worker-1 has on node n1", "只能看到"},
		"image": {func(m []Member) {
			for i := range m {
				m[i].Facts.Versions["image"] = "debian 12"
			}
			m[0].Facts.Versions["image"] = "debian 11"
		}, "image", "image differs: debian 11 on worker-0", "image 版本不一致"},
		"memory": {func(m []Member) { m[1].Facts.SharedMemory = 1 << 20 }, "sharedMemory", "needs 32Mi", "共享内存"},
	} {
		got := Judge(four(c.change))
		if c.field == "" {
			if len(got) != 0 {
				t.Errorf("%s: %+v", name, got)
			}
			continue
		}
		if len(got) != 1 || got[0].Field != c.field || !strings.Contains(got[0].Message.EN, c.en) || !strings.Contains(got[0].Message.ZH, c.zh) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	// Roles that don't share ranks may differ.
	if got := Judge(four(func(m []Member) { m[3].Group, m[3].Facts.Versions = "reward", nil })); len(got) != 0 {
		t.Errorf("groups: %+v", got)
	}
	many := make([]Member, 100)
	if got := Judge(many); len(got) != MaxFindings || got[MaxFindings-1].Field != "more" || !strings.Contains(got[MaxFindings-1].Message.EN, "81") {
		t.Errorf("%d findings: %+v", len(got), got[len(got)-1])
	}
}

func TestMeasure(t *testing.T) {
	got := Measure(four(func(m []Member) { m[3].Answer.Results[0].Error = Silent }))
	if got.Pairs != 3 || got.Longest != 3*time.Millisecond || got.Rate != 98 {
		t.Errorf("%+v", got)
	}
}

// TestCovered: the least that was done about any device is said.
func TestCovered(t *testing.T) {
	for want, words := range map[string][]string{"": {"", ""}, Computed: {Computed, ""}, Tested: {Computed, Tested}, Virtual: {Tested, Virtual}, Untested: {Untested, Virtual, Tested}} {
		got := Covered(four(func(m []Member) {
			m[3].Answer = nil
			for i, word := range words {
				m[i].Answer.Devices.Test = word
			}
		}))
		if got != want {
			t.Errorf("%v: %q", words, got)
		}
	}
}

// TestDeviceWords: every fault has words in both languages that name the node and fill every place.
func TestDeviceWords(t *testing.T) {
	for _, kind := range DeviceFaults {
		if _, ok := deviceWords[kind]; !ok {
			t.Errorf("%s has no words", kind)
		}
		got := Judge(four(func(m []Member) { m[1].Answer.Devices = Devices{Computed, []DeviceFault{{3, kind, 5, "why"}}} }))
		if len(got) != 1 {
			t.Fatalf("%s: %+v", kind, got)
		}
		for _, text := range []string{got[0].Message.EN, got[0].Message.ZH} {
			if !strings.Contains(text, "n1") || !strings.Contains(text, "worker-1") || strings.Contains(text, "%!") {
				t.Errorf("%s: %s", kind, text)
			}
		}
	}
}

// TestLate: one that comes later must have what all others had in common; what only some had does not count.
func TestLate(t *testing.T) {
	common := Common(four(func(m []Member) {
		m[1].Facts.Versions["numpy"] = "1"
		m[2].Facts.Versions["python"] = "3.12"
		m[3].Group, m[3].Facts.Versions = "reward", nil
	}))
	if len(common) != 1 || common["torch"] != "2.1.0" {
		t.Errorf("%v", common)
	}
	for want, change := range map[string]func(m *Member){
		"":                                  func(m *Member) { m.Facts.Versions["python"] = "2.7" },
		"torch 1.13, the others have 2.1.0": func(m *Member) { m.Facts.Versions["torch"] = "1.13" },
		"has no torch":                      func(m *Member) { m.Facts.Versions = nil },
		"Device 3":                          func(m *Member) { m.Answer.Devices = Devices{Computed, []DeviceFault{{3, DeviceHung, 0, ""}}} },
		"port 7":                            func(m *Member) { m.Answer.Listen, m.Answer.Port = Taken, 7 },
		"of disk":                           func(m *Member) { m.Facts.FreeDisk = 1 },
	} {
		m := four(func([]Member) {})[1]
		change(&m)
		got := Late(m, common)
		if (want == "") != (len(got) == 0) || want != "" && !strings.Contains(got[0].Message.EN, want) {
			t.Errorf("%q: %+v", want, got)
		}
	}
}
