package recipe

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	api "github.com/fermi-cluster/fermi/api/v1"
)

var update = flag.Bool("update", false, "write the golden files and the guide's tables anew")

// cards is n devices of a type, real ones.
func cards(n int, deviceType string) []api.Device {
	out := make([]api.Device, n)
	for i := range out {
		out[i] = api.Device{Index: i, Type: deviceType}
	}
	return out
}

// shape is a world for tests: groups with so many processes, a device each.
func shape(fw api.Framework, deviceType string, ranks ...int) Input {
	in := Input{
		Spec: &api.TrainingTaskSpec{Framework: fw, Roles: []api.Role{{Name: "worker", Command: []string{"python", "train.py"}, Args: []string{"--epochs", "3"}}}},
	}
	for i, n := range ranks {
		g := Group{Role: "worker", Index: i, Node: fmt.Sprintf("node-%d", i), Address: fmt.Sprintf("192.168.%d.10", i+1), Ranks: n}
		if deviceType != "" {
			g.Devices = cards(n, deviceType)
		}
		in.Groups = append(in.Groups, g)
	}
	return in
}

// with changes an input.
func with(in Input, change func(*api.TrainingTaskSpec)) Input {
	change(in.Spec)
	return in
}

// roles gives groups of one process each, role by role.
func roles(fw api.Framework, counts ...any) Input {
	in := Input{Spec: &api.TrainingTaskSpec{Framework: fw}}
	for i := 0; i < len(counts); i += 2 {
		name := counts[i].(string)
		in.Spec.Roles = append(in.Spec.Roles, api.Role{Name: name, Command: []string{"python", name + ".py"}})
		for n := range counts[i+1].(int) {
			in.Groups = append(in.Groups, Group{Role: name, Index: n, Node: "node-0", Address: "127.0.0.1", Ranks: 1})
		}
	}
	return in
}

func strategy(s api.Strategy) func(*api.TrainingTaskSpec) {
	return func(spec *api.TrainingTaskSpec) { spec.Strategy = &s }
}

func stage(n int) *int { return &n }

