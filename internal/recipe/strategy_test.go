package recipe

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// refusal finds the message at a path.
func refusal(err error, path string) fault.Text {
	if err == nil {
		return fault.Text{}
	}
	for _, f := range fault.From(err).Fields {
		if f.Path == path {
			return f.Message
		}
	}
	return fault.Text{}
}

func TestRefused(t *testing.T) {
	mixed := shape("pytorch-ddp", "A100", 1, 1)
	mixed.Groups[1].Devices = cards(1, "Ascend 910")
	apart := roles("pytorch-ddp", "actor", 1, "reward", 1)
	apart.Groups[0].Devices, apart.Groups[1].Devices = cards(1, "A100"), cards(1, "Ascend 910")
	if _, err := Make(apart); err != nil {
		t.Errorf("roles separate the makers: %v", err)
	}
	many := shape("tensorflow", "", 1)
	many.Groups[0].Ranks = maxListed + 1
	long := shape("mpi", "", 1)
	for i := range 30_000 {
		long.Groups = append(long.Groups, Group{Role: "worker", Index: i + 1, Address: "node-" + strings.Repeat("x", 40), Ranks: 1})
	}
	wide := roles("pytorch-ddp", "actor", 1, "critic", 1)
	wide.Groups[0].Ranks = MaxPorts
	for name, row := range map[string]struct {
		in         Input
		path, part string
	}{
		"pair":          {with(shape("pytorch-ddp", "", 2), strategy(api.Strategy{Kind: tensor})), "spec.strategy.kind", "it has ddp. These have tensor: pytorch-fsdp (fsdp, tensor, hybrid); deepspeed"},
		"derived pair":  {with(shape("horovod", "", 2), strategy(api.Strategy{Tensor: 2})), "spec.strategy.kind", "horovod has no strategy tensor"},
		"plain":         {with(shape("plain", "", 2), strategy(api.Strategy{Kind: ddp})), "spec.strategy", "knows no strategy; these do: pytorch-ddp (ddp)"},
		"compress":      {with(shape("megatron-lm", "", 2), func(s *api.TrainingTaskSpec) { s.GradCompression = "powersgd" }), "spec.gradCompression", "these can: pytorch-ddp."},
		"compress fsdp": {with(shape("pytorch-fsdp", "", 2), func(s *api.TrainingTaskSpec) { s.GradCompression = "bf16" }), "spec.gradCompression", "these can: pytorch-ddp."},
		"compress2":     {with(shape("plain", "", 2), func(s *api.TrainingTaskSpec) { s.GradCompression = "fp16" }), "spec.gradCompression", "these can: pytorch-ddp."},
		"seed":          {with(shape("deepspeed", "A100", 2, 4, 8), strategy(api.Strategy{Data: 2, Pipeline: 4, Tensor: 8})), "spec.strategy", "these fit: "},
		"seed batch":    {with(shape("deepspeed", "A100", 2, 4, 8), strategy(api.Strategy{TrainBatchSize: 64})), "spec.strategy.trainBatchSize", "nearest sizes are 56, 70"},
		"tiny batch":    {with(shape("deepspeed", "", 8), strategy(api.Strategy{TrainBatchSize: 3})), "spec.strategy.trainBatchSize", "nearest sizes are 8."},
		"three batches": {with(shape("deepspeed", "", 2), strategy(api.Strategy{TrainBatchSize: 8, MicroBatchSize: 1, AccumulationSteps: 2})), "spec.strategy.trainBatchSize", "data = 4; give 4"},
		"huge batch":    {with(shape("deepspeed", "", 2), strategy(api.Strategy{MicroBatchSize: 1 << 30, AccumulationSteps: 1 << 20})), "spec.strategy.microBatchSize", "over 1073741824"},
		"expert":        {with(shape("megatron-lm", "", 8), strategy(api.Strategy{Tensor: 2, Expert: 3})), "spec.strategy.expert", "these do: 1, 2, 4."},
		"uneven tensor": {with(shape("megatron-lm", "A100", 2, 4, 8), strategy(api.Strategy{Tensor: 7})), "spec.strategy.tensor", "these fit: 7 × 1 × 2"},
		"vendors":       {mixed, "spec.roles[0].resources.accelerators.type", "(huawei, nvidia)"},
		"zero":          {with(shape("pytorch-ddp", "", 2), strategy(api.Strategy{ZeroStage: stage(1)})), "spec.strategy.zeroStage", "it is for deepspeed"},
		"offload":       {with(shape("jax", "", 2), strategy(api.Strategy{Offload: "cpu"})), "spec.strategy.offload", "it is for deepspeed"},
		"engine":        {with(shape("deepspeed", "", 2), strategy(api.Strategy{Engine: "deepspeed"})), "spec.strategy.engine", "it is for megatron-lm"},
		"foreign moe":   {with(shape("jax", "", 2), strategy(api.Strategy{Expert: 2})), "spec.strategy.expert", "it is for megatron-lm"},
		"controller":    {with(shape("mpi", "", 2), strategy(api.Strategy{Controller: "gloo"})), "spec.strategy.controller", "it is for horovod"},
		"zero pipeline": {with(shape("deepspeed", "", 4), strategy(api.Strategy{Pipeline: 2, ZeroStage: stage(2)})), "spec.strategy.zeroStage", "stages 0 and 1, not 2"},
		"zero fsdp":     {with(shape("deepspeed", "", 4), strategy(api.Strategy{Kind: fsdp, ZeroStage: stage(2)})), "spec.strategy.zeroStage", "stage 3, not 2"},
		"zero ddp":      {with(shape("deepspeed", "", 4), strategy(api.Strategy{Kind: ddp, ZeroStage: stage(3)})), "spec.strategy.zeroStage", "that is the strategy fsdp"},
		"zero offload":  {with(shape("deepspeed", "", 4), strategy(api.Strategy{Offload: "cpu", ZeroStage: stage(0)})), "spec.strategy.offload", "stage 1 or higher"},
		"ds include":    {with(shape("deepspeed", "", 2), calls("deepspeed", "--include", "a@b", "x.py")), "spec.roles[0].command", "option --include can't be had"},
		"ds no script":  {with(shape("deepspeed", "", 2), calls("deepspeed", "--hostfile", "x.py")), "spec.roles[0].command", "names no script"},
		"mxnet":         {roles("mxnet", "worker", 2), "spec.roles", "scheduler (1 replica)"},
		"two heads":     {roles("ray", "head", 2, "worker", 1), "spec.roles", "one head, not 2"},
		"two chiefs":    {roles("tensorflow", "chief", 2), "spec.roles", "one chief, not 2"},
		"no trainer":    {roles("tensorflow", "ps", 2), "spec.roles", "No role does the work"},
		"mpi roles":     {roles("mpi", "worker", 1, "other", 1), "spec.roles", "has worker, other"},
		"variable":      {many, "spec.roles", "at most 2048 processes"},
		"files":         {long, "spec.roles", "at most 1048576"},
		"ports":         {wide, "spec.roles", "at most 32768"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Make(row.in)
			got := refusal(err, row.path)
			if !strings.Contains(got.EN, row.part) || got.ZH == "" || strings.Contains(got.EN+got.ZH, "%!") {
				t.Errorf("at %s: %+v, want %q; all: %+v", row.path, got, row.part, err)
			}
		})
	}
	for _, in := range []Input{{Spec: &api.TrainingTaskSpec{Framework: "x"}}, {Spec: &api.TrainingTaskSpec{Framework: "plain"}}, shape("plain", "", 0)} {
		if _, err := Make(in); !fault.Is(err, fault.Invalid) {
			t.Errorf("%+v: %v", in, err)
		}
	}
}

