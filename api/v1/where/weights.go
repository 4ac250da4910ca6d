package where

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/fermi-cluster/fermi/api/v1/quantity"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Weights are what counts between zones that have room: each part is how many percent more a stay costs, burns or loses there than in
// the best of them, times its weight. Only what they are to each other matters.
type Weights struct {
	Price   int `json:"price,omitempty" minimum:"0" maximum:"100" doc:"Of the money for the whole stay."`
	Carbon  int `json:"carbon,omitempty" minimum:"0" maximum:"100" doc:"Of the CO₂ of the whole stay; counts where all the zones have a carbon figure."`
	Latency int `json:"latency,omitempty" minimum:"0" maximum:"100" doc:"Of the time lost to the round trip: to the nearest zone that has the task's data, or between its zones where it is cut over several."`
}

// most is the largest weight.
const most = 100

// Check lists what can't be.
func (w *Weights) Check(at string) (out []fault.Field) {
	if w == nil {
		return nil
	}
	for _, part := range w.parts() {
		out = append(out, inRange(at+"."+part.name, part.weight, 0, most)...)
	}
	if *w == (Weights{}) {
		out = append(out, fault.Field{Path: at, Message: fault.T("All weights are 0: nothing counts. Give price, carbon or latency a weight of 1 to %d, or leave it out for the price alone.", "所有权重均为 0，没有可比较的内容。请为 price、carbon 或 latency 设置 1 到 %d 的权重，或删除该字段（只比较价格）。", most)})
	}
	return out
}

type part struct {
	name, zh string
	weight   int
}

func (w *Weights) parts() []part {
	return []part{{"price", "价格", w.Price}, {"carbon", "碳排", w.Carbon}, {"latency", "延迟", w.Latency}}
}

// Text says them: price 3, carbon 1.
func (w *Weights) Text() fault.Text {
	var en, zh []string
	for _, p := range w.parts() {
		if p.weight > 0 {
			en, zh = append(en, fmt.Sprintf("%s %d", p.name, p.weight)), append(zh, fmt.Sprintf("%s %d", p.zh, p.weight))
		}
	}
	return fault.Text{EN: strings.Join(en, ", "), ZH: strings.Join(zh, "、")}
}

// Parse reads price=3,carbon=1; each at most once.
func Parse(text string) (*Weights, error) {
	w := &Weights{}
	to := map[string]*int{"price": &w.Price, "carbon": &w.Carbon, "latency": &w.Latency}
	for pair := range strings.SplitSeq(text, ",") {
		name, number, _ := strings.Cut(pair, "=")
		n, err := strconv.Atoi(number)
		if to[name] == nil || err != nil {
			return nil, quantity.Wrong("%q is not of the form price=3,carbon=1,latency=2.", "%q 应为 price=3,carbon=1,latency=2 的形式。", text)
		}
		*to[name] = n
		delete(to, name)
	}
	return w, nil
}

// Chosen says by what a place was chosen: evenly, or by weights, which are a queue's where one is named; nothing where nobody said what counts.
func Chosen(evenly bool, w *Weights, queue string) fault.Text {
	switch {
	case evenly:
		return fault.T("as evenly over its zones as their room allows (balance)", "按各可用区剩余空位尽量均衡（balance）")
	case w == nil:
		return fault.Text{}
	}
	by := w.Text()
	if queue != "" {
		return fault.T("the best zone with room by %[1]s, as queue %[3]s says", "按队列 %[3]s 的权重（%[2]s）在有空位的可用区中取最优", by.EN, by.ZH, queue)
	}
	return fault.T("the best zone with room by %[1]s", "按权重（%[2]s）在有空位的可用区中取最优", by.EN, by.ZH)
}
