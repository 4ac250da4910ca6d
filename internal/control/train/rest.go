package train

import (
	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
)

// doesNothing is why a running task's message says that its processes do nothing. Nobody knows how far they are, so nothing is done about it.
const doesNothing = "DoesNothing"

// rest says that all processes of a running task do nothing, and that they do something again.
func (s *snapshot) rest(p *plan, units []gang.Unit) {
	if p.status.Phase != api.PhaseRunning {
		return
	}
	r := resting(units)
	switch {
	case r == nil && p.status.Reason == doesNothing:
		p.note("Started", s.allRun())
	case r != nil:
		text := fault.T("Its processes have done nothing for 10 minutes: no processor time, nothing read, written or printed. `fermi train profile %[1]s --rank %[2]d` shows what rank %[2]d waits for; `fermi train stop %[1]s` ends it.",
			"其进程已有 10 分钟没有任何活动：未使用处理器，没有读写，也没有输出。可用 `fermi train profile %[1]s --rank %[2]d` 查看 rank %[2]d 在等待什么；用 `fermi train stop %[1]s` 停止任务。", s.Task.Meta.Name, r.Rank)
		p.tell(true, doesNothing, "nothing-"+generations(&p.status), text)
		if p.status.Reason == "Started" {
			p.note(doesNothing, text)
		}
	}
}

// resting is a rank that does nothing, where all do so that have not ended; nil: one does something, or tells how far it is.
func resting(units []gang.Unit) (one *link.RankState) {
	for i := range units {
		for k := range units[i].Members {
			m := &units[i].Members[k]
			if m.Ended() {
				continue
			}
			if !m.Attached || m.Said.Watched || m.Said.Generation != int64(units[i].Generation) || len(m.Said.Hung) == 0 {
				return nil
			}
			if one == nil {
				one = &m.Said.Hung[0]
			}
		}
	}
	return one
}
