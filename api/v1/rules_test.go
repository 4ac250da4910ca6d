package v1

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fermi-cluster/fermi/api/v1/mount"
	"github.com/fermi-cluster/fermi/api/v1/where"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func fixed(n int) string { return strings.Repeat("7x2k9", n/5+1)[:n] }

func task(change func(*TrainingTask)) Object {
	t := &TrainingTask{Meta: Meta{Name: "t"}, Spec: TrainingTaskSpec{Roles: []Role{{Command: []string{"true"}}}}}
	change(t)
	return t
}

func zone(change func(*ZoneSpec)) Object {
	z := &Zone{Meta: Meta{Name: "z"}, Spec: ZoneSpec{Region: "北京"}}
	change(&z.Spec)
	return z
}

func node(change func(*NodeSpec)) Object {
	n := &Node{Meta: Meta{Name: "n"}, Spec: NodeSpec{Zone: "z", CPU: 1000, Memory: 1 << 30, Devices: []Device{{Index: 0, Type: "A100"}, {Index: 1, Type: "A100"}}}}
	change(&n.Spec)
	return n
}

func meta(change func(*Meta)) Object {
	return task(func(t *TrainingTask) { change(&t.Meta) })
}

func role(change func(*Role)) Object {
	return task(func(t *TrainingTask) { change(&t.Spec.Roles[0]) })
}

func spec(change func(*TrainingTaskSpec)) Object {
	return task(func(t *TrainingTask) { change(&t.Spec) })
}

func ptr[T any](v T) *T { return &v }

func words(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("w%d", i)
	}
	return out
}

func TestPrepareDefaults(t *testing.T) {
	o := &TrainingTask{
		Meta: Meta{DisplayName: "BERT中文预训练"},
		Spec: TrainingTaskSpec{Roles: []Role{
			{Command: []string{"true"}},
			{Name: "ps", Command: []string{"true"}, Resources: Resources{Accelerators: Accelerators{Count: 2}}},
		}},
	}
	if err := Prepare(o, fixed); err != nil {
		t.Fatal(err)
	}
	want := &TrainingTask{
		Meta: Meta{Name: "bert-7x2k9", DisplayName: "BERT中文预训练", Project: "default"},
		Spec: TrainingTaskSpec{
			Framework: "plain",
			Roles: []Role{
				{Name: "worker", Replicas: 1, Command: []string{"true"}, Resources: Resources{CPU: 1000, Memory: 1 << 30}},
				{Name: "ps", Replicas: 1, Command: []string{"true"}, Resources: Resources{CPU: 8000, Memory: 32 << 30, Accelerators: Accelerators{Count: 2}}},
			},
			Restart:  &RestartPolicy{Window: Duration(time.Hour)},
			Timeouts: &Timeouts{StopGrace: Duration(30 * time.Second)},
			Priority: ptr(500),
		},
	}
	if diff := cmp.Diff(want, o); diff != "" {
		t.Error(diff)
	}
	// Twice changes nothing.
	if err := Prepare(o, func(int) string { t.Error("asked for a name again"); return "" }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, o); diff != "" {
		t.Error(diff)
	}
}

func TestPrepareOtherKinds(t *testing.T) {
	tests := []struct{ in, want Object }{
		{
			&Zone{Meta: Meta{Name: "beijing-1", DisplayName: "北京-1"}, Spec: ZoneSpec{Region: "北京", Price: Price{DeviceHour: ptr(1.0)}}},
			&Zone{Meta: Meta{Name: "beijing-1", DisplayName: "北京-1"}, Spec: ZoneSpec{Region: "北京", Engine: "local", Price: Price{DeviceHour: ptr(1.0), Currency: "CNY"}}},
		},
		{&Queue{Meta: Meta{Name: "q"}}, &Queue{Meta: Meta{Name: "q", DisplayName: "q"}, Spec: QueueSpec{MaxPending: 100000}}},
		{&Project{Meta: Meta{Name: "p"}}, &Project{Meta: Meta{Name: "p", DisplayName: "p"}, Spec: ProjectSpec{Queue: "default"}}},
		{&User{Meta: Meta{DisplayName: "李"}}, &User{Meta: Meta{Name: "user-7x2k9", DisplayName: "李"}, Spec: UserSpec{Role: RoleMember}}},
	}
	for _, tc := range tests {
		if err := Prepare(tc.in, fixed); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(tc.want, tc.in); diff != "" {
			t.Error(diff)
		}
	}
}

