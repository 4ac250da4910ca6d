package v1

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fermi-cluster/fermi/api/v1/card"
	"github.com/fermi-cluster/fermi/api/v1/hold"
	"github.com/fermi-cluster/fermi/api/v1/joined"
	"github.com/fermi-cluster/fermi/api/v1/moment"
	"github.com/fermi-cluster/fermi/api/v1/mount"
	"github.com/fermi-cluster/fermi/api/v1/quota"
	"github.com/fermi-cluster/fermi/api/v1/roundtrip"
	"github.com/fermi-cluster/fermi/api/v1/spot"
	"github.com/fermi-cluster/fermi/api/v1/terminal"
	"github.com/fermi-cluster/fermi/api/v1/way"
	"github.com/fermi-cluster/fermi/api/v1/where"
	"github.com/fermi-cluster/fermi/internal/fault"
)

var update = flag.Bool("update", false, "write the golden files anew")

// whole is an object of every kind with every field set, so that a renamed field shows as a
// changed golden file.
func whole() map[Kind]Object {
	at := time.Date(2026, 11, 15, 8, 30, 0, 0, time.UTC)
	meta := func(info KindInfo, display string) Meta {
		m := Meta{
			ID: info.IDPrefix + "-0123456789abcdefghjk", Name: info.Singular + "-1", DisplayName: display, Owner: "admin",
			Labels: map[string]string{"team": "nlp"}, Revision: 42, CreatedAt: at, UpdatedAt: at.Add(time.Minute), DeletedAt: &at,
		}
		if info.Project {
			m.Project = "default"
		}
		return m
	}
	text := fault.T("A sentence.", "一句话。")
	lies := &mount.Source{Folder: "pool", S3: &mount.S3Source{Endpoint: "https://s3.example.org", Region: "us-east-1", Bucket: "photos", Prefix: "faces", Secret: "store"}}
	return map[Kind]Object{
		KindTrainingTask: &TrainingTask{
			Meta: meta(MustInfo(KindTrainingTask), "GPT大模型分布式训练"),
			Spec: TrainingTaskSpec{
				Description: "说明", Framework: "plain",
				Strategy: &Strategy{
					StrategyHybrid, 2, 8, 4, 1, EngineDeepSpeed, ptr(1), OffloadCPU, 64, 4, 8, ControllerMPI, Duration(10 * time.Minute), "eth0",
				},
				Precision: PrecisionBF16, GradCompression: CompressPowerSGD,
				Roles: []Role{{
					Name: "worker", Replicas: 2, Ranks: 8, MinReplicas: ptr(2), MaxReplicas: ptr(2), Spares: 1,
					Resources: Resources{CPU: 1500, Memory: 16 << 30, Accelerators: Accelerators{"A100|H800", 1, 500}, SharedMemory: 1 << 30, EphemeralDisk: 100e9, Processes: 2048},
					Image:     "i", Command: []string{"python"}, Args: []string{"train.py"}, Env: []EnvVar{{"A", "1", &SecretRef{"s", "k"}}},
					SecretFiles: []SecretFile{{"f", "s", "k"}}, WorkingDir: "src", Standby: &Standby{true, []string{"torch"}}, Restart: RestartTask,
				}},
				Code:            &Code{"/home/li", "sha256:00", &Git{"https://example.org/a.git", "main", true, "hub"}, "requirements.txt"},
				HyperParameters: map[string]any{"lr": 0.1, "amp": true, "name": "x"},
				Restart:         &RestartPolicy{3, Duration(time.Hour), Duration(2 * time.Hour), Duration(time.Minute)}, Batch: BatchKeepGlobal, Priority: ptr(500), PriorityClass: "training", Queue: "default",
				Zones: &ZoneRules{
					[]string{"beijing-1"}, []string{"shenzhen-1"}, where.Split{"beijing-1": where.Exactly(2), "shanghai-1": {Least: 1, Most: 4}}, true, true, Duration(2 * time.Millisecond), RegionRequire, spot.Prefer,
					[]DataPlace{{2 << 40, []string{"beijing-1"}}}, &where.Weights{Price: 3, Carbon: 1, Latency: 2}, true,
				},
				Topology: &Topology{Mode: TopologyBounded, MaxPerRack: 2}, ExpectedTime: Duration(6 * time.Hour), Deadline: &at, Preemptible: true, Deferrable: DeferGreen,
				Checkpoint: &Checkpoints{
					&CheckpointTier{true, Duration(time.Minute), 100, &CheckpointKeep{2, 1000, &CheckpointBest{"loss", OrderMin, 2}}}, &CheckpointTier{true, Duration(time.Hour), 1000, &CheckpointKeep{3, 5000, &CheckpointBest{"acc", OrderMax, 1}}}, &CheckpointFrom{"source", 40, true}, true, true, "ckpt", "auto",
				},
				Timeouts: &Timeouts{Duration(time.Hour), Duration(24 * time.Hour), Duration(30 * time.Second)},
				Image:    "image", Datasets: []AssetRef{{Name: "corpus", Version: "v1", Path: "data", Settled: mount.Settled{Digest: "00", Size: 9, Source: lies}}}, Models: []AssetRef{{Name: "base", Version: "v2", Path: "model", Settled: mount.Settled{Digest: "01", Size: 8, Source: lies}}},
				Outputs: &Outputs{mount.Leaves{Model: &mount.Output{Name: "model", Path: "final", Alias: "candidate"}, Dataset: &mount.Output{Name: "answers", Path: "answers", Alias: "none"}}, "logs", Duration(720 * time.Hour)}, Credentials: []CredentialRef{{"hub"}}, Stop: true, Restore: &Rewind{"0000000000000000002-0000000000000000040", 40, 1, 2, at}, Preflight: PreflightWarn, Stragglers: StragglersReplace,
				Inside: []string{"env-1", "env-2"},
			},
			Status: TrainingTaskStatus{
				Phase: PhaseFailed, Reason: "ExitedNonZero", Message: text, Attempt: 2, Generation: 2, From: &CheckpointOrigin{"task-source", "0000000000000000001-0000000000000000040", 40}, Rendezvous: &Rendezvous{"00", "127.0.0.1:29500", 16, 7, &CheckpointOrigin{"task-1", "0000000000000000001-0000000000000000007", 7}, []int{29501}, []string{"100.64.4.2"}, map[string]int{"worker": 5}, []int{2}, []Seat{{4, 1}}, []int{1}, []int{3}, []int{2, 1}}, Restarts: []time.Time{at},
				PlacedAt: &at, StartedAt: &at, FinishedAt: &at, Replicas: ReplicaCount{2, 1, 1, 1, 1}, Spares: []SpareStatus{{2, "n2", SpareWarm}},
				Failure:  &ReplicaFailure{"task-1-worker-0-2", "worker", 0, ptr(3), "node-1", 1, "SIGKILL", "Signaled", text, at, "killed", "restart", "line", text, 7, 2, "00"},
				ExitCode: ptr(137), Zones: []string{"beijing-1"},
				Preflight: &PreflightStatus{at, &at, 3, 0.5, 1 << 30, DevicesTested, map[string]string{"torch": "2.1.0"}, []PreflightFinding{{"torch", text}}, 2, []roundtrip.Crossing{{From: "beijing-1", To: "shanghai-1", LatencyMs: 12.5, SlowestMs: 14, Pairs: 3, FromNode: "bj1-n01", ToNode: "sh1-n02", OneMachine: true}}},
				Roles:     []RoleStatus{{"reward", 2, 3, &Rendezvous{"00", "127.0.0.1:29501", 2, 7, &CheckpointOrigin{"task-1", "0000000000000000001-0000000000000000007", 7}, []int{29502}, []string{"100.64.4.3"}, map[string]int{"reward": 2}, []int{1}, []Seat{{1, 1}}, []int{1}, []int{1}, []int{1}}}},
				Pace:      &Pace{at, 7, Duration(time.Second), 64, 4096, 1e12, 0.5, 0.1, 65536, 3},
				Use:       &Use{at, 4, 3.5, 0.9, 1 << 30, 2, 0.8, 1 << 33, 1 << 36, 9, 8, 1 << 20, &Scaling{0.95, 1, "small"}},
				TaskFigures: TaskFigures{
					&Interruptions{1, map[string]int{"killed": 1}, 3, 1, Duration(6 * time.Second), 1, map[string]Duration{"start": Duration(time.Second)}, []Recovery{{"killed", "restart", "task-1-worker-0-2", ptr(3), "node-1", "worker", 2, RecoverySteps{10, 9, 7, ptr(int64(2)), true, true, true, 3, "shared"}, at, at, &at, &at, &at, &at, &at}}},
					&TimeUse{at, at, TimeStalled, map[TimeKind]Duration{TimeEffective: Duration(time.Hour)}, 10, 2, Duration(time.Second), &moment.Mark{At: at, Boot: "boot", Up: Duration(time.Hour), Moved: Duration(time.Minute)}}, &SavedStep{8, at}, mount.Left{Model: &mount.Made{Name: "model", Version: 3, Reason: "NoOutput", Message: text}, Dataset: &mount.Made{Name: "answers", Version: 4, Reason: "NoOutput", Message: text}},
				},
				Intervals:  []SaveInterval{{MemoryTier, 40, Duration(8 * time.Second), 0.0015, text}},
				InUseBy:    "train-1",
				Faults:     []PastFault{{at, 2, "worker", "node-1", "rack-1", "leaf-1", "beijing-1", "device-lost", true, "00", 7}},
				Stragglers: []Straggler{{3, "task-1-worker-0-2", "worker", "node-1", Duration(time.Second), Duration(time.Second / 2), 16, 2, at, true}},
			},
		},
		KindSecret: &Secret{
			Meta:   meta(MustInfo(KindSecret), "密钥"),
			Spec:   SecretSpec{"说明", SecretRegistry, map[string]string{"k": "v"}, map[string]string{"k": "v1:AAAA"}},
			Status: SecretStatus{[]string{"k"}},
		},
		KindPlacement: &Placement{
			Meta: meta(MustInfo(KindPlacement), "放置"),
			Spec: PlacementSpec{
				"task-0123456789abcdefghjk", 1, []RoleAssignment{{"worker", Slots{{1, 0xff}, {12500, 1 << 63}}, []int{1, 2}, 3}}, at,
				&Eviction{"Moved", fault.T("It left.", "已让出。"), at, Duration(2 * time.Minute), []RoleAssignment{{"worker", Slots{{2, 0xff}, {3, 1}}, []int{3, 4}, 5}}},
				&Shrinking{"Preempted", fault.T("Fewer.", "缩容。"), at, []RoleAssignment{{"worker", Slots{{1, 0xff}}, []int{1}, 3}}},
				&Loss{at, map[string]int{"worker": 1}, []uint32{3}, "rack", 3}, []Lender{{"env-1", "task-1", "worker", 2}},
			},
		},
		KindZone: &Zone{
			Meta: meta(MustInfo(KindZone), "北京-1"),
			Spec: ZoneSpec{
				Region: "北京", Engine: "local", LatencyMs: map[string]float64{"shanghai-1": 28.5}, LatencyP99Ms: map[string]float64{"shanghai-1": 40},
				Roads: way.Roads{BandwidthGbps: map[string]float64{"shanghai-1": 100}, Ways: map[string]way.Way{"shanghai-1": {Network: "10.20.0.0/16", Encrypted: true}}}, ConsoleLatencyMs: 5, UTCOffset: "+08:00",
				Price: Price{
					"CNY", ptr(12.5), map[string]float64{"H800": 20}, ptr(0.1), 0.05, 0.3, 0.4, []PriceWindow{{"22:00", "06:00", 0.5}},
				},
				PUE: 1.25, Carbon: &Carbon{ptr(556.8), []float64{500}}, DeviceWatts: map[string]float64{"A100": 380},
				Health: ZoneDegraded, HealthReason: "检修", Virtual: true, Outage: true,
			},
			Status: ZoneStatus{ZoneDegraded, "SetByHand", text, 24, 23, 192, at, map[string]MeasuredLatency{"shanghai-1": {P50Ms: 27.5, P99Ms: 39, Samples: 1000, At: at, FromNode: "bj1-n01", ToNode: "sh1-n02", Task: "lab/first", Stale: true}}},
		},
		KindNode: &Node{
			Meta: meta(MustInfo(KindNode), "节点"),
			Spec: NodeSpec{7, "beijing-1", "r1", "l1", true, []int{3}, true, []card.DeviceOrder{{Device: 3, Order: card.OrderFault, Kind: "xid-79", Heal: true, At: at}}, 128000, 1 << 40, 1 << 41, []Device{{0, "GPU-1", "0000:3b:00.0", "NVIDIA", "A100", 80 << 30, "i0", true}}, true, joined.Spec{Spot: true, Agent: &joined.Agent{ID: "id", MachineID: "machine", Labels: map[string]string{"rack": "r1"}}}, true},
			Status: NodeStatus{true, "Ready", text, "boot", "linux", "cgroup-v2", "single", joined.Status{Agent: &joined.AgentStatus{Forward: "10.0.0.2:7073", Version: "v1.0", Address: "10.0.0.2", Addresses: []string{"10.0.0.2", "10.20.0.2"}, Tunnel: &joined.Tunnel{Key: "key=", Port: 7074}, Upgrade: &joined.Upgrade{ID: "up", Version: "v1.1", Digest: "00", State: joined.UpgradeFailed, Message: text, At: at}}}, []LauncherVersion{{"v1.0", 2}}, &OtherUse{2000, 1 << 30, []int{2}}, []card.DeviceHealth{{
				Device: 3, State: card.DeviceOut, Since: at, Reason: "xid-79", ClosedAt: &at, MendedAt: &at, Message: text,
				Conditions: []card.DeviceCondition{{Kind: "lost", Action: card.ActionRestart, Since: at, Value: 1, Message: text}},
				Test:       &card.DeviceTest{At: at, Passed: true, How: "tested", Message: text},
				Faults:     []card.DeviceFault{{Kind: "xid-79", Action: card.ActionRestart, Source: card.FaultOfKernel, At: at, Closed: true, Message: text}},
				Total:      4, Counted: card.DeviceCounts{ECC: 1, Pages: 2, Rows: 3, NVLink: 4, Fatal: 5, Errors: 6}, Log: card.LogMark{Boot: "boot", Sequence: 77}, Ordered: &at,
			}}, 2, hold.List{{Replica: "task-1-worker-0-1", Owner: "task-1", Name: "train", Project: "lab", Devices: []int{1}, Reason: hold.Silent, Heard: at, Since: at, BootID: "boot", Released: true}}},
		},
		KindQueue: &Queue{
			Meta:   meta(MustInfo(KindQueue), "默认队列"),
			Spec:   QueueSpec{true, 1000, "root", map[string]int{"A100": 8}, 2, map[string]int{"A100": 16}, []string{"lab"}, &where.Weights{Price: 1, Carbon: 2, Latency: 3}, true},
			Status: QueueStatus{3, 4, 1, 2},
		},
		KindProject: &Project{Meta: meta(MustInfo(KindProject), "默认项目"), Spec: ProjectSpec{"说明", "default", []string{"admin"}, 1000, &ProjectLimits{1, 2, 3, 4, 5, 6, 7, 8}, []string{"owner"}, []string{"team"}, &quota.Environments{Running: 1, Devices: 2, Storage: 3}}, Status: ProjectStatus{1900000000, 1, &ProjectUsage{Logs: 1, Outputs: 2, Archives: 3, Checkpoints: 4, Assets: 5, Images: 6, Objects: 7, Secrets: 8}}},
		KindUser:    &User{Meta: meta(MustInfo(KindUser), "管理员"), Spec: UserSpec{RoleAdmin, true, &quota.Environments{Running: 4, Devices: -1, Storage: 5}}, Status: UserStatus{"$argon2id$", &at, 2, []terminal.Key{{ID: "0123456789ab", Name: "laptop", Key: "ssh-ed25519 AAAA", Fingerprint: "SHA256:x", AddedAt: at}}}},
		KindToken:   &Token{Meta: meta(MustInfo(KindToken), "令牌"), Spec: TokenSpec{"admin", "00", &at, "task-1", ScopeTasks, []string{"default"}, &KeyLimits{RequestsPerMinute: 60, TokensPerMinute: 1000, RequestsPerMonth: 100, TokensPerMonth: 1000000}, UseSession, "user-1.2", &at, &at}},
	}
}

