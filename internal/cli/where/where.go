// Package where has the flags about the zones that work may and would rather stand in, and whether it is moved.
//
// Place: layer 5, below cli, whose commands add them. Promise: flags that are not given change nothing. Enemies: weights that are read as a rule.
package where

import (
	"github.com/spf13/pflag"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/spot"
	"github.com/fermi-cluster/fermi/api/v1/where"
)

// Task is what is said of a task.
type Task struct {
	Zones  []string
	Prefer Weights
	Stay   bool
	spot   spot.Rule
	split  Split
	even   bool
}

// Add makes it known; both joins the two languages.
func (f *Task) Add(to *pflag.FlagSet, both func(en, zh string) string) {
	to.StringSliceVar(&f.Zones, "zone", nil, both("only in this zone; may be repeated", "只在该可用区运行；可重复"))
	Spot(to, &f.spot, both)
	to.Var(&f.split, "split", both("replicas by zone: beijing-1=2,shanghai-1=4, or at least and at most: beijing-1=2..6,shanghai-1=2..4; names alone share them evenly: beijing-1,shanghai-1", "各可用区的副本数：beijing-1=2,shanghai-1=4，或下限与上限：beijing-1=2..6,shanghai-1=2..4；只写名称则平均分配：beijing-1,shanghai-1"))
	to.BoolVar(&f.even, "balance", false, both("replicas stand where most room is left, so that zones fill up evenly", "副本放在剩余空位最多的可用区，使各可用区均衡"))
	f.Prefer.add(to, both)
	to.BoolVar(&f.Stay, "stay", false, both("it is never moved so that others find room", "不为给其他任务腾出整块空位而迁移"))
}

// Spot makes the flag known that work of all kinds has.
func Spot(to *pflag.FlagSet, rule *spot.Rule, both func(en, zh string) string) {
	to.StringVar((*string)(rule), "spot", "", both("nodes that may be taken away at short notice: never, prefer or only; as good as others when absent", "可能被随时回收的竞价节点：never（不用）、prefer（优先）或 only（仅用）；默认与其他节点等同"))
}

// Over puts what was given over a task.
func (f *Task) Over(t *api.TrainingTask) {
	if len(f.Zones) == 0 && f.Prefer.Value == nil && !f.Stay && f.spot == "" && !f.even && len(f.split.zones) == 0 {
		return
	}
	if t.Spec.Zones == nil {
		t.Spec.Zones = &api.ZoneRules{}
	}
	if len(f.Zones) > 0 {
		t.Spec.Zones.Allow = f.Zones
	}
	if f.Prefer.Value != nil {
		t.Spec.Zones.Prefer = f.Prefer.Value
	}
	if len(f.split.zones) > 0 {
		t.Spec.Zones.Split = f.split.of(t)
	}
	t.Spec.Zones.Balance = t.Spec.Zones.Balance || f.even
	t.Spec.Zones.Stay = t.Spec.Zones.Stay || f.Stay
	if f.spot != "" {
		t.Spec.Zones.Spot = f.spot
	}
}

// Queue is what is said of the tasks of a queue.
type Queue struct {
	prefer Weights
	stay   bool
}

// Add makes it known.
func (f *Queue) Add(to *pflag.FlagSet, both func(en, zh string) string) {
	f.prefer.add(to, both)
	to.BoolVar(&f.stay, "stay", false, both("none of its tasks is moved so that others find room", "不为给其他任务腾出整块空位而迁移其任务"))
}

// Over puts what was given over a queue.
func (f *Queue) Over(q *api.Queue, given func(flag string) bool) {
	if given("prefer") {
		q.Spec.Prefer = f.prefer.Value
	}
	if given("stay") {
		q.Spec.Stay = f.stay
	}
}

// Weights are the flag --prefer. It is a pflag.Value.
type Weights struct{ Value *where.Weights }

func (w *Weights) add(to *pflag.FlagSet, both func(en, zh string) string) {
	to.Var(w, "prefer", both("what counts between zones that have room, as price=3,carbon=1,latency=1; empty is what was said elsewhere, else the price alone", "在有空位的可用区之间如何取舍，如 price=3,carbon=1,latency=1；空为沿用其他设置，均无则只看价格"))
}

// Set reads it.
func (w *Weights) Set(text string) (err error) {
	if w.Value = nil; text != "" {
		w.Value, err = where.Parse(text)
	}
	return err
}

// String is for the help: nothing when absent.
func (*Weights) String() string { return "" }

// Type is for the help.
func (*Weights) Type() string { return "string" }