func TestPrepareAccepts(t *testing.T) {
	for i, o := range []Object{
		role(func(r *Role) { r.MinReplicas, r.MaxReplicas, r.Replicas = ptr(3), ptr(3), 3 }),
		role(func(r *Role) { r.MinReplicas, r.MaxReplicas, r.Replicas = ptr(1), ptr(9), 3 }),
		spec(func(s *TrainingTaskSpec) {
			s.Restart, s.Batch = &RestartPolicy{MaxRestarts: 3, Interval: Duration(time.Hour), RdzvTimeout: Duration(10 * time.Minute)}, BatchRescaleLR
		}),
		role(func(r *Role) {
			r.Resources = Resources{CPU: 1, Memory: 1 << 20, SharedMemory: 1 << 20, EphemeralDisk: 1 << 40}
		}),
		role(func(r *Role) { r.WorkingDir = "src/train" }),
		spec(func(s *TrainingTaskSpec) { s.Priority, s.PriorityClass = ptr(1000), "inference" }),
		spec(func(s *TrainingTaskSpec) { s.Priority = ptr(0) }),
		spec(func(s *TrainingTaskSpec) { s.Code = &Code{Archive: "sha256:" + strings.Repeat("0a", 32)} }),
		spec(func(s *TrainingTaskSpec) { s.Code = &Code{Folder: "/home/李/a b"} }),
		spec(func(s *TrainingTaskSpec) { s.Code = &Code{Folder: "home"} }), spec(func(s *TrainingTaskSpec) { s.Code = &Code{Folder: "home/李/a b"} }),
		spec(func(s *TrainingTaskSpec) { s.Description = "两行\n说明" }),
		meta(func(m *Meta) { m.DisplayName = "全球翻译推理服务" }),
		meta(func(m *Meta) { m.DisplayName = "family 👨‍👩‍👧 é" }),
		meta(func(m *Meta) { m.Labels = map[string]string{"example.com/a.b_c": "值 1"} }),
		meta(func(m *Meta) { m.Labels = map[string]string{strings.Repeat("a", 63): ""} }),
		node(func(*NodeSpec) {}),
		&Token{Meta: Meta{Name: "t"}, Spec: TokenSpec{User: "admin", Hash: strings.Repeat("a", 64)}},
		&Placement{Meta: Meta{Name: "t"}, Spec: PlacementSpec{TaskID: "task-1", Attempt: 1, Roles: []RoleAssignment{{Role: "worker", Slots: Slots{{1, 1}}}}}},
	} {
		if err := Prepare(o, fixed); err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
}

func TestPrepareRefuses(t *testing.T) {
	const res = "spec.roles[0].resources"
	tests := []struct {
		name string
		o    Object
		path string
		says string
	}{
		{"no name", &Zone{Spec: ZoneSpec{Region: "a"}}, "metadata.name", "displayName"},
		{"capital", meta(func(m *Meta) { m.Name = "GPT" }), "metadata.name", "lower-case"},
		{"dash", meta(func(m *Meta) { m.Name = "a-" }), "metadata.name", "both ends"},
		{"long", meta(func(m *Meta) { m.Name = strings.Repeat("a", 64) }), "metadata.name", "63"},
		{"an id", meta(func(m *Meta) { m.Name = "task-0123456789abcdefghjk" }), "metadata.name", "id"},
		{"project name", meta(func(m *Meta) { m.Project = "a b" }), "metadata.project", "name"},
		{"project of a zone", &Zone{Meta: Meta{Name: "z", Project: "p"}, Spec: ZoneSpec{Region: "a"}}, "metadata.project", "whole cluster"},
		{"owner", meta(func(m *Meta) { m.Owner = "a\n" }), "metadata.owner", "user"},
		{"display long", meta(func(m *Meta) { m.DisplayName = strings.Repeat("长", 129) }), "metadata.displayName", "129"},
		{"display control", meta(func(m *Meta) { m.DisplayName = "a\x07" }), "metadata.displayName", "U+0007"},
		{"display bidi", meta(func(m *Meta) { m.DisplayName = "a\u202eb" }), "metadata.displayName", "U+202E"},
		{"display isolate", meta(func(m *Meta) { m.DisplayName = "a\u2066b" }), "metadata.displayName", "U+2066"},
		{"display mark", meta(func(m *Meta) { m.DisplayName = "a\u200fb" }), "metadata.displayName", "U+200F"},
		{"display arabic mark", meta(func(m *Meta) { m.DisplayName = "a\u061cb" }), "metadata.displayName", "U+061C"},
		{"display line", meta(func(m *Meta) { m.DisplayName = "a\u2028b" }), "metadata.displayName", "U+2028"},
		{"display zero width", meta(func(m *Meta) { m.DisplayName = "\u200b\u200d\ufeff" }), "metadata.displayName", "visible"},
		{"display filler", meta(func(m *Meta) { m.DisplayName = "\u3164" }), "metadata.displayName", "visible"},
		{"display space", meta(func(m *Meta) { m.DisplayName = " a" }), "metadata.displayName", "space"},
		{"display wide space", meta(func(m *Meta) { m.DisplayName = "a　" }), "metadata.displayName", "space"},
		{"display bytes", meta(func(m *Meta) { m.DisplayName = "a\xff" }), "metadata.displayName", "UTF-8"},
		{"label key", meta(func(m *Meta) { m.Labels = map[string]string{"团队": "a"} }), `metadata.labels["团队"]`, "label key"},
		{"label prefix", meta(func(m *Meta) { m.Labels = map[string]string{"A/b": "a"} }), `metadata.labels["A/b"]`, "label key"},
		{"label long key", meta(func(m *Meta) { m.Labels = map[string]string{"a/" + strings.Repeat("b", 64): "a"} }), `metadata.labels["a/` + strings.Repeat("b", 58) + `…"]`, "63"},
		{"label value", meta(func(m *Meta) { m.Labels = map[string]string{"a": strings.Repeat("长", 257)} }), "metadata.labels.a", "256"},
		{"label count", meta(func(m *Meta) {
			m.Labels = map[string]string{}
			for _, w := range words(65) {
				m.Labels[w] = ""
			}
		}), "metadata.labels", "65"},

		{"description", spec(func(s *TrainingTaskSpec) { s.Description = strings.Repeat("长", 4097) }), "spec.description", "4097"},
		{"description control", spec(func(s *TrainingTaskSpec) { s.Description = "a\x00" }), "spec.description", "U+0000"},
		{"strategy unknown", spec(func(s *TrainingTaskSpec) { s.Strategy = &Strategy{Kind: "tensors"} }), "spec.strategy.kind", "Did you mean tensor?"},
		{"strategy size", spec(func(s *TrainingTaskSpec) { s.Strategy = &Strategy{Tensor: -1} }), "spec.strategy.tensor", "1 to 1048576"},
		{"strategy zero", spec(func(s *TrainingTaskSpec) { s.Strategy = &Strategy{ZeroStage: ptr(4)} }), "spec.strategy.zeroStage", "0 to 3"},
		{"strategy offload", spec(func(s *TrainingTaskSpec) { s.Strategy = &Strategy{Offload: "disk"} }), "spec.strategy.offload", "use one of none, cpu"},
		{"strategy engine", spec(func(s *TrainingTaskSpec) { s.Strategy = &Strategy{Engine: "zero"} }), "spec.strategy.engine", "deepspeed"},
		{"strategy controller", spec(func(s *TrainingTaskSpec) { s.Strategy = &Strategy{Controller: "x"} }), "spec.strategy.controller", "gloo, mpi"},
		{"strategy timeout", spec(func(s *TrainingTaskSpec) { s.Strategy = &Strategy{CollectiveTimeout: -1} }), "spec.strategy.collectiveTimeout", "out of range"},
		{"strategy interface", spec(func(s *TrainingTaskSpec) { s.Strategy = &Strategy{NetworkInterface: "eth0; rm"} }), "spec.strategy.networkInterface", "such as eth0"},
		{"precision", spec(func(s *TrainingTaskSpec) { s.Precision = "bf61" }), "spec.precision", "Did you mean bf16?"},
		{"compression", spec(func(s *TrainingTaskSpec) { s.GradCompression = "zip" }), "spec.gradCompression", "powersgd"},
		{"framework unknown", spec(func(s *TrainingTaskSpec) { s.Framework = "pytorch-dpp" }), "spec.framework", "Did you mean pytorch-ddp?"},
		{"no roles", spec(func(s *TrainingTaskSpec) { s.Roles = nil }), "spec.roles", "at least one role"},
		{"many roles", spec(func(s *TrainingTaskSpec) { s.Roles = make([]Role, 17) }), "spec.roles", "17"},
		{"role name", role(func(r *Role) { r.Name = "W" }), "spec.roles[0].name", "role name"},
		{"role name long", role(func(r *Role) { r.Name = strings.Repeat("w", 21) }), "spec.roles[0].name", "20"},
		{"role twice", spec(func(s *TrainingTaskSpec) { s.Roles = append(s.Roles, s.Roles[0]) }), "spec.roles[1].name", "own name"},
		{"replicas negative", role(func(r *Role) { r.Replicas = -1 }), "spec.roles[0].replicas", "1 to 16384"},
		{"replicas total", spec(func(s *TrainingTaskSpec) {
			s.Roles[0].Replicas = 16384
			s.Roles = append(s.Roles, Role{Name: "ps", Command: []string{"a"}})
		}), "spec.roles", "16384"},
		{"elastic framework", spec(func(s *TrainingTaskSpec) { s.Framework, s.Roles[0].MaxReplicas = "deepspeed", ptr(3) }), "spec.framework", "fixed number"},
		{"elastic roles", spec(func(s *TrainingTaskSpec) {
			s.Roles[0].MaxReplicas = ptr(3)
			s.Roles = append(s.Roles, Role{Name: "ps", Command: []string{"a"}, Restart: RestartRole})
		}), "spec.roles[0].maxReplicas", "one role"},
		{"elastic second role", spec(func(s *TrainingTaskSpec) {
			s.Roles = append(s.Roles, Role{Name: "ps", Replicas: 2, MinReplicas: ptr(1), Command: []string{"a"}})
		}), "spec.roles[1].minReplicas", "one role"},
		{"elastic split", spec(func(s *TrainingTaskSpec) {
			s.Roles[0].MaxReplicas, s.Zones = ptr(3), &ZoneRules{Split: where.Split{"a": where.Exactly(1)}}
		}), "spec.zones.split", "fixes"},
		{"batch", spec(func(s *TrainingTaskSpec) { s.Batch = "half" }), "spec.batch", "keepGlobal"},
		{"peer of one", spec(func(s *TrainingTaskSpec) { s.Checkpoint = &Checkpoints{Peer: true} }), "spec.checkpoint.peer", "no peer"},
		{"peer of many", spec(func(s *TrainingTaskSpec) {
			s.Checkpoint, s.Roles[0].Replicas = &Checkpoints{Peer: true}, MaxPeerReplicas+1
		}), "spec.checkpoint.peer", "1024"},
		{"peer and elastic", spec(func(s *TrainingTaskSpec) {
			s.Checkpoint, s.Roles[0].Replicas, s.Roles[0].MinReplicas = &Checkpoints{Peer: true}, 4, ptr(2)
		}), "spec.checkpoint.peer", "elastic"},
		{"peer of a role by itself", spec(func(s *TrainingTaskSpec) {
			s.Checkpoint = &Checkpoints{Peer: true}
			s.Roles = append(s.Roles, Role{Name: "reward", Command: []string{"true"}, Restart: RestartRole})
		}), "spec.checkpoint.peer", "by itself"},
		{"rdzv", spec(func(s *TrainingTaskSpec) { s.Restart = &RestartPolicy{RdzvTimeout: -1} }), "spec.restartPolicy.rdzvTimeout", "0s"},
		{"interval", spec(func(s *TrainingTaskSpec) { s.Restart = &RestartPolicy{Window: 1, Interval: 2} }), "spec.restartPolicy.interval", "one of the two"},
		{"cpu negative", role(func(r *Role) { r.Resources.CPU = -1 }), res + ".cpu", "-1m"},
		{"cpu absurd", role(func(r *Role) { r.Resources.CPU = 100_001_000 }), res + ".cpu", "100k"},
		{"memory unit forgotten", role(func(r *Role) { r.Resources.Memory = 16 }), res + ".memory", "did you mean 16Gi?"},
		{"memory negative", role(func(r *Role) { r.Resources.Memory = -1 << 30 }), res + ".memory", "-1Gi"},
		{"memory absurd", role(func(r *Role) { r.Resources.Memory = 1<<50 + 1 }), res + ".memory", "1Pi"},
		{"accelerators", role(func(r *Role) { r.Resources.Accelerators.Count = 65 }), res + ".accelerators.count", "0 to 64"},
		{"accelerators negative", role(func(r *Role) { r.Resources.Accelerators.Count = -1 }), res + ".accelerators.count", "-1"},
		{"accelerator type", role(func(r *Role) { r.Resources.Accelerators = Accelerators{Type: "A\n", Count: 1} }), res + ".accelerators.type", "printable"},
		{"accelerator alone", role(func(r *Role) { r.Resources.Accelerators.Type = "A100" }), res + ".accelerators.count", "how many"},
		{"shared memory", role(func(r *Role) { r.Resources.SharedMemory = 2 << 30 }), res + ".sharedMemory", "1Gi"},
		{"disk", role(func(r *Role) { r.Resources.EphemeralDisk = -1 }), res + ".ephemeralDisk", "0 to 1Pi"},
		{"no command", role(func(r *Role) { r.Command, r.Args = nil, []string{"a"} }), "spec.roles[0].command", "which program"},
		{"empty command", role(func(r *Role) { r.Command = []string{""} }), "spec.roles[0].command", "which program"},
		{"nul", role(func(r *Role) { r.Args = []string{"a", "b\x00"} }), "spec.roles[0].args[1]", "NUL"},
		{"long argument", role(func(r *Role) { r.Args = []string{strings.Repeat("a", 128<<10)} }), "spec.roles[0].args[0]", "131071"},
		{"long argv", role(func(r *Role) {
			for range 9 {
				r.Args = append(r.Args, strings.Repeat("a", 120<<10))
			}
		}), "spec.roles[0].args", "1048576"},
		{"env name", role(func(r *Role) { r.Env = []EnvVar{{Name: "1A", Value: ""}} }), "spec.roles[0].env[0].name", "digit"},
		{"env reserved", role(func(r *Role) { r.Env = []EnvVar{{Name: "FERMI_X", Value: ""}} }), "spec.roles[0].env[0].name", "platform"},
		{"env twice", role(func(r *Role) { r.Env = []EnvVar{{Name: "A", Value: ""}, {Name: "A", Value: ""}} }), "spec.roles[0].env[1].name", "twice"},
		{"env value", role(func(r *Role) { r.Env = []EnvVar{{Name: "A", Value: "\x00"}} }), "spec.roles[0].env[0].value", "NUL"},
		{"env count", role(func(r *Role) { r.Env = make([]EnvVar, 1001) }), "spec.roles[0].env", "1001"},
		{"env bytes", role(func(r *Role) {
			for _, w := range words(5) {
				r.Env = append(r.Env, EnvVar{Name: w, Value: strings.Repeat("a", 120<<10)})
			}
		}), "spec.roles[0].env", "524288"},
		{"git and folder", spec(func(s *TrainingTaskSpec) { s.Code = &Code{Folder: "/a", Git: &Git{URL: "https://h/p"}} }), "spec.code", "exactly one"},
		{"git option", spec(func(s *TrainingTaskSpec) { s.Code = &Code{Git: &Git{URL: "--upload-pack=touch /tmp/x"}} }), "spec.code.git.url", "address"},
		{"git ext", spec(func(s *TrainingTaskSpec) { s.Code = &Code{Git: &Git{URL: "ext::sh -c id"}} }), "spec.code.git.url", "address"},
		{"git file", spec(func(s *TrainingTaskSpec) { s.Code = &Code{Git: &Git{URL: "file:///etc"}} }), "spec.code.git.url", "address"},
		{"git host option", spec(func(s *TrainingTaskSpec) { s.Code = &Code{Git: &Git{URL: "ssh://-oProxyCommand=id/p"}} }), "spec.code.git.url", "address"},
		{"git password", spec(func(s *TrainingTaskSpec) { s.Code = &Code{Git: &Git{URL: "https://u:p@h/p"}} }), "spec.code.git.url", "password"},
		{"git plain secret", spec(func(s *TrainingTaskSpec) { s.Code = &Code{Git: &Git{URL: "http://example.org/p", Secret: "s"}} }), "spec.code.git.url", "https"},
		{"git revision", spec(func(s *TrainingTaskSpec) { s.Code = &Code{Git: &Git{URL: "git@h:p", Revision: "--output=x"}} }), "spec.code.git.revision", "branch"},
		{"git range", spec(func(s *TrainingTaskSpec) { s.Code = &Code{Git: &Git{URL: "git@h:p", Revision: "a..b"}} }), "spec.code.git.revision", "branch"},
		{"restart", role(func(r *Role) { r.Restart = "rol" }), "spec.roles[0].restart", "role"},
		{"all alone", role(func(r *Role) { r.Restart = RestartRole }), "spec.roles[0].restart", "Every role"},
		{"dir absolute", role(func(r *Role) { r.WorkingDir = "/a" }), "spec.roles[0].workingDir", "relative"},
		{"dir out", role(func(r *Role) { r.WorkingDir = "../a" }), "spec.roles[0].workingDir", "relative"},
		{"dir unclean", role(func(r *Role) { r.WorkingDir = "a/../../b" }), "spec.roles[0].workingDir", "relative"},
		{"requirements path", spec(func(s *TrainingTaskSpec) {
			s.Code = &Code{Folder: "/a", Requirements: "../r.txt"}
			s.Roles[0].Command = []string{"python"}
		}), "spec.code.requirements", "relative"},
		{"requirements command", spec(func(s *TrainingTaskSpec) {
			s.Code = &Code{Folder: "/a", Requirements: "r.txt"}
			s.Roles[0].Command = []string{"bash"}
		}), "spec.code.requirements", "begin with python"},
		{"requirements image", spec(func(s *TrainingTaskSpec) {
			s.Code, s.Image = &Code{Folder: "/a", Requirements: "r.txt"}, "train:v1"
			s.Roles[0].Command = []string{"/usr/bin/python3.11"}
		}), "spec.code.requirements", "own system only"},
		{"code none", spec(func(s *TrainingTaskSpec) { s.Code = &Code{} }), "spec.code", "exactly one"},
		{"code both", spec(func(s *TrainingTaskSpec) { s.Code = &Code{Folder: "/a", Archive: "b"} }), "spec.code", "exactly one"},
		{"code relative", spec(func(s *TrainingTaskSpec) { s.Code = &Code{Folder: "A/b"} }), "spec.code.folder", "absolute"},
		{"code folder that leads out", spec(func(s *TrainingTaskSpec) { s.Code = &Code{Folder: "home/../b"} }), "spec.code.folder", "NAME/path"},
		{"code folder with a slash at its end", spec(func(s *TrainingTaskSpec) { s.Code = &Code{Folder: "home/"} }), "spec.code.folder", "NAME/path"},
		{"code unclean", spec(func(s *TrainingTaskSpec) { s.Code = &Code{Folder: "/a/../b"} }), "spec.code.folder", "absolute"},
		{"code digest", spec(func(s *TrainingTaskSpec) { s.Code = &Code{Archive: "sha256:12"} }), "spec.code.archive", "64"},
		{"parameter list", spec(func(s *TrainingTaskSpec) { s.HyperParameters = map[string]any{"a": []any{1}} }), "spec.hyperParameters.a", "JSON"},
		{"parameter nan", spec(func(s *TrainingTaskSpec) { s.HyperParameters = map[string]any{"a": math.NaN()} }), "spec.hyperParameters.a", "finite"},
		{"parameter nil", spec(func(s *TrainingTaskSpec) { s.HyperParameters = map[string]any{"a": nil} }), "spec.hyperParameters.a", "finite"},
		{"parameter text", spec(func(s *TrainingTaskSpec) { s.HyperParameters = map[string]any{"a": "\x00"} }), "spec.hyperParameters.a", "NUL"},
		{"parameter name", spec(func(s *TrainingTaskSpec) { s.HyperParameters = map[string]any{"1a": 1} }), "spec.hyperParameters.1a", "parameter name"},
		{"parameter collision", spec(func(s *TrainingTaskSpec) { s.HyperParameters = map[string]any{"lr.a": 1, "lr_a": 1} }), "spec.hyperParameters.lr_a", "FERMI_HP_LR_A"},
		{"parameter file", spec(func(s *TrainingTaskSpec) { s.HyperParameters = map[string]any{"file": 1} }), "spec.hyperParameters.file", "FERMI_HP_FILE"},
		{"parameter count", spec(func(s *TrainingTaskSpec) {
			s.HyperParameters = map[string]any{}
			for _, w := range words(1001) {
				s.HyperParameters[w] = 1
			}
		}), "spec.hyperParameters", "1001"},
		{"restarts", spec(func(s *TrainingTaskSpec) { s.Restart = &RestartPolicy{MaxRestarts: 10001} }), "spec.restartPolicy.maxRestarts", "10000"},
		{"restarts negative", spec(func(s *TrainingTaskSpec) { s.Restart = &RestartPolicy{MaxRestarts: -1} }), "spec.restartPolicy.maxRestarts", "-1"},
		{"window", spec(func(s *TrainingTaskSpec) { s.Restart = &RestartPolicy{Window: -1} }), "spec.restartPolicy.window", "10 years"},
		{"priority", spec(func(s *TrainingTaskSpec) { s.Priority = ptr(10001) }), "spec.priority", "10000"},
		{"class", spec(func(s *TrainingTaskSpec) { s.PriorityClass = "trainig" }), "spec.priorityClass", "Did you mean training?"},
		{"contradiction", spec(func(s *TrainingTaskSpec) { s.PriorityClass, s.Priority = "training", ptr(400) }), "spec.priority", "contradicts"},
		{"queue", spec(func(s *TrainingTaskSpec) { s.Queue = "队列" }), "spec.queue", "name"},
		{"zone name", spec(func(s *TrainingTaskSpec) { s.Zones = &ZoneRules{Allow: []string{"北京-1"}} }), "spec.zones.allow[0]", "name"},
		{"zone twice", spec(func(s *TrainingTaskSpec) { s.Zones = &ZoneRules{Deny: []string{"a", "a"}} }), "spec.zones.deny[1]", "twice"},
		{"zone both", spec(func(s *TrainingTaskSpec) { s.Zones = &ZoneRules{Allow: []string{"a"}, Deny: []string{"a"}} }), "spec.zones.deny[0]", "both"},
		{"zones many", spec(func(s *TrainingTaskSpec) { s.Zones = &ZoneRules{Allow: words(1001)} }), "spec.zones.allow", "1001"},
		{"pending", spec(func(s *TrainingTaskSpec) { s.Timeouts = &Timeouts{Pending: -1} }), "spec.timeouts.pending", "0s"},
		{"run", spec(func(s *TrainingTaskSpec) { s.Timeouts = &Timeouts{Run: maxSpan + 1} }), "spec.timeouts.run", "10 years"},
		{"grace", spec(func(s *TrainingTaskSpec) { s.Timeouts = &Timeouts{StopGrace: -1} }), "spec.timeouts.stopGrace", "0s"},
		{"image", spec(func(s *TrainingTaskSpec) { s.Image = "Team/Train:v1" }), "spec.image", "is not the name of an image: use name:tag"},
		{"image of a role", spec(func(s *TrainingTaskSpec) { s.Roles[0].Image = "https://x/y" }), "spec.roles[0].image", "or host for the node's own system"},
		{"long image", spec(func(s *TrainingTaskSpec) { s.Image = strings.Repeat("a/", 300) + "b" }), "spec.image", "is not the name of an image"},
		{"datasets", spec(func(s *TrainingTaskSpec) { s.Datasets = []AssetRef{{Name: "a", Path: "/etc/a"}} }), "spec.datasets[0].path", "below /data"},
		{"models", spec(func(s *TrainingTaskSpec) { s.Models = []AssetRef{{Name: "A", Path: "/models/a"}} }), "spec.models[0].name", "not the name"},
		{"output model", spec(func(s *TrainingTaskSpec) { s.Outputs = &Outputs{Leaves: mount.Leaves{Model: &mount.Output{Name: "A"}}} }), "spec.outputs.model.name", "not the name"},
		{"checkpoint folder", spec(func(s *TrainingTaskSpec) { s.Checkpoint = &Checkpoints{Folder: "/ckpt"} }), "spec.checkpoint.folder", "relative"},
		{"checkpoint folder itself", spec(func(s *TrainingTaskSpec) { s.Checkpoint = &Checkpoints{Folder: "."} }), "spec.checkpoint.folder", "not the directory itself"},
		{"checkpoint folder nowhere", spec(func(s *TrainingTaskSpec) {
			s.Checkpoint = &Checkpoints{Folder: "ckpt", Local: &CheckpointTier{Disabled: true}, Shared: &CheckpointTier{Disabled: true}}
		}), "spec.checkpoint.folder", "no place to go"},
		{"checkpoint folder and peer", spec(func(s *TrainingTaskSpec) {
			s.Checkpoint, s.Roles[0].Replicas = &Checkpoints{Folder: "ckpt", Peer: true}, 2
		}), "spec.checkpoint.folder", "one or the other"},
		{"instant and folder", spec(func(s *TrainingTaskSpec) { s.Checkpoint = &Checkpoints{Folder: "ckpt", Instant: "auto"} }), "spec.checkpoint.instant", "one or the other"},
		{"instant of no kind", spec(func(s *TrainingTaskSpec) { s.Checkpoint = &Checkpoints{Instant: "always"} }), "spec.checkpoint.instant", "give auto"},
		{"checkpoint auto and folder", spec(func(s *TrainingTaskSpec) { s.Checkpoint = &Checkpoints{Folder: "ckpt", Auto: true} }), "spec.checkpoint.auto", "one or the other"},
		{"checkpoint auto alone", spec(func(s *TrainingTaskSpec) {
			s.Roles = append(s.Roles, s.Roles[0])
			s.Roles[0].Name, s.Roles[1].Name, s.Roles[1].Restart, s.Checkpoint = "a", "b", RestartRole, &Checkpoints{Auto: true}
		}), "spec.checkpoint.auto", "no interval in common"},
		{"output dataset", spec(func(s *TrainingTaskSpec) {
			s.Outputs = &Outputs{Leaves: mount.Leaves{Dataset: &mount.Output{Name: "a", Path: "../x"}}}
		}), "spec.outputs.dataset.path", "relative"},
		{"output dataset's alias", spec(func(s *TrainingTaskSpec) {
			s.Outputs = &Outputs{Leaves: mount.Leaves{Dataset: &mount.Output{Name: "a", Alias: "b"}}}
		}), "spec.outputs.dataset.alias", "no aliases"},
		{"output logs", spec(func(s *TrainingTaskSpec) { s.Outputs = &Outputs{Logs: "/var"} }), "spec.outputs.logs", "relative"},
		{"output keep", spec(func(s *TrainingTaskSpec) { s.Outputs = &Outputs{Keep: -1} }), "spec.outputs.keep", "10 years"},

		{"region", zone(func(s *ZoneSpec) { s.Region = "" }), "spec.region", "required"},
		{"engine", zone(func(s *ZoneSpec) { s.Engine = "x" }), "spec.engine", "local"},
		{"latency", zone(func(s *ZoneSpec) { s.LatencyMs = map[string]float64{"a": -1} }), "spec.latencyMs.a", "0 to"},
		{"latency nan", zone(func(s *ZoneSpec) { s.LatencyMs = map[string]float64{"a": math.NaN()} }), "spec.latencyMs.a", "0 to"},
		{"latency name", zone(func(s *ZoneSpec) { s.LatencyMs = map[string]float64{"A": 1} }), "spec.latencyMs.A", "name"},
		{"console", zone(func(s *ZoneSpec) { s.ConsoleLatencyMs = math.Inf(1) }), "spec.consoleLatencyMs", "0 to"},
		{"price", zone(func(s *ZoneSpec) { s.Price.DeviceHour = ptr(-0.1) }), "spec.price.deviceHour", "-0.1"},
		{"price core", zone(func(s *ZoneSpec) { s.Price.CoreHour = ptr(math.Inf(1)) }), "spec.price.coreHour", "0 to"},
		{"price memory", zone(func(s *ZoneSpec) { s.Price.MemoryGBHour = math.NaN() }), "spec.price.memoryGBHour", "0 to"},
		{"currency", zone(func(s *ZoneSpec) { s.Price.Currency = "元" }), "spec.price.currency", "CNY"},
		{"health", zone(func(s *ZoneSpec) { s.Health = "ill" }), "spec.health", "degraded"},
		{"health reason", zone(func(s *ZoneSpec) { s.HealthReason = "x" }), "spec.healthReason", "health"},

		{"node zone", node(func(s *NodeSpec) { s.Zone = "" }), "spec.zone", "required"},
		{"node cpu", node(func(s *NodeSpec) { s.CPU = 0 }), "spec.cpu", "1m"},
		{"node memory", node(func(s *NodeSpec) { s.Memory = 0 }), "spec.memory", "1Mi"},
		{"node disk", node(func(s *NodeSpec) { s.Disk = -1 }), "spec.disk", "0 or more"},
		{"node rack", node(func(s *NodeSpec) { s.Rack = "a\t" }), "spec.rack", "printable"},
		{"devices", node(func(s *NodeSpec) { s.Devices = make([]Device, 65) }), "spec.devices", "64"},
		{"device index", node(func(s *NodeSpec) { s.Devices[1].Index = 0 }), "spec.devices[1].index", "place in the list"},
		{"device type", node(func(s *NodeSpec) { s.Devices[0].Type = "" }), "spec.devices[0].type", "required"},
		{"device uuid", node(func(s *NodeSpec) { s.Devices[0].UUID, s.Devices[1].UUID = "a", "a" }), "spec.devices[1].uuid", "own"},
		{"device memory", node(func(s *NodeSpec) { s.Devices[0].Memory = -1 }), "spec.devices[0].memory", "0 to"},

		{"queue size", &Queue{Meta: Meta{Name: "q"}, Spec: QueueSpec{MaxPending: -1}}, "spec.maxPending", "-1"},
		{"queue weight", &Queue{Meta: Meta{Name: "q"}, Spec: QueueSpec{Weight: -1}}, "spec.weight", "1 to"},
		{"members", &Project{Meta: Meta{Name: "p"}, Spec: ProjectSpec{Members: []string{"A"}}}, "spec.members[0]", "name"},
		{"project queue", &Project{Meta: Meta{Name: "p"}, Spec: ProjectSpec{Queue: "A"}}, "spec.queue", "name"},
		{"role", &User{Meta: Meta{Name: "u"}, Spec: UserSpec{Role: "root"}}, "spec.role", "admin, operator, member, viewer"},
		{"token user", &Token{Meta: Meta{Name: "t"}}, "spec.user", "required"},
		{"token hash", &Token{Meta: Meta{Name: "t"}, Spec: TokenSpec{User: "u", Hash: "x"}}, "spec.hash", "64"},
		{"placement task", &Placement{Meta: Meta{Name: "p"}, Spec: PlacementSpec{Attempt: 1, Roles: []RoleAssignment{{Role: "a", Slots: Slots{{1, 1}}}}}}, "spec.taskId", "required"},
		{"placement attempt", &Placement{Meta: Meta{Name: "p"}, Spec: PlacementSpec{TaskID: "t", Roles: []RoleAssignment{{Role: "a", Slots: Slots{{1, 1}}}}}}, "spec.attempt", "1 to"},
		{"placement roles", &Placement{Meta: Meta{Name: "p"}, Spec: PlacementSpec{TaskID: "t", Attempt: 1}}, "spec.roles", "1 to 16"},
		{"placement role", &Placement{Meta: Meta{Name: "p"}, Spec: PlacementSpec{TaskID: "t", Attempt: 1, Roles: []RoleAssignment{{Role: "", Slots: Slots{{1, 1}}}}}}, "spec.roles[0].role", "role name"},
		{"placement slots", &Placement{Meta: Meta{Name: "p"}, Spec: PlacementSpec{TaskID: "t", Attempt: 1, Roles: []RoleAssignment{{Role: "a", Slots: nil}}}}, "spec.roles[0].slots", "at least one"},
		{"placement size", &Placement{Meta: Meta{Name: "p"}, Spec: PlacementSpec{TaskID: "t", Attempt: 1, Roles: []RoleAssignment{{Role: "a", Slots: make(Slots, 16385)}}}}, "spec.roles", "16385"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			err := Prepare(tc.o, fixed)
			if err == nil {
				t.Fatal("accepted")
			}
			texts := refused(t, err, "InvalidField", tc.path)
			if got := texts[tc.path]; !strings.Contains(got.EN, tc.says) {
				t.Errorf("text %q does not say %q", got.EN, tc.says)
			}
		})
	}
}

