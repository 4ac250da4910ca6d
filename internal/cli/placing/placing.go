// Package placing has the flags about where work may stand.
//
// Place: layer 5, below cli, whose commands add them. Promise: flags that are not given change nothing. Enemies: none but typing errors, which the server
// names.
package placing

import (
	"github.com/spf13/pflag"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/spot"
)

// Flags are what is given.
type Flags struct {
	zones []string
	spot  string
}

// Bind makes them known; both joins the two languages.
func (p *Flags) Bind(to *pflag.FlagSet, both func(en, zh string) string) {
	to.StringSliceVar(&p.zones, "zone", nil, both("only in this zone; may be repeated", "只在该可用区运行；可重复"))
	to.StringVar(&p.spot, "spot", "", both("nodes that may be taken away at short notice: never, prefer or only; as good as others when absent", "可能被随时回收的竞价节点：never（不用）、prefer（优先）或 only（仅用）；默认与其他节点等同"))
}

// Into puts them over a task.
func (p *Flags) Into(t *api.TrainingTask) {
	if len(p.zones) == 0 && p.spot == "" {
		return
	}
	if t.Spec.Zones == nil {
		t.Spec.Zones = &api.ZoneRules{}
	}
	if len(p.zones) > 0 {
		t.Spec.Zones.Allow = p.zones
	}
	if p.spot != "" {
		t.Spec.Zones.Spot = spot.Rule(p.spot)
	}
}
