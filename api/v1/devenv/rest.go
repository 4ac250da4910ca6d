package devenv

import (
	"fmt"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/activity"
	"github.com/fermi-cluster/fermi/api/v1/quota"
	"github.com/fermi-cluster/fermi/internal/fault"
)

const (
	minIdle = api.Duration(time.Minute)
	maxIdle = api.Duration(30 * 24 * time.Hour)
)

// IdleAfter is after how long without activity it is stopped, where its operator says what counts when it says nothing; 0: never.
func (e *DevEnvironment) IdleAfter(p Policy) time.Duration {
	after := p.IdleAfter
	if i := e.Spec.Idle; i != nil {
		switch {
		case i.Never:
			after = 0
		case i.After > 0:
			after = i.After.Std()
		}
	}
	if p.IdleMost > 0 && (after <= 0 || after > p.IdleMost) { // made before the operator said so
		after = p.IdleMost
	}
	return after
}

// IdleCounts are the signals that count; none: all.
func (e *DevEnvironment) IdleCounts() []activity.Name {
	if e.Spec.Idle == nil {
		return nil
	}
	return e.Spec.Idle.Counts
}

func (e *DevEnvironment) checkRest() (out []fault.Field) {
	add := func(path, en, zh string, args ...any) {
		out = append(out, fault.Field{Path: path, Message: fault.T(en, zh, args...)})
	}
	if s := e.Spec.Schedule; s != nil {
		out = append(out, s.check()...)
	}
	i := e.Spec.Idle
	if i == nil {
		return out
	}
	switch {
	case i.Never && i.After != 0:
		add("spec.idle.never", "Either never, or after some time.", "never 与 after 只能选择其一。")
	case i.After != 0 && (i.After < minIdle || i.After > maxIdle):
		add("spec.idle.after", "Between %v and %v.", "须在 %v 与 %v 之间。", minIdle, maxIdle)
	}
	for n, name := range i.Counts {
		path := fmt.Sprintf("spec.idle.counts[%d]", n)
		switch {
		case !slices.Contains(activity.All, name):
			add(path, "There is no signal %q; there are: %v.", "没有信号 %q；可用的有：%v。", clip(string(name)), activity.All)
		case slices.Contains(i.Counts[:n], name):
			add(path, "%q is there twice.", "%q 重复。", name)
		}
	}
	return out
}

func clip(s string) string { return s[:min(len(s), 64)] }

// Policy is the operator's word about all environments.
type Policy struct {
	IdleAfter time.Duration // of those that say nothing; 0: never
	IdleMost  time.Duration // the longest that one may choose; 0: any, and never
	// Most is what one may have; what is 0 is not bounded but by the kind itself.
	Most Amounts
	// User is what a user has whose quota says nothing; what is 0 is not bounded.
	User quota.Environments
	// Images are the beginnings of the names that images may have, of all work; none: any.
	Images []string
}

// Amounts are what one environment has.
type Amounts struct {
	Accelerators int
	CPU          api.MilliCPU
	Memory       api.Bytes
	Storage      api.Bytes
}

// Refuse lists what an operator does not allow.
func (p Policy) Refuse(e *DevEnvironment) (out []fault.Field) {
	add := func(path, en, zh string, args ...any) {
		out = append(out, fault.Field{Path: path, Message: fault.T(en, zh, args...)})
	}
	r, m := e.Spec.Resources, p.Most
	if m.Accelerators > 0 && r.Accelerators.Count > m.Accelerators {
		add("spec.resources.accelerators.count", "The operator allows at most %d accelerators in an environment; it asks for %d.", "运维设定一个环境最多 %d 张加速卡，申请了 %d 张。", m.Accelerators, r.Accelerators.Count)
	}
	if m.CPU > 0 && r.CPU > m.CPU {
		add("spec.resources.cpu", "The operator allows at most %v cores in an environment.", "运维设定一个环境最多 %v 核。", m.CPU)
	}
	if m.Memory > 0 && r.Memory > m.Memory {
		add("spec.resources.memory", "The operator allows at most %v of memory in an environment.", "运维设定一个环境的内存最多为 %v。", m.Memory)
	}
	if m.Storage > 0 && e.Spec.Storage > m.Storage {
		add("spec.storage", "The operator allows at most %v of storage in an environment.", "运维设定一个环境的存储最多为 %v。", m.Storage)
	}
	if i := e.Spec.Idle; i != nil && p.IdleMost > 0 && (i.Never || i.After.Std() > p.IdleMost) {
		path := "spec.idle.after"
		if i.Never {
			path = "spec.idle.never"
		}
		add(path, "The operator has every environment stopped after %v without activity at the latest.", "运维设定环境最长 %v 无活动即停止。", api.Duration(p.IdleMost))
	}
	return out
}
