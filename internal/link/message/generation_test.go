package message

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link/linkpb"
	"github.com/fermi-cluster/fermi/internal/preflight"
)

var someRanks = Ranks{
	Generation: 3,
	Port:       4001,
	Reach:      engine.Reach{Address: "100.64.4.2", Serve: 4002, Serving: &engine.Serving{Ready: true, Port: 8000, Why: "why"}},
	RoleTable:  "def",
	Ports:      []int{4002, 4003},
	Failed: &RankExit{Rank: 2, Code: 137, Signal: "SIGKILL", Reason: engine.ReasonSignaled, Message: "m", At: time.Unix(5, 6).UTC(),
		Diagnosis: engine.Diagnosis{Cause: "killed", Fingerprint: "f", Line: "l", Step: 6}},
	Facts:     &preflight.Facts{Versions: map[string]string{"torch": "2"}, FreeDisk: 3, SharedMemory: 4},
	Preflight: &preflight.Report{Round: "r", Listen: preflight.Taken, Port: 5, Results: []preflight.Result{{Target: preflight.Target{Name: "worker-0", Address: "[::1]:7", Bandwidth: true}, Error: preflight.Silent, Latency: 6, Rate: 7}}, Devices: preflight.Devices{Test: preflight.Tested, Faults: []preflight.DeviceFault{{Index: 3, Kind: preflight.DeviceErrors, Count: 8, Text: "t"}}}},
	Progress:  Progress{Step: 7, Use: Use{CPU: 1, Seconds: 2, Memory: 3, Devices: 4, Busy: 5, Watched: 6, DeviceMemory: 7, DeviceTotal: 8}, Saves: Saves{9, 8, 0.012}, Parameters: 7e9, Watched: true, HungAt: time.Unix(5, 7).UTC(), Printed: true, Own: []RankOwn{{Rank: 2, Seconds: 0.5, Steps: 16}}, Hung: []RankState{{Rank: 2, Step: 7, State: 'T', Collective: true, Backward: true, Silent: time.Second, Waits: "w"}}},
	Holding:   Holding{Held: []int64{4, 6}, PeerPort: 4004, Copies: []Copy{{First: 2, Ranks: 2, Steps: []int64{4, 6}}}, Missed: 9, Every: 40},
}

