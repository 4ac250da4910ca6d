package handover

import (
	"maps"
	"slices"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine/kubeengine/keeper"
	"github.com/fermi-cluster/fermi/internal/server"
)

// silent is how long a keeper may say nothing of a gang before it is asked whether it is there at all.
const silent = 30 * time.Second

// Explain says of work that was handed over and not let in yet what the keeper of the queue says of it; false: it waits for none.
func (d *Desk) Explain(id string, out *server.Explanation) bool {
	var waits []keeper.Asked
	for _, zone := range slices.Sorted(maps.Keys(d.Zones)) {
		if a, ok := d.Zones[zone].Waits(id); ok {
			waits = append(waits, a)
		}
	}
	if len(waits) == 0 {
		return false
	}
	first := waits[0]
	out.Reason = keeper.WaitsForQueue
	out.Message = api.T("It has its place, and waits until %s lets it in, in queue %s of cluster %s.", "已分配位置，等待集群 %[3]s 的 %[1]s 在队列 %[2]s 中准入。", first.Keeper.Title(), first.Queue, first.Zone)
	for _, a := range waits {
		out.Evidence = append(out.Evidence, evidence(a, d.Clock.Now())...)
	}
	look := "kubectl describe " + first.Keeper.Resource() + " " + first.Name
	out.Action = api.T("More room in that queue, or a smaller gang. The cluster tells more: %s", "扩大该队列的配额，或减小任务组规模。可在集群中查看详情：%s", look)
	return true
}

// evidence is what is known of a gang in one queue.
func evidence(a keeper.Asked, now time.Time) (out []api.Text) {
	who := a.Keeper.Title()
	out = append(out, api.T("handed over to queue %s of cluster %s at %s UTC", "已于 %[3]s（UTC）移交给集群 %[2]s 的队列 %[1]s", a.Queue, a.Zone, a.Since.Format(time.DateTime)))
	for _, said := range a.Said {
		out = append(out, api.T("%s says: %s", "%s 的答复：%s", who, strings.TrimSpace(said)))
	}
	if len(a.Said) > 0 {
		return out
	}
	if now.Sub(a.Since) < silent {
		return append(out, api.T("%s has not said anything of it yet", "%s 尚未答复", who))
	}
	return append(out, api.T("%s has not said anything of it: does its controller run, and is there a queue %s?", "%s 一直没有答复：请检查其控制器是否运行，以及队列 %s 是否存在", who, a.Queue))
}
