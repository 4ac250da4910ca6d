package recipe

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

const atStrategy = "spec.strategy"

// checkPair refuses a strategy that the framework has not, and fields that are another's.
func (w *work) checkPair() {
	fw, spec := w.fw, w.in.Spec
	if c := spec.GradCompression; c != "" && c != api.CompressNone && !slices.Contains(fw.compress, c) {
		w.refuse("spec.gradCompression", fault.T("%[1]s can't compress gradients by %[2]s; these can: %[3]s.", "%[1]s 不支持 %[2]s 梯度压缩；支持的有：%[3]s。",
			fw.id, c, compressors(c)))
	}
	if len(fw.strategies) == 0 {
		if spec.Strategy != nil {
			w.refuse(atStrategy, fault.T("%s runs the command as it is and knows no strategy; these do: %s.", "%s 直接运行命令，不支持策略；支持的有：%s。",
				fw.id, pairs(func(f *framework) bool { return len(f.strategies) > 0 })))
		}
		return
	}
	w.kind = w.kindOf()
	if !slices.Contains(fw.strategies, w.kind) {
		w.refuse(atStrategy+".kind", fault.T("%[1]s has no strategy %[2]s; it has %[3]s. These have %[2]s: %[4]s.", "%[1]s 没有策略 %[2]s，可用的有 %[3]s。支持 %[2]s 的有：%[4]s。",
			fw.id, w.kind, join(fw.strategies), pairs(func(f *framework) bool { return slices.Contains(f.strategies, w.kind) })))
	}
	w.checkForeign()
}

func compressors(c api.GradCompression) string {
	var out []string
	for i := range frameworks {
		if slices.Contains(frameworks[i].compress, c) {
			out = append(out, string(frameworks[i].id))
		}
	}
	return strings.Join(out, ", ")
}

// checkForeign refuses fields that only other frameworks read.
func (w *work) checkForeign() {
	only := func(field string, given bool, who string) {
		if given {
			w.refuse(atStrategy+"."+field, fault.T("%s does not know this field; it is for %s.", "%s 没有此字段，仅适用于 %s。", w.fw.id, who))
		}
	}
	st := w.st
	only("zeroStage", st.ZeroStage != nil && !w.deepspeed(), "deepspeed, megatron-lm (engine: deepspeed)")
	only("offload", st.Offload == api.OffloadCPU && !w.deepspeed(), "deepspeed, megatron-lm (engine: deepspeed)")
	only("engine", st.Engine != "" && w.fw.id != "megatron-lm", "megatron-lm")
	only("expert", st.Expert > 1 && w.fw.id != "megatron-lm" && w.fw.id != "deepspeed", "megatron-lm, deepspeed")
	only("controller", st.Controller != "" && w.fw.id != "horovod", "horovod")
}

// deepspeed says that its optimizer is in use.
func (w *plan) deepspeed() bool {
	return w.fw.id == "deepspeed" || w.fw.id == "megatron-lm" && w.st.Engine == api.EngineDeepSpeed
}

// kindOf is the kind that the sizes mean, or the framework's usual one.
func (w *work) kindOf() api.StrategyKind {
	st, kind := w.st, w.fw.strategies[0]
	switch {
	case st.Kind != "":
		return st.Kind
	case st.Tensor > 1 && st.Pipeline > 1:
		kind = hybrid
	case st.Tensor > 1:
		kind = tensor
	case st.Pipeline > 1:
		kind = pipe
	default:
		return kind
	}
	if !slices.Contains(w.fw.strategies, kind) && slices.Contains(w.fw.strategies, hybrid) {
		return hybrid
	}
	return kind
}

// sizes are data × pipeline × tensor.
type sizes struct{ data, pipeline, tensor int }

func (s sizes) String() string {
	return strconv.Itoa(s.data) + " × " + strconv.Itoa(s.pipeline) + " × " + strconv.Itoa(s.tensor)
}

// settle finds the sizes, or refuses with those that fit.
func (w *work) settle() {
	n := w.trainers()
	w.sizes, w.expert = sizes{n, 1, 1}, max(1, w.st.Expert)
	if len(w.fw.strategies) == 0 {
		return
	}
	asked := w.asked(n)
	w.sizes = asked
	fits := asked.data > 0 && asked.data*asked.pipeline*asked.tensor == n && w.allowed(asked)
	switch {
	case !fits:
		w.refuse(atStrategy, fault.T("data × pipeline × tensor (%s) must be the %d processes of the role %s, by the strategy %s; these fit: %s.",
			"data × pipeline × tensor（%s）必须等于角色进程数 %d（角色 %s，策略 %s）；可用的组合：%s。", asked, n, w.worlds[0].role, w.kind, w.suggestions(asked, n)))
	case w.sharded() && w.crosses(asked.tensor) && w.uneven:
		w.refuse(atStrategy+".tensor", fault.T("Groups of %d for tensor parallel would stand across nodes with different numbers of devices; these fit: %s.",
			"张量并行组（%d 个进程）会跨越加速卡数量不同的节点；可用的组合：%s。", asked.tensor, w.suggestions(asked, n)))
	case w.sharded() && w.crosses(asked.tensor):
		w.warn("Groups of %d for tensor parallel stand across nodes: every layer waits for the network.", "张量并行组（%d 个进程）跨越节点：每一层都要等待网络。", asked.tensor)
	}
	if fits && w.sizes.data%w.expert != 0 {
		w.refuse(atStrategy+".expert", fault.T("expert must divide data, which is %[2]d, and %[1]d does not; these do: %[3]s.", "expert 必须整除 data（%[2]d），而 %[1]d 不能；可用的有：%[3]s。",
			w.expert, w.sizes.data, numbers(divisors(w.sizes.data), 12)))
	}
}