func TestWarned(t *testing.T) {
	for name, row := range map[string]struct {
		in   Input
		part string
	}{
		"bf16":    {with(shape("pytorch-ddp", "Tesla V100-SXM2", 1), func(s *api.TrainingTaskSpec) { s.Precision = "bf16" }), ""}, // not known by that name
		"bf16 2":  {with(shape("pytorch-ddp", "V100-SXM2-32GB", 1), func(s *api.TrainingTaskSpec) { s.Precision = "bf16" }), "has no bf16"},
		"cpu":     {with(shape("pytorch-ddp", "", 1), func(s *api.TrainingTaskSpec) { s.Precision = "fp16" }), "little use for fp16"},
		"uneven":  {shape("pytorch-ddp", "A100", 1, 2), "different numbers of devices (1 to 2)"},
		"across":  {with(shape("megatron-lm", "A100", 2, 2), strategy(api.Strategy{Tensor: 4})), "every layer waits for the network"},
		"types":   {func() Input { in := shape("jax", "A100", 1, 1); in.Groups[1].Devices = cards(1, "H800"); return in }(), "(A100, H800)"},
		"unknown": {shape("jax", "FooCard", 1), "(FooCard) is not known"},
		"batch":   {shape("deepspeed", "A100", 1), "DeepSpeed needs one"},
		"virtual": {virtual(), "are virtual"},
	} {
		r, err := Make(row.in)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		found := row.part == ""
		for _, w := range r.Warnings() {
			found = found || strings.Contains(w.EN, row.part)
		}
		if !found {
			t.Errorf("%s: %+v, want %q", name, r.Warnings(), row.part)
		}
	}
}