func TestGolden(t *testing.T) {
	objects := whole()
	for _, info := range Kinds {
		t.Run(string(info.Kind), func(t *testing.T) {
			o, ok := objects[info.Kind]
			if !ok {
				t.Fatal("the test has no object of this kind")
			}
			full(t, string(info.Kind), reflect.ValueOf(o).Elem())
			var buf bytes.Buffer
			enc := json.NewEncoder(&buf)
			enc.SetIndent("", "  ")
			if err := enc.Encode(o); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", info.Singular+".json")
			if *update {
				if err := os.WriteFile(path, buf.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), buf.String()); diff != "" {
				t.Errorf("the JSON changed (-golden +now); run with -update if that is meant:\n%s", diff)
			}
			back, err := Decode(info.Kind, want)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(o, back); diff != "" {
				t.Errorf("decoded again (-was +is):\n%s", diff)
			}
		})
	}
}

// full fails on a field that the golden object leaves empty. An index may be 0; a project is for kinds that have one.
func full(t *testing.T, path string, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			full(t, path, v.Elem())
			return
		}
	case reflect.Struct:
		if v.Type() != timeType {
			for i := range v.NumField() {
				full(t, path+"."+v.Type().Field(i).Name, v.Field(i))
			}
			return
		}
	case reflect.Slice:
		for i := range v.Len() {
			full(t, path, v.Index(i))
		}
	}
	if v.IsZero() && !strings.HasSuffix(path, ".Index") && !strings.HasSuffix(path, ".Meta.Project") {
		t.Errorf("%s is not set in the golden object", path)
	}
}