func TestImageNames(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("0a", 32)
	for _, good := range []string{
		"python", "python:3.12", "team/train:v1", "registry.example.org/team/train", "localhost:5000/a1", "127.0.0.1:5000/team/x_y.z--w:V1.0-rc", "[::1]:5000/team/x", "team/train" + digest, "team/train:v1" + digest,
	} {
		if !isImage(good) {
			t.Errorf("%q is refused", good)
		}
	}
	for _, bad := range []string{
		"https://x/y", "http://registry.example.org/team/train", "/etc/passwd", "../team/x", "team/../x", "team//x", "Team/x", "team/x:", "team/x:v 1", "team/x@sha256:00", "team/x@md5:00", "team/x:v1:v2",
		"-team/x", "team/x\n", "team/x;rm", "$(x)/y", "user:password@host/x", "host:99999999/x", "",
	} {
		if isImage(bad) {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestPrepareAllAtOnce(t *testing.T) {
	o := task(func(t *TrainingTask) {
		t.Meta.Name = "A"
		t.Spec.Roles[0].Command = nil
		t.Spec.Image = "x"
		t.Spec.Priority = ptr(-1)
	})
	refused(t, Prepare(o, fixed), "InvalidField", "metadata.name", "spec.roles[0].command", "spec.priority", "spec.image")
}

func TestPrepareSize(t *testing.T) {
	o := task(func(t *TrainingTask) {
		for i := range 12 {
			args := []string{}
			for range 7 {
				args = append(args, strings.Repeat("a", 20<<10))
			}
			t.Spec.Roles = append(t.Spec.Roles, Role{Name: fmt.Sprintf("r%d", i), Command: []string{"a"}, Args: args})
		}
	})
	if err := Prepare(o, fixed); !fault.Is(err, fault.TooLarge) {
		t.Error(err)
	}
	if err := Prepare((*Zone)(nil), fixed); !fault.Is(err, fault.Invalid) {
		t.Error(err)
	}
}

func TestHyperParameterEnv(t *testing.T) {
	for in, want := range map[string]string{
		"lr": "LR", "lr.max": "LR_MAX", "stepTime": "STEP_TIME", "batch-size": "BATCH_SIZE", "useHTTPProxy": "USE_HTTP_PROXY", "L2": "L2", "l2Norm": "L2_NORM", "_x": "_X",
	} {
		if got := HyperParameterEnv(in); got != "FERMI_HP_"+want {
			t.Errorf("%q: %s", in, got)
		}
	}
}

// TestEnums: what the document offers is what the rules take.
func TestEnums(t *testing.T) {
	for name, row := range map[string]struct {
		in   reflect.Type
		want string
	}{
		"Kind": {reflect.TypeFor[Strategy](), list(StrategyKinds)}, "Precision": {reflect.TypeFor[TrainingTaskSpec](), list(Precisions)},
		"GradCompression": {reflect.TypeFor[TrainingTaskSpec](), list(GradCompressions)},
	} {
		field, _ := row.in.FieldByName(name)
		if got := strings.ReplaceAll(field.Tag.Get("enum"), ",", ", "); got != row.want {
			t.Errorf("%s offers %q, not %q", name, got, row.want)
		}
	}
}
