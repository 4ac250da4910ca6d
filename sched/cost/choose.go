package cost

import (
	"fmt"
	"math"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// The names of options.
const (
	Planned = "planned"
	Cheaper = "cheaper"
	Faster  = "faster"
	Greener = "greener"
	Safer   = "safer"
	Sooner  = "sooner"
)

// axis is one way to be better: less than 0 when a is better than b; ok is false where they cannot
// be compared.
type axis struct {
	name    string
	compare func(a, b Place) (order int, ok bool)
}

var axes = []axis{
	{Cheaper, func(a, b Place) (int, bool) {
		if len(a.Prices) != 1 || len(b.Prices) != 1 || a.Prices[0].Currency != b.Prices[0].Currency {
			return 0, false
		}
		currency := a.Prices[0].Currency
		return order(a.money[currency], b.money[currency]), true
	}},
	{Faster, func(a, b Place) (int, bool) { return order(a.Latency.P50Ms, b.Latency.P50Ms), true }},
	{Greener, func(a, b Place) (int, bool) {
		if a.grams == nil || b.grams == nil {
			return 0, false
		}
		return order(*a.grams, *b.grams), true
	}},
	{Safer, func(a, b Place) (int, bool) {
		return order(float64(a.RackLoss.Replicas), float64(b.RackLoss.Replicas)), true
	}},
}

func order[N Nano | float64](a, b N) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// Choose names at most limit of the candidates that beat the planned place on an axis, the best on
// each; a candidate is named once. Of equals the first.
func Choose(planned Place, candidates []Place, limit int) []api.PlacementOption {
	var out []api.PlacementOption
	used := make([]bool, len(candidates))
	for _, x := range axes {
		best := -1
		for i, c := range candidates {
			if better, ok := x.compare(c, planned); used[i] || !ok || better >= 0 {
				continue
			}
			if best < 0 {
				best = i
			} else if better, ok := x.compare(c, candidates[best]); ok && better < 0 {
				best = i
			}
		}
		if best < 0 || len(out) == limit {
			continue
		}
		used[best] = true
		o := candidates[best].PlacementOption
		o.Name, o.Text = x.name, Trade(planned, candidates[best])
		out = append(out, o)
	}
	return out
}

// Trade says in words what an option wins and loses against the planned place.
func Trade(planned, option Place) api.Text {
	var en, zh []string
	add := func(t api.Text) { en, zh = append(en, t.EN), append(zh, t.ZH) }
	if len(planned.Prices) == 1 && len(option.Prices) == 1 && planned.Prices[0].Currency == option.Prices[0].Currency {
		a, b := planned.Prices[0], option.Prices[0]
		if a.Total != b.Total {
			add(api.T("%s/h instead of %s", "每小时 %s，原为 %s", Money(b.Total, b.Currency), Money(a.Total, a.Currency)))
		}
	}
	if a, b := planned.Latency.P50Ms, option.Latency.P50Ms; a != b {
		add(api.T("%v ms between its zones instead of %v", "区间延迟 %v 毫秒，原为 %v", b, a))
	}
	if a, b := planned.Efficiency.Percent, option.Efficiency.Percent; a != b {
		add(api.T("about %.0f %% efficiency instead of %.0f %%", "预计效率 %.0f%%，原为 %.0f%%", b, a))
	}
	if planned.grams != nil && option.grams != nil && *planned.grams != *option.grams {
		add(api.T("%.1f kg CO₂/h instead of %.1f", "每小时 %.1f kg CO₂，原为 %.1f", option.grams.Float()/1000, planned.grams.Float()/1000))
	}
	if a, b := planned.RackLoss, option.RackLoss; a.Replicas != b.Replicas {
		add(api.T("one rack takes %d [replica|replicas] with it instead of %d", "单机架故障影响 %d 个副本，原为 %d 个", b.Replicas, a.Replicas))
	}
	for _, z := range option.Zones {
		if z.Degraded {
			add(api.T("%s is degraded", "%s 处于降级状态", z.Zone))
		}
	}
	if len(en) == 0 {
		return api.T("as good as the planned place", "与计划位置相当")
	}
	return api.Text{EN: strings.Join(en, "; "), ZH: strings.Join(zh, "；")}
}

// Money writes an amount with its currency: ¥404.00, or 12.50 USD.
func Money(amount float64, currency string) string {
	if currency == api.DefaultCurrency {
		return fmt.Sprintf("¥%.2f", amount)
	}
	return fmt.Sprintf("%.2f %s", amount, currency)
}

// Amount is what a run comes to, for people: money, or, for who waits for clean hours, CO₂.
func Amount(n Nano, of api.Deferral, currency string) string {
	if of == api.DeferGreen {
		return fmt.Sprintf("%.1f kg CO₂", n.Float()/1000)
	}
	return Money(n.Float(), currency)
}

// Whole is it in whole units.
func (n Nano) Whole() int { return int(math.Round(n.Float())) }