func sum(list []int) (n int) {
	for _, v := range list {
		n += v
	}
	return n
}

// TestPorts: only who is told of others than the first has ports, and every one of them is used.
func TestPorts(t *testing.T) {
	for name, row := range map[string]struct {
		in   Input
		want []int
	}{
		"torch": {shape("pytorch-ddp", "", 2, 2), []int{0, 0}}, "paddle": {shape("paddle", "", 2, 3), []int{2, 3}},
		"mpi": {shape("mpi", "", 2, 2), []int{1, 1}}, "one mpi": {shape("mpi", "", 4), []int{0}},
		"two roles": {roles("pytorch-ddp", "actor", 2, "critic", 1), []int{1, 1, 1}}, "plain": {roles("plain", "a", 1, "b", 1), []int{0, 0}},
	} {
		row.in.Live = true
		r, err := Make(row.in)
		if err != nil {
			t.Fatal(err)
		}
		total, all := 0, text(t, row.in)
		for i, want := range row.want {
			own, of := r.Ports(i)
			total += want
			if sum := sum(row.want); own != want || of != sum {
				t.Errorf("%s: group %d has %d of %d ports, want %d of %d", name, i, own, of, want, sum)
			}
		}
		for i := range total + 1 {
			if there := strings.Contains(all, PortToken(i)); there != (i < total) {
				t.Errorf("%s: port %d of %d is there: %v\n%s", name, i, total, there, all)
			}
		}
		if row.in.Spec.Framework != "plain" && row.in.Spec.Framework != "mpi" && !strings.Contains(all, LeadPortToken) {
			t.Errorf("%s: nobody is told the lead", name)
		}
	}
}

// anyStrategy draws a valid strategy of small sizes.
func anyStrategy(t *rapid.T) api.Strategy {
	size := rapid.SampledFrom([]int{0, 0, 1, 2, 3, 4, 6, 8, 16})
	return api.Strategy{
		Kind: rapid.SampledFrom(append([]api.StrategyKind{""}, api.StrategyKinds...)).Draw(t, "kind"),
		Data: size.Draw(t, "data"), Tensor: size.Draw(t, "tensor"), Pipeline: size.Draw(t, "pipeline"), Expert: size.Draw(t, "expert"),
		TrainBatchSize: rapid.IntRange(0, 200).Draw(t, "train"), MicroBatchSize: rapid.IntRange(0, 8).Draw(t, "micro"),
		AccumulationSteps: rapid.IntRange(0, 4).Draw(t, "steps"),
	}
}

var triple = regexp.MustCompile(`(\d+) × (\d+) × (\d+)`)

// TestProduct: what is taken multiplies to the world, and what a refusal names is taken.
func TestProduct(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fw := rapid.SampledFrom([]api.Framework{"pytorch-ddp", "pytorch-fsdp", "deepspeed", "megatron-lm", "paddle", "jax"}).Draw(t, "framework")
		ranks := rapid.SliceOfN(rapid.IntRange(1, 8), 1, 6).Draw(t, "ranks")
		st := anyStrategy(t)
		in := with(shape(fw, "A100", ranks...), strategy(st))
		n := 0
		for _, r := range ranks {
			n += r
		}
		r, err := Make(in)
		if err == nil {
			s := r.Summary(0).Sizes
			if s.Data*s.Tensor*s.Pipeline != n || s.World != n || s.Data%s.Expert != 0 {
				t.Fatalf("%+v on %d", s, n)
			}
			for _, p := range [][2]int{{st.Data, s.Data}, {st.Tensor, s.Tensor}, {st.Pipeline, s.Pipeline}} {
				if p[0] != 0 && p[0] != p[1] {
					t.Fatalf("asked for %+v, got %+v", st, s)
				}
			}
			if b := r.w.batch; b != (batch{}) && b.train != b.micro*b.steps*s.Data {
				t.Fatalf("%+v on %d copies", b, s.Data)
			}
			return
		}
		checkAdvice(t, in, st, n, err)
	})
}