// golden is every recipe, and every vendor. What the hardware is not at hand for is shown here only.
var golden = map[string]Input{
	"pytorch-ddp-seed":    shape("pytorch-ddp", "A100", 2, 4, 8), // the three environments of the seed
	"pytorch-ddp-machine": roles("pytorch-ddp", "worker", 2),
	"pytorch-ddp-compressed": with(shape("pytorch-ddp", "V100", 1, 1), func(s *api.TrainingTaskSpec) {
		s.GradCompression, s.Precision = api.CompressPowerSGD, api.PrecisionBF16
	}),
	"pytorch-ddp-roles": roles("pytorch-ddp", "actor", 2, "critic", 1, "reward-model", 1),
	"pytorch-fsdp":      with(shape("pytorch-fsdp", "H800", 4, 4), func(s *api.TrainingTaskSpec) { s.Precision = api.PrecisionBF16 }),
	"pytorch-fsdp-hybrid": with(shape("pytorch-fsdp", "MI300", 4, 4), strategy(api.Strategy{
		Kind: hybrid, Tensor: 4, CollectiveTimeout: api.Duration(90e9), NetworkInterface: "ib0",
	})),
	"deepspeed-seed": with(shape("deepspeed", "A100", 2, 4, 8), func(s *api.TrainingTaskSpec) {
		s.Precision, s.HyperParameters = api.PrecisionFP16, map[string]any{"lr": 0.0001}
		s.Strategy = &api.Strategy{ZeroStage: stage(2), Offload: api.OffloadCPU, TrainBatchSize: 56}
	}),
	"deepspeed-zero3":    with(shape("deepspeed", "Ascend 910B", 8), strategy(api.Strategy{Kind: fsdp, Offload: api.OffloadCPU, MicroBatchSize: 2, AccumulationSteps: 4})),
	"deepspeed-pipeline": with(shape("deepspeed", "A100", 4, 4), strategy(api.Strategy{Pipeline: 4, TrainBatchSize: 64, MicroBatchSize: 4})),
	"horovod-gloo":       shape("horovod", "A100", 4, 4),
	"horovod-mpi":        with(shape("horovod", "", 4), strategy(api.Strategy{Controller: api.ControllerMPI, NetworkInterface: "eth0"})),
	"megatron": with(shape("megatron-lm", "A100", 8, 8, 8, 8, 8, 8, 8, 8), func(s *api.TrainingTaskSpec) { // the seed's GPT-3
		s.Precision = api.PrecisionBF16
		s.Strategy = &api.Strategy{Tensor: 8, Pipeline: 4, Data: 2, Expert: 2, TrainBatchSize: 512, MicroBatchSize: 1}
	}),
	"megatron-deepspeed": with(shape("megatron-lm", "A100", 8, 8), strategy(api.Strategy{
		Kind: hybrid, Engine: api.EngineDeepSpeed, Tensor: 4, Pipeline: 2, ZeroStage: stage(1), MicroBatchSize: 2,
	})),
	"tensorflow":       roles("tensorflow", "chief", 1, "worker", 2, "ps", 1, "evaluator", 1),
	"paddle":           with(shape("paddle", "Ascend 910", 2), func(s *api.TrainingTaskSpec) { s.Precision = api.PrecisionFP16 }),
	"paddle-hybrid":    with(shape("paddle", "A100", 4), strategy(api.Strategy{Tensor: 2, Pipeline: 2})),
	"mxnet":            roles("mxnet", "worker", 2, "server", 1, "scheduler", 1),
	"jax":              shape("jax", "A100", 2, 2),
	"mpi":              shape("mpi", "", 2, 2),
	"mpi-live":         live(shape("mpi", "", 2, 2)),
	"tensorflow-live":  live(roles("tensorflow", "chief", 1, "worker", 2)),
	"ray":              roles("ray", "head", 1, "worker", 2),
	"ray-one-role":     roles("ray", "worker", 2),
	"cambricon":        shape("pytorch-ddp", "MLU370", 2),
	"plain":            roles("plain", "worker", 2),
	"plain-precision":  with(roles("plain", "worker", 1), func(s *api.TrainingTaskSpec) { s.Precision = api.PrecisionFP16 }),
	"pytorch-ddp-demo": virtual(),
}

// live is as launchers get it: where processes listen is theirs to fill in.
func live(in Input) Input {
	in.Live = true
	return in
}

func virtual() Input {
	in := shape("pytorch-ddp", "A100", 1, 1)
	for i := range in.Groups {
		in.Groups[i].Devices[0].Virtual = true
	}
	return in
}

// text is a recipe for people to read.
func text(t *testing.T, in Input) string {
	t.Helper()
	r, err := Make(in)
	if err != nil {
		t.Fatal(err)
	}
	s := r.Summary(r.Len())
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %+v\n", s.Framework, s.Strategy, s.Sizes)
	for _, w := range s.Warnings {
		fmt.Fprintf(&b, "warning: %s\n警告：%s\n", w.EN, w.ZH)
	}
	for i, rank := range s.Ranks {
		if i > 1 && i < len(s.Ranks)-1 {
			continue
		}
		fmt.Fprintf(&b, "\n-- %s %d of replica %d, %s --\n", rank.Role, rank.Rank, rank.Replica, rank.Backend)
		for _, e := range rank.Env {
			fmt.Fprintf(&b, "%s=%s\n", e.Name, e.Value)
		}
		fmt.Fprintf(&b, "$ %s\n", strings.Join(rank.Command, " "))
	}
	for _, f := range s.Files {
		fmt.Fprintf(&b, "\n-- file %s --\n%s", f.Name, f.Text)
	}
	return b.String()
}

