package v1

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fermi-cluster/fermi/api/v1/spot"
)

const maxFallbacks = 8

// elastic checks a role's range.
func (f *faults) elastic(at string, r *Role) {
	low, high := r.Range()
	if r.MinReplicas != nil {
		f.count(at+".minReplicas", low, 1, max(r.Replicas, 1))
	}
	if r.MaxReplicas != nil {
		f.count(at+".maxReplicas", high, r.Replicas, maxReplicas)
	}
}

// elasticTask refuses ranges where the number of replicas is part of something fixed.
func (f *faults) elasticTask(s *TrainingTaskSpec) {
	oneOf(f, "spec.batch", s.Batch, []BatchRule{"", BatchKeepGlobal, BatchRescaleLR})
	if s.Restart != nil {
		f.span("spec.restartPolicy.rdzvTimeout", s.Restart.RdzvTimeout)
		if s.Restart.Interval != 0 {
			f.add("spec.restartPolicy.interval", "It is another name for window; give one of the two.", "它是 window 的另一名称，请只写其中一个。")
		}
	}
	if !s.Elastic() {
		return
	}
	for i := range s.Roles {
		if low, high := s.Roles[i].Range(); low != high && len(s.Roles) > 1 {
			f.add(item("spec.roles", i)+rangeField(&s.Roles[i]), "Only a task of one role can grow and shrink; this one has %d.", "只有单一角色的任务才能伸缩；此任务有 %d 个角色。", len(s.Roles))
		}
	}
	if s.Framework != "" && s.Framework != FrameworkPlain && s.Framework != "pytorch-ddp" {
		f.add("spec.framework", "%s has a fixed number of processes; minReplicas and maxReplicas go with plain and pytorch-ddp.", "%s 的进程数固定；minReplicas 和 maxReplicas 仅适用于 plain 和 pytorch-ddp。", quote(string(s.Framework)))
	}
	if s.Zones != nil && len(s.Zones.Split) > 0 {
		f.add("spec.zones.split", "A split fixes the number of replicas; leave it out, or minReplicas and maxReplicas.", "split 固定了副本数；请去掉它，或去掉 minReplicas 和 maxReplicas。")
	}
}

// spares refuses them where another replica could not take a lost one's place.
func (f *faults) spares(s *TrainingTaskSpec) {
	for i := range s.Roles {
		r := &s.Roles[i]
		if r.Spares == 0 {
			continue
		}
		at := item("spec.roles", i) + ".spares"
		f.count(at, r.Spares, 0, maxSpares)
		low, high := r.Range()
		switch {
		case len(s.Roles) > 1:
			f.add(at, "Only a task of one role can have spares; this one has %d.", "只有单一角色的任务才能有备用副本；此任务有 %d 个角色。", len(s.Roles))
		case len(s.Inside) > 0:
			f.add(at, "A task inside others has their places and none of its own; leave spares out.", "在其他任务内部运行的任务没有自己的位置，请去掉 spares。")
		case low != high:
			f.add(at, "An elastic task goes on with fewer instead; leave out spares, or minReplicas and maxReplicas.", "弹性任务会以更少的副本继续；请去掉 spares，或去掉 minReplicas 和 maxReplicas。")
		case s.Framework != "" && s.Framework != FrameworkPlain && s.Framework != "pytorch-ddp":
			f.add(at, "With %s no other process can take a lost one's part of the state; spares go with plain and pytorch-ddp.", "使用 %s 时其他进程无法接替丢失进程的那部分状态；spares 仅适用于 plain 和 pytorch-ddp。", quote(string(s.Framework)))
		case s.Restart == nil || s.Restart.MaxRestarts == 0:
			f.add(at, "A spare is taken by a restart, and none is allowed; set restartPolicy.maxRestarts.", "启用备用副本需要一次重启，而当前不允许重启；请设置 restartPolicy.maxRestarts。")
		case s.Zones != nil && (len(s.Zones.Split) > 0 || s.Zones.SurviveZoneLoss):
			f.add(at, "zones.split and zones.surviveZoneLoss fix where each replica stands; leave them out, or spares.", "zones.split 和 zones.surviveZoneLoss 固定了各副本的位置；请去掉它们，或去掉 spares。")
		}
	}
}

// rangeField is the field that makes the role's number of replicas a range.
func rangeField(r *Role) string {
	if r.MinReplicas != nil && *r.MinReplicas != r.Replicas {
		return ".minReplicas"
	}
	return ".maxReplicas"
}

func (f *faults) accelerators(at string, a *Accelerators) {
	if a.Type != "" && a.Count == 0 {
		f.add(at+".count", "A type without a count asks for nothing; say how many devices, 1 to %d.", "只有类型而没有数量；请写明设备数量，1 到 %d。", maxAccel)
	}
	if a.Share != 0 && a.Count != 1 {
		f.add(at+".share", "A part of a device goes with count 1, not %d.", "按份额使用时 count 应为 1，而不是 %d。", a.Count)
	}
	types := a.Types()
	if len(types) > maxFallbacks {
		f.add(at+".type", "There are %d types; at most %d are allowed.", "类型有 %d 种，最多允许 %d 种。", len(types), maxFallbacks)
		return
	}
	seen := map[string]bool{}
	for _, t := range types {
		if t == "" && strings.Contains(a.Type, "|") {
			f.add(at+".type", "%s has a '|' with no type beside it; write it like A100|H800.", "%s 的 '|' 旁缺少类型，请写成 A100|H800 这样的形式。", quote(a.Type))
			return
		}
		if seen[FoldDevice(t)] {
			f.add(at+".type", "%s stands twice; name it once.", "%s 重复，请只保留一个。", quote(t))
			return
		}
		seen[FoldDevice(t)] = true
		if utf8.RuneCountInString(t) > maxWord || !printable(t) {
			f.word(at+".type", t, false)
			return
		}
	}
	if strings.TrimSpace(a.Type) != a.Type {
		f.word(at+".type", a.Type, false)
	}
}