// sharded says that tensor groups exist and that it is known where they stand.
func (w *work) sharded() bool { return w.sizes.tensor > 1 && w.worlds[0].groups[0].Node != "" }

// asked are the sizes the user gave; what is absent follows. data 0: nothing is left for it.
func (w *work) asked(n int) sizes {
	s := sizes{w.st.Data, max(1, w.st.Pipeline), max(1, w.st.Tensor)}
	rest := n / max(1, s.data)
	switch {
	case w.kind == tensor && w.st.Tensor == 0:
		s.tensor = max(1, rest)
	case w.kind == pipe && w.st.Pipeline == 0:
		s.pipeline = max(1, rest)
	}
	if s.data == 0 {
		s.data = n / (s.pipeline * s.tensor)
	}
	return s
}

// allowed says whether the kind permits these sizes.
func (w *work) allowed(s sizes) bool {
	switch w.kind {
	case ddp, fsdp:
		return s.pipeline == 1 && s.tensor == 1
	case pipe:
		return s.tensor == 1
	case tensor:
		return s.pipeline == 1
	}
	return true
}

// suggestions lists up to five sizes that would be taken, those nearest to the asked first.
func (w *work) suggestions(asked sizes, n int) string {
	list := w.fitting(asked, n)
	if len(list) > 5 {
		list = list[:5]
	}
	parts := make([]string, len(list))
	for i, s := range list {
		parts[i] = s.String()
	}
	return strings.Join(parts, ", ")
}

// fitting is every triple that multiplies to n and breaks no rule. There is always one: n × 1 × 1,
// where expert divides n.
func (w *work) fitting(asked sizes, n int) []sizes {
	var out []sizes
	for _, t := range divisors(n) {
		if w.uneven && t > 1 && w.crosses(t) {
			continue
		}
		for _, p := range divisors(n / t) {
			if s := (sizes{n / t / p, p, t}); w.allowed(s) && (s.data%w.expert == 0 || n%w.expert != 0) {
				out = append(out, s)
			}
		}
	}
	far := func(s sizes) float64 {
		d := 0.0
		for _, p := range [][2]int{{s.data, asked.data}, {s.pipeline, asked.pipeline}, {s.tensor, asked.tensor}} {
			d += math.Abs(math.Log(float64(p[0]) / float64(max(1, p[1]))))
		}
		return d
	}
	slices.SortStableFunc(out, func(a, b sizes) int { return cmp.Compare(far(a), far(b)) })
	return out
}

func divisors(n int) []int {
	var low, high []int
	for d := 1; d*d <= n; d++ {
		if n%d == 0 {
			low = append(low, d)
			if d*d != n {
				high = append(high, n/d)
			}
		}
	}
	slices.Reverse(high)
	return append(low, high...)
}

// numbers joins the first few.
func numbers(list []int, most int) string {
	parts := make([]string, 0, most)
	for _, n := range list[:min(len(list), most)] {
		parts = append(parts, strconv.Itoa(n))
	}
	return strings.Join(parts, ", ")
}

// settleZero finds DeepSpeed's stage.
func (w *work) settleZero() {
	if !w.deepspeed() || len(w.fw.strategies) == 0 {
		return
	}
	w.zero = 2
	switch {
	case w.kind == fsdp:
		w.zero = 3
	case w.sizes.pipeline > 1 || w.fw.id == "megatron-lm":
		w.zero = 1
	}
	if w.st.ZeroStage != nil {
		w.zero = *w.st.ZeroStage
	}
	at := atStrategy + ".zeroStage"
	switch {
	case w.sizes.pipeline > 1 && w.zero > 1:
		w.refuse(at, fault.T("DeepSpeed's pipelines go with ZeRO stages 0 and 1, not %d.", "DeepSpeed 流水线仅支持 ZeRO 阶段 0 和 1，不支持 %d。", w.zero))
	case w.kind == fsdp && w.zero != 3:
		w.refuse(at, fault.T("The strategy fsdp is ZeRO stage 3, not %d; use ddp for the lower stages.", "策略 fsdp 即 ZeRO 阶段 3，而不是 %d；较低阶段请使用 ddp。", w.zero))
	case w.kind == ddp && w.zero == 3:
		w.refuse(at, fault.T("ZeRO stage 3 cuts the parameters: that is the strategy fsdp.", "ZeRO 阶段 3 会切分参数，请使用策略 fsdp。"))
	case w.st.Offload == api.OffloadCPU && w.zero == 0:
		w.refuse(atStrategy+".offload", fault.T("Offload needs ZeRO stage 1 or higher.", "卸载需要 ZeRO 阶段 1 或更高。"))
	}
}