// checkAdvice takes a refusal by its word.
func checkAdvice(t *rapid.T, in Input, st api.Strategy, n int, err error) {
	for _, path := range []string{"spec.strategy", "spec.strategy.tensor"} {
		_, advice, found := strings.Cut(refusal(err, path).EN, "these fit: ")
		if !found || n%max(1, st.Expert) != 0 || refusal(err, "spec.strategy.kind").EN != "" {
			continue
		}
		list := triple.FindAllStringSubmatch(advice, -1)
		if len(list) == 0 {
			t.Fatalf("no advice in %v", err)
		}
		for _, m := range list {
			next := st
			next.Data, _ = strconv.Atoi(m[1])
			next.Pipeline, _ = strconv.Atoi(m[2])
			next.Tensor, _ = strconv.Atoi(m[3])
			next.TrainBatchSize, next.MicroBatchSize, next.AccumulationSteps = 0, 0, 0
			_, again := Make(with(in, strategy(next)))
			for _, p := range []string{"spec.strategy", "spec.strategy.kind", "spec.strategy.tensor"} {
				if got := refusal(again, p); got.EN != "" {
					t.Fatalf("%v advised %v, which is refused: %s", err, m[0], got.EN)
				}
			}
		}
	}
	if _, advice, found := strings.Cut(refusal(err, "spec.strategy.trainBatchSize").EN, "nearest sizes are "); found {
		for _, text := range strings.FieldsFunc(advice, func(r rune) bool { return r == ',' || r == ' ' || r == '.' }) {
			next := st
			next.TrainBatchSize, _ = strconv.Atoi(text)
			if _, again := Make(with(in, strategy(next))); refusal(again, "spec.strategy.trainBatchSize").EN != "" {
				t.Fatalf("%v advised %s, which is refused: %v", err, text, again)
			}
		}
	}
}

// TestRanks: every process has its own place, whatever the world.
func TestRanks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranks := rapid.SliceOfN(rapid.IntRange(1, 8), 1, 8).Draw(t, "ranks")
		r, err := Make(shape("pytorch-ddp", "A100", ranks...))
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for i := range r.Len() {
			env := map[string]string{}
			for _, e := range r.Rank(i).Env {
				if env[e.Name] != "" {
					t.Fatalf("%s is set twice", e.Name)
				}
				env[e.Name] = e.Value
			}
			place := env["GROUP_RANK"] + "/" + env["LOCAL_RANK"]
			if env["RANK"] != strconv.Itoa(i) || env["WORLD_SIZE"] != strconv.Itoa(r.Len()) || seen[place] {
				t.Fatalf("process %d: %v", i, env)
			}
			seen[place] = true
		}
		at := 0
		for i, n := range ranks {
			if got := r.Group(i)[0]; got.Rank != at {
				t.Fatalf("group %d is led by %d, not %d", i, got.Rank, at)
			}
			at += n
		}
	})
}

func TestUnplaced(t *testing.T) {
	spec := &api.TrainingTaskSpec{Framework: "mpi", Roles: []api.Role{{Name: "worker", Replicas: 2, Resources: api.Resources{Accelerators: api.Accelerators{Type: "A100|H800", Count: 4}}}}}
	in := Unplaced(spec, nil)
	if len(in.Groups) != 2 || in.Groups[1].Ranks != 4 || in.Groups[1].Devices[3].Type != "A100" || in.Groups[1].Address != "worker-1" {
		t.Errorf("%+v", in.Groups)
	}
	in = Unplaced(spec, func(name string) (api.Device, bool) { return api.Device{Type: name, Virtual: true}, name == "A100" })
	if !in.Groups[0].Devices[0].Virtual {
		t.Errorf("%+v", in.Groups)
	}
}

// TestLarge: a large world is made in a moment, and its processes don't cost its size each.
func TestLarge(t *testing.T) {
	in := shape("pytorch-ddp", "")
	for i := range 1024 {
		in.Groups = append(in.Groups, Group{Role: "worker", Index: i, Address: fmt.Sprintf("10.0.%d.%d", i/256, i%256), Ranks: 1, Devices: cards(1, "A100")})
	}
	r, err := Make(in)
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Len() {
		if rank := r.Group(i)[0]; rank.Rank != i {
			t.Fatal(rank)
		}
	}
}