func (f *faults) zoneRules(at string, s *TrainingTaskSpec) {
	z := s.Zones
	if z == nil {
		return
	}
	f.names(at+".allow", z.Allow)
	f.names(at+".deny", z.Deny)
	for i, n := range z.Deny {
		if slices.Contains(z.Allow, n) {
			f.add(item(at+".deny", i), "The zone %s is both allowed and denied; keep one.", "可用区 %s 同时被允许和禁止，请只保留一处。", quote(n))
		}
	}
	total := 0
	for _, r := range s.Roles {
		total += r.Replicas
	}
	for _, zone := range sortedKeys(z.Split) {
		f.name(child(at+".split", zone), zone)
	}
	f.list = append(f.list, z.Split.Check(at+".split", total, func(zone string) bool {
		return slices.Contains(z.Deny, zone) || len(z.Allow) > 0 && !slices.Contains(z.Allow, zone)
	})...)
	f.survivors(at, s)
	f.data(at+".data", z.Data)
	f.span(at+".maxLatency", z.MaxLatency)
	f.list = append(f.list, z.Prefer.Check(at+".prefer")...)
	oneOf(f, at+".sameRegion", z.SameRegion, []RegionRule{RegionPrefer, RegionRequire})
	oneOf(f, at+".spot", z.Spot, spot.Rules)
}

// survivors checks that the loss of a zone can leave enough of each role.
func (f *faults) survivors(at string, s *TrainingTaskSpec) {
	z := s.Zones
	if !z.SurviveZoneLoss {
		return
	}
	if len(z.Split) == 1 || len(z.Allow) == 1 {
		f.add(at+".surviveZoneLoss", "What stands in one zone is lost with it; let the task stand in two zones or more.", "仅位于一个可用区的任务会随其丢失；请至少使用两个可用区。")
	}
	for i, r := range s.Roles {
		if r.Replicas == 1 {
			f.add(at+".surviveZoneLoss", "Role %s (spec.roles[%d]) has one replica, which is lost with its zone; give it two or more.", "角色 %s（spec.roles[%d]）只有一个副本，会随所在可用区丢失；请至少使用两个。", quote(r.Name), i)
			return
		}
	}
	if len(s.Roles) != 1 {
		return
	}
	r := &s.Roles[0]
	keep := max(r.Replicas/2, 1)
	if r.MinReplicas != nil && *r.MinReplicas < r.Replicas {
		keep = *r.MinReplicas
	}
	for _, zone := range sortedKeys(z.Split) {
		if left := r.Replicas - z.Split[zone].Least; left < keep && len(z.Split) > 1 {
			f.add(child(at+".split", zone), "The loss of this zone leaves %d of %d replicas; surviveZoneLoss needs %d.", "失去该可用区后仅剩 %d/%d 个副本；surviveZoneLoss 需要 %d 个。", left, r.Replicas, keep)
		}
	}
}

// maxData bounds what a task says it reads.
const maxData = 64

// data checks what is read and where it lies. Zones that do not exist yet may be named.
func (f *faults) data(at string, list []DataPlace) {
	if len(list) > maxData {
		f.add(at, "There are %d; at most %d are allowed.", "共有 %d 项，最多允许 %d 项。", len(list), maxData)
		return
	}
	for i, d := range list {
		path := item(at, i)
		if d.Bytes < 1 || d.Bytes > maxMemory {
			f.add(path+".bytes", "%s is out of range: 1 byte to 1Pi are allowed.", "%s 超出范围：允许 1 字节到 1Pi。", d.Bytes)
		}
		if len(d.Zones) == 0 {
			f.add(path+".zones", "Name the zones that have it.", "请写明数据所在的可用区。")
		}
		f.names(path+".zones", d.Zones)
	}
}

// timing checks how long, until when, and whether it may wait. Whether a deadline lies ahead is
// judged by who has a clock.
func (f *faults) timing(s *TrainingTaskSpec) {
	f.span("spec.expectedTime", s.ExpectedTime)
	switch s.Deferrable {
	case "":
	case DeferCheap, DeferGreen:
		if s.ExpectedTime == 0 {
			f.add("spec.deferrable", "To choose hours, its length must be known; give expectedTime.", "选择时段需要知道任务时长，请填写 expectedTime。")
		}
	default:
		f.add("spec.deferrable", "%s is nothing to wait for; use cheap or green.", "%s 不是合法的取值，请使用 cheap 或 green。", quote(string(s.Deferrable)))
	}
	f.list = append(f.list, s.Topology.Check("spec.topology")...)
}