func TestKindsTable(t *testing.T) {
	words := map[string]Kind{}
	for _, info := range Kinds {
		if got := info.New().Kind(); got != info.Kind {
			t.Errorf("%s: New makes a %s", info.Kind, got)
		}
		if _, ok := info.New().(Validator); !ok {
			t.Errorf("%s has no Validate", info.Kind)
		}
		for _, w := range append([]string{info.Singular, info.Plural}, info.Aliases...) {
			if other, taken := words[w]; taken && other != info.Kind {
				t.Errorf("the word %q means both %s and %s", w, other, info.Kind)
			}
			words[w] = info.Kind
		}
		page := filepath.Join("..", "..", "docs", "kinds", info.Singular+".md")
		if _, err := os.Stat(page); err != nil {
			t.Errorf("%s has no page: %v", info.Kind, err)
		}
	}
	if _, ok := InfoOf("Nothing"); ok {
		t.Error("a kind that does not exist has a row")
	}
}

func TestTaskPhases(t *testing.T) {
	for from, next := range TaskPhases {
		if from.Finished() && (len(next) != 1 || next[0] != PhasePending) {
			t.Errorf("%q: only a restore leads out of it, and to waiting", from)
		}
		for _, to := range next {
			if _, ok := TaskPhases[to]; !ok {
				t.Errorf("%q leads to %q, which has no row", from, to)
			}
		}
	}
}

func TestKey(t *testing.T) {
	if got := KeyOf(&Zone{Meta: Meta{Name: "a"}}).String(); got != "Zone/a" {
		t.Error(got)
	}
	if got := KeyOf(&TrainingTask{Meta: Meta{Name: "a", Project: "p"}}).String(); got != "TrainingTask/p/a" {
		t.Error(got)
	}
}