func TestGolden(t *testing.T) {
	seen := map[api.Framework]bool{}
	for name, in := range golden {
		seen[in.Spec.Framework] = true
		t.Run(name, func(t *testing.T) {
			got, file := text(t, in), filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("run with -update if this is meant:\n%s", diff)
			}
		})
	}
	for _, id := range api.Frameworks {
		if !seen[id] {
			t.Errorf("%s has no golden file", id)
		}
	}
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) != len(golden) {
		t.Errorf("%d golden files for %d recipes: %v", len(files), len(golden), err)
	}
}

// TestTables: every id of the api has a row, and every word of a row is one.
func TestTables(t *testing.T) {
	if len(frameworks) != len(api.Frameworks) {
		t.Errorf("%d rows for %d frameworks", len(frameworks), len(api.Frameworks))
	}
	for _, id := range api.Frameworks {
		if rowOf(id) == nil {
			t.Errorf("%s has no row", id)
		}
	}
	w := &work{plan: plan{layout: layout{in: roles("mxnet", "worker", 1)}}}
	w.fw = rowOf("mxnet")
	w.gather()
	all := slices.Concat(ncclEnv, vendors[2].env)
	for i := range frameworks {
		all = append(all, frameworks[i].env...)
	}
	for _, e := range all {
		got := w.expand(e.value, &w.ranks[0])
		if left := strings.NewReplacer(DirToken, "", OutputToken, "").Replace(got); strings.Contains(left, "${") {
			t.Errorf("%s: %q holds an unknown word", e.name, e.value)
		}
	}
	for _, d := range devices {
		if vendorNamed(d.vendor) == nil || api.FoldDevice(d.prefix) != d.prefix {
			t.Errorf("%+v", d)
		}
	}
}

const guide = "../../docs/guide/recipes.md"

// TestGuide: the guide's tables are these tables.
func TestGuide(t *testing.T) {
	page, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	got := string(page)
	for name, table := range map[string]string{"strategies": strategyTable(), "vendors": vendorTable()} {
		begin, end := "<!-- table: "+name+" -->\n", "<!-- end -->"
		before, rest, ok := strings.Cut(got, begin)
		_, after, whole := strings.Cut(rest, end)
		if !ok || !whole {
			t.Fatalf("the guide has no table %s", name)
		}
		got = before + begin + table + end + after
	}
	if *update {
		if err := os.WriteFile(guide, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		page = []byte(got)
	}
	if diff := cmp.Diff(string(page), got); diff != "" {
		t.Errorf("run with -update if this is meant:\n%s", diff)
	}
}

func strategyTable() string {
	var b strings.Builder
	b.WriteString("| framework | is |")
	for _, k := range api.StrategyKinds {
		fmt.Fprintf(&b, " %s |", k)
	}
	b.WriteString(" gradients | started by |\n|---|---|" + strings.Repeat("---|", len(api.StrategyKinds)+2) + "\n")
	who := map[start]string{startRank: "the launcher", startLead: "a program in the first replica", startRay: "Ray's head"}
	for _, fw := range frameworks {
		fmt.Fprintf(&b, "| `%s` | %s |", fw.id, fw.text.EN)
		for _, k := range api.StrategyKinds {
			mark := ""
			switch slices.Index(fw.strategies, k) {
			case -1:
			case 0:
				mark = "usual"
			default:
				mark = "yes"
			}
			fmt.Fprintf(&b, " %s |", mark)
		}
		fmt.Fprintf(&b, " %s | %s |\n", join(fw.compress), who[fw.start])
	}
	return b.String()
}

func vendorTable() string {
	var b strings.Builder
	b.WriteString("| maker | visible devices | collectives | `torch.distributed` | from the node into an image, beside `/dev` | run on the hardware |\n|---|---|---|---|---|---|\n")
	for _, v := range append(slices.Clone(vendors), gloo) {
		name, variable, proven := v.name, "`"+v.variable+"`", "no: golden files only"
		if v.variable == "" {
			name, variable = "none, or virtual", ""
		}
		if v.proven {
			proven = "yes"
		}
		files, libraries := Driver([]api.Device{{Vendor: v.name}})
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", name, variable, v.backend, v.torch, join(append(files, libraries...)), proven)
	}
	return b.String()
}