// FuzzStrategy: whatever JSON a strategy comes from, the answer is a recipe or a fault, and the
// recipe's product is the world.
func FuzzStrategy(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"kind":"hybrid","tensor":8,"pipeline":4,"data":2}`, `{"tensor":-1}`, `{"pipeline":1048576,"data":1048576,"tensor":1048576}`,
		`{"zeroStage":3,"offload":"cpu","trainBatchSize":1073741824,"microBatchSize":1073741824,"accumulationSteps":1048576}`, `{"collectiveTimeout":"10m"}`,
	} {
		f.Add(seed, uint8(0), uint8(3))
	}
	f.Fuzz(func(t *testing.T, text string, fw, n uint8) {
		var st api.Strategy
		if json.Unmarshal([]byte(text), &st) != nil {
			return
		}
		in := shape(api.Frameworks[int(fw)%len(api.Frameworks)], "A100", int(n%16)+1, int(n%7)+1)
		in.Spec.Strategy = &st
		task := &api.TrainingTask{Meta: api.Meta{Name: "a"}, Spec: *in.Spec}
		task.Default()
		for _, field := range task.Validate() {
			if strings.HasPrefix(field.Path, "spec.strategy") {
				return
			}
		}
		r, err := Make(in)
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Fatal(err)
			}
			return
		}
		s := r.Summary(8)
		if s.Sizes.Data*s.Sizes.Tensor*s.Sizes.Pipeline != s.Sizes.World || r.w.timeout < time.Nanosecond {
			t.Fatalf("%+v", s.Sizes)
		}
		for _, rank := range s.Ranks {
			if rank.Env == nil || rank.Command == nil {
				t.Fatalf("null in an answer: %+v", rank)
			}
		}
	})
}

// TestTold: the SDK starts Python scripts of tasks that say what only it can do; commands that it can't start are warned of.
func TestTold(t *testing.T) {
	compressed := func(s *api.TrainingTaskSpec) { s.GradCompression = api.CompressFP16 }
	timed := func(s *api.TrainingTaskSpec) { s.Strategy = &api.Strategy{CollectiveTimeout: api.Duration(90e9)} }
	nothing := func(s *api.TrainingTaskSpec) { s.GradCompression = api.CompressNone }
	by := " -m fermi.run --as-told "
	for _, c := range []struct {
		fw        api.Framework
		say       func(*api.TrainingTaskSpec)
		own, want string // want "": as it is, with a warning
	}{
		{"pytorch-ddp", compressed, "python3 train.py --lr 1", "python3" + by + "train.py --lr 1"},
		{"pytorch-ddp", compressed, "/usr/bin/python3.11 -u -W ignore -Xdev pack/train.py", "/usr/bin/python3.11 -u -W ignore -Xdev" + by + "pack/train.py"},
		{"pytorch-ddp", timed, "python -m mod x.py", "python" + by + "-m mod x.py"},
		{"pytorch-fsdp", timed, "python train.py", "python" + by + "train.py"},
		{"pytorch-ddp", nothing, "python train.py", "python train.py"},
		{"pytorch-ddp", compressed, "python -m fermi.run train.py", "python -m fermi.run train.py"},
		{"deepspeed", timed, "python train.py", "python train.py"},
		{"pytorch-ddp", compressed, "python -m torch.distributed.run train.py", ""},
		{"pytorch-ddp", compressed, "python -I train.py", ""},
		{"pytorch-ddp", compressed, "python -c pass", ""},
		{"pytorch-ddp", compressed, "python folder", ""},
		{"pytorch-ddp", compressed, "python", ""},
		{"pytorch-ddp", timed, "sh train.sh", ""},
	} {
		in := with(shape(c.fw, "", 2), c.say)
		in.Spec.Roles[0].Command, in.Spec.Roles[0].Args = strings.Fields(c.own)[:1], strings.Fields(c.own)[1:]
		r, err := Make(in)
		if err != nil {
			t.Fatal(err)
		}
		warned := slices.ContainsFunc(r.Warnings(), func(w fault.Text) bool { return strings.Contains(w.EN, "fermi.run") })
		if got, want := strings.Join(r.Rank(1).Command, " "), cmp.Or(c.want, c.own); got != want || warned != (c.want == "") {
			t.Errorf("%s %q became %q, warned %v", c.fw, c.own, got, warned)
		}
	}
}