func TestGenerationMessages(t *testing.T) {
	if d := cmp.Diff(someRanks, RanksOf(someRanks.Message())); d != "" {
		t.Error(d)
	}
	g := Generation{
		Number:     4,
		Every:      40,
		Hold:       true,
		Preflight:  &preflight.Round{ID: "r", Targets: []preflight.Target{{Name: "worker-0", Address: "127.0.0.1:7", Bandwidth: true}}},
		Membership: Membership{FirstRank: 2, World: 8, Group: 1, Groups: 3, Lead: "127.0.0.1:9", Table: "abc", RoleTable: "def", Ports: []int{1, 65535}, Hosts: []string{"100.64.4.2", "127.0.0.1"}, Key: "k", Roles: []Role{{Name: "actor", Ranks: 4, Replicas: 2, Addresses: []string{"127.0.0.1:1", ""}}, {Name: "reward", Ranks: 1, Replicas: 1}}},
		States:     States{Restore: 5, Peer: "127.0.0.1:8", PeerKey: "p", Sources: []Source{{First: 2, Ranks: 1, Address: "127.0.0.1:8"}}},
	}
	if d := cmp.Diff(g, GenerationOf(g.Order(1, 1))); d != "" {
		t.Error(d)
	}
	if err := CheckGo(g.Order(1, 1)); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*linkpb.Go){
		"epoch":       func(m *linkpb.Go) { m.Epoch = 0 },
		"generation":  func(m *linkpb.Go) { m.Generation = 0 },
		"world":       func(m *linkpb.Go) { m.World = MaxWorld + 1 },
		"rank":        func(m *linkpb.Go) { m.FirstRank = 8 },
		"group":       func(m *linkpb.Go) { m.Group = 3 },
		"no group":    func(m *linkpb.Go) { m.Group = -1 },
		"groups":      func(m *linkpb.Go) { m.Groups = MaxWorld + 1 },
		"lead":        func(m *linkpb.Go) { m.Lead = "127.0.0.1" },
		"lead's port": func(m *linkpb.Go) { m.Lead = "127.0.0.1:99999" },
		"restore":     func(m *linkpb.Go) { m.Restore = -1 },
		"every":       func(m *linkpb.Go) { m.Every = -1 },
		"table":       func(m *linkpb.Go) { m.Table = strings.Repeat("a", maxTable+1) },
		"role table":  func(m *linkpb.Go) { m.RoleTable = strings.Repeat("a", maxTable+1) },
		"roles":       func(m *linkpb.Go) { m.Roles = make([]*linkpb.RoleTable, maxRoles+1) },
		"role":        func(m *linkpb.Go) { m.Roles[0].Name = "A=B" },
		"role's size": func(m *linkpb.Go) { m.Roles[0].Ranks = 1 },
		"addresses":   func(m *linkpb.Go) { m.Roles[0].Addresses = make([]string, MaxAddresses+1) },
		"round":       func(m *linkpb.Go) { m.Preflight.Round = "" },
		"targets":     func(m *linkpb.Go) { m.Preflight.Targets = make([]*linkpb.PreflightTarget, maxTargets+1) },
		"target":      func(m *linkpb.Go) { m.Preflight.Targets[0].Address = "x" },
		"address":     func(m *linkpb.Go) { m.Roles[0].Addresses[0] = "localhost" },
		"port":        func(m *linkpb.Go) { m.Ports[1] = 65536 },
		"host":        func(m *linkpb.Go) { m.Hosts[1] = "localhost" },
		"more hosts":  func(m *linkpb.Go) { m.Hosts = slices.Repeat(m.Hosts, maxPorts) },
		"more ports":  func(m *linkpb.Go) { m.Ports = slices.Repeat(m.Ports, maxPorts) },
		"key":         func(m *linkpb.Go) { m.Key = strings.Repeat("a", maxKey+1) },
		"peer":        func(m *linkpb.Go) { m.Peer = "127.0.0.1" },
		"peer's key":  func(m *linkpb.Go) { m.PeerKey = strings.Repeat("a", maxKey+1) },
		"source":      func(m *linkpb.Go) { m.Sources[0].Address = "" },
		"sources":     func(m *linkpb.Go) { m.Sources = slices.Repeat(m.Sources, MaxCopies+1) },
		"source rank": func(m *linkpb.Go) { m.Sources[0].Ranks = 0 },
	} {
		bad := proto.CloneOf(g.Order(1, 1))
		if spoil(bad); CheckGo(bad) == nil {
			t.Errorf("a go with a bad %s was taken", name)
		}
	}
	for name, spoil := range map[string]func(*linkpb.Ranks){
		"generation": func(m *linkpb.Ranks) { m.Generation = -1 },
		"port":       func(m *linkpb.Ranks) { m.Port = 65536 },
		"address":    func(m *linkpb.Ranks) { m.Address = "0.0.0.0" },
		"name":       func(m *linkpb.Ranks) { m.Address = "localhost" },
		"own rank":   func(m *linkpb.Ranks) { m.Own[0].Rank = MaxWorld },
		"own steps":  func(m *linkpb.Ranks) { m.Own[0].Steps = 0 },
		"own time":   func(m *linkpb.Ranks) { m.Own[0].Seconds = math.NaN() },
		"own times":  func(m *linkpb.Ranks) { m.Own = slices.Repeat(m.Own, maxHung+1) },
		"disk":       func(m *linkpb.Ranks) { m.Facts.FreeDisk = -1 },
		"version":    func(m *linkpb.Ranks) { m.Facts.Versions["torch"] = strings.Repeat("1", maxVersion+1) },
		"round":      func(m *linkpb.Ranks) { m.Preflight.Round = strings.Repeat("1", maxTable+1) },
		"listen":     func(m *linkpb.Ranks) { m.Preflight.Listen = "no" },
		"result":     func(m *linkpb.Ranks) { m.Preflight.Results[0].Error = "no" },
		"use":        func(m *linkpb.Ranks) { m.Use.Busy = m.Use.Watched + 1 },
		"memory":     func(m *linkpb.Ranks) { m.Use.Memory = -1 },
		"saves":      func(m *linkpb.Ranks) { m.Saves.Whole = m.Saves.Begun + 1 },
		"parameters": func(m *linkpb.Ranks) { m.Parameters = math.NaN() },
		"devices":    func(m *linkpb.Ranks) { m.Preflight.Devices = "no" },
		"device":     func(m *linkpb.Ranks) { m.Preflight.DeviceFaults[0].Kind = "no" },
		"fault text": func(m *linkpb.Ranks) { m.Preflight.DeviceFaults[0].Text = strings.Repeat("a", maxFaultText+1) },
		"count":      func(m *linkpb.Ranks) { m.Preflight.DeviceFaults[0].Count = -1 },
		"rate":       func(m *linkpb.Ranks) { m.Preflight.Results[0].Rate = -1 },
		"serve":      func(m *linkpb.Ranks) { m.Serve = -1 },
		"role table": func(m *linkpb.Ranks) { m.RoleTable = strings.Repeat("a", maxTable+1) },
		"ports":      func(m *linkpb.Ranks) { m.Ports[0] = 0 },
		"order":      func(m *linkpb.Ranks) { m.Held = []int64{2, 1} },
		"step":       func(m *linkpb.Ranks) { m.Held = []int64{0} },
		"many":       func(m *linkpb.Ranks) { m.Held = make([]int64, MaxHeld+1) },
		"peer port":  func(m *linkpb.Ranks) { m.PeerPort = -1 },
		"missed":     func(m *linkpb.Ranks) { m.Missed = -1 },
		"copy":       func(m *linkpb.Ranks) { m.Copies[0].First = -1 },
		"copy step":  func(m *linkpb.Ranks) { m.Copies[0].Steps = []int64{0} },
		"copies":     func(m *linkpb.Ranks) { m.Copies = slices.Repeat(m.Copies, MaxCopies+1) },
		"reason":     func(m *linkpb.Ranks) { m.Failed.Reason = engine.ReasonSucceeded },
		"code":       func(m *linkpb.Ranks) { m.Failed.Code = 256 },
		"rank":       func(m *linkpb.Ranks) { m.Failed.Rank = -1 },
		"text":       func(m *linkpb.Ranks) { m.Failed.Message = strings.Repeat("a", MaxText+1) },
	} {
		bad := proto.CloneOf(someRanks.Message())
		if spoil(bad); CheckRanks(bad) == nil {
			t.Errorf("ranks with a bad %s were taken", name)
		}
	}
}
