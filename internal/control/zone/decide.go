package zone

import (
	"maps"
	"slices"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/sched/cost"
)

// The reasons of a zone's health.
const (
	ReasonSetByHand   = "SetByHand"
	ReasonAllWell     = "AllWell"
	ReasonOutage      = "Outage"
	ReasonNoNodes     = "NoNodes"
	ReasonUnreachable = "EngineUnreachable"
	ReasonNotReady    = "NodesNotReady"
	ReasonSlowLinks   = "SlowLinks"
)

// unreported is the reason that control/node gives a node of which no engine speaks.
const unreported = "NotReported"

// seen is a zone and what stands in it.
type seen struct {
	zone                       *api.Zone
	peers                      map[string]bool                // other zones that exist
	trips                      map[string]api.MeasuredLatency // the newest that tasks measured from here, by zone
	nodes, ready, silent, devs int
	trouble                    *fault.Error // nil: its engine can be used
	retired                    int          // cordoned and not ready: an operator knows, they count neither way
}

// decide is the zone's status.
func decide(s seen, now time.Time) api.ZoneStatus {
	st := api.ZoneStatus{
		Health: api.ZoneDegraded, Nodes: s.nodes, Ready: s.ready, Devices: s.devs, Measured: keep(s, now),
		PricedSince: s.zone.Status.PricedSince,
	}
	wanted := s.nodes - s.retired
	slow, worst := slowLinks(s.zone, st.Measured, now)
	links := len(s.zone.Spec.LatencyMs)
	switch {
	case s.zone.Spec.Outage:
		st.Reason, st.Message = ReasonOutage, fault.T("An operator said that the zone is out; it takes no work until fermi zone recover %s.", "运维人员已将该可用区标记为中断；执行 fermi zone recover %s 之前不接收任务。", s.zone.Meta.Name)
	case s.zone.Spec.Health != "":
		st.Health, st.Reason = s.zone.Spec.Health, ReasonSetByHand
		st.Message = byHand(s.zone.Spec.HealthReason)
	case s.trouble != nil:
		st.Reason, st.Message = ReasonUnreachable, s.trouble.Message
		if hint := s.trouble.Hint; !hint.IsZero() {
			st.Message = fault.Text{EN: st.Message.EN + " " + hint.EN, ZH: st.Message.ZH + hint.ZH}
		}
	case wanted == 0:
		st.Reason, st.Message = ReasonNoNodes, fault.T("The zone has no nodes in use.", "该可用区没有可用的节点。")
	case s.silent == wanted:
		st.Reason = ReasonUnreachable
		st.Message = fault.T("No engine reports any of its %d [node|nodes].", "没有引擎上报其 %d 个节点。", wanted)
	case s.ready*10 < wanted*9:
		st.Reason = ReasonNotReady
		st.Message = fault.T("Only %[1]d of %[2]d [node is|nodes are] ready.", "仅 %d/%d 个节点就绪。", s.ready, wanted)
	case slow*2 > links:
		st.Reason = ReasonSlowLinks
		st.Message = fault.T("%[1]d of %[2]d links are slower than declared; to %[3]s it takes %[4]v ms instead of %[5]v.",
			"%[1]d/%[2]d 条链路慢于标称；到 %[3]s 实测 %[4]v 毫秒，标称 %[5]v 毫秒。",
			slow, links, worst, st.Measured[worst].P50Ms, s.zone.Spec.LatencyMs[worst])
	default:
		st.Health, st.Reason = api.ZoneHealthy, ReasonAllWell
	}
	return st
}

// byHand is a reason that an operator wrote: for everybody or, in two lines, in English and in Chinese.
func byHand(reason string) fault.Text {
	if en, zh, two := strings.Cut(strings.TrimSpace(reason), "\n"); two && !strings.Contains(zh, "\n") {
		return fault.Text{EN: strings.TrimSpace(en), ZH: strings.TrimSpace(zh)}
	}
	return fault.Text{EN: reason, ZH: reason}
}

// slowLinks counts declared links that were lately measured in a worse class. More than half must be
// slow to blame this zone: one far zone that is ill makes one link slow here.
func slowLinks(z *api.Zone, measured map[string]api.MeasuredLatency, now time.Time) (slow int, worst string) {
	for _, to := range slices.Sorted(maps.Keys(measured)) {
		m := measured[to]
		declared, ok := z.Spec.LatencyMs[to]
		if !ok || now.Sub(m.At) > cost.Fresh {
			continue
		}
		if cost.ClassOf(m.P50Ms).Rank() > cost.ClassOf(declared).Rank() {
			slow++
			if worst == "" || m.P50Ms > measured[worst].P50Ms {
				worst = to
			}
		}
	}
	return slow, worst
}
