package preflight

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Round is one measurement: what each launcher is asked.
type Round struct {
	ID      string // the same for all; peers know each other by it
	Targets []Target
}

// Target is a peer to connect to.
type Target struct {
	Name      string // role-index
	Address   string
	Bandwidth bool // measure it too
}

// Facts are what a launcher knows of its node and environment.
type Facts struct {
	Versions     map[string]string // python, torch, driver …; what is not there is absent
	FreeDisk     int64             // bytes
	SharedMemory int64             // bytes free
}

// Report is what a launcher answers to a round.
type Report struct {
	Round   string
	Listen  string // why it can't listen on one of its ports, as Refused …; "": it can
	Port    int    // that one
	Results []Result
	Devices Devices
}

// Result is one connection.
type Result struct {
	Target
	Error   string // "": it went well
	Latency time.Duration
	Rate    int64 // bytes a second; 0: not measured
}

// The ways a connection fails.
const (
	Refused     = "refused"     // nobody listens, or a firewall says so
	Silent      = "silent"      // no answer at all
	Stranger    = "stranger"    // another program listens there
	Taken       = "taken"       // our own port is another program's
	Unreachable = "unreachable" // no way there
)

// Errors lists them.
var Errors = []string{Refused, Silent, Stranger, Taken, Unreachable}

// Member is a replica as the judge sees it.
type Member struct {
	Name    string // role-index
	Node    string
	Zone    string
	Machine string // what it runs on; "": not known, and taken for one of its own
	Group   string // those that must have the same versions
	Disk    int64  // bytes it asked for
	Memory  int64  // shared memory it asked for
	Facts   *Facts
	Answer  *Report // nil: it has not answered
	Address string  // where others reach it
}

// What is too little where nothing was asked for.
const (
	leastDisk   = 1 << 30
	leastMemory = 32 << 20
)

// MaxFindings bounds what is kept; the first ones are the causes.
const MaxFindings = 20

// Judge names what does not hold. Causes come before what follows from them.
func Judge(members []Member) []api.PreflightFinding {
	var out []api.PreflightFinding
	held := map[string]bool{} // names of those whose own port is taken
	for _, m := range members {
		if m.Answer == nil {
			out = append(out, finding("answer", "%s on node %s did not finish its checks in time; look at its launcher.log.", "节点 %[2]s 上的 %[1]s 未在限定时间内完成检查；请查看其 launcher.log。", m.Name, m.Node))
			continue
		}
		held[m.Name] = m.Answer.Listen != ""
		out = append(out, blocked(m)...)
	}
	out = append(out, pairs(members, held)...)
	out = append(out, versions(members)...)
	for _, m := range members {
		out = append(out, room(m)...)
		out = append(out, sick(m)...)
	}
	if n := len(out) - MaxFindings; n > 0 {
		out = append(out[:MaxFindings-1], finding("more", "And %d more like these.", "另有 %d 项同类问题。", n+1))
	}
	return out
}

// blocked names a port of its own that a replica can't have.
func blocked(m Member) []api.PreflightFinding {
	if m.Answer == nil || m.Answer.Listen == "" {
		return nil
	}
	return []api.PreflightFinding{finding("port", "%s can't listen on port %d of node %s: another program holds it; end that program, or exclude the port there.",
		"%[1]s 无法在节点 %[3]s 的端口 %[2]d 上监听：该端口被其他程序占用；请结束该程序或排除该端口。", m.Name, m.Answer.Port, m.Node)}
}

func finding(field, en, zh string, args ...any) api.PreflightFinding {
	return api.PreflightFinding{Field: field, Message: fault.T(en, zh, args...)}
}

// pairs names the connections that failed, but those to a port whose holder was named already.
func pairs(members []Member, held map[string]bool) (out []api.PreflightFinding) {
	for _, m := range members {
		if m.Answer == nil {
			continue
		}
		for _, r := range m.Answer.Results {
			if r.Error == "" || held[r.Name] {
				continue
			}
			en, zh := why(r.Error)
			out = append(out, api.PreflightFinding{Field: "pair", Message: fault.Text{
				EN: fmt.Sprintf("%s (node %s) can't reach %s at %s: %s", m.Name, m.Node, r.Name, r.Address, en),
				ZH: fmt.Sprintf("%s（节点 %s）无法连接 %s（%s）：%s", m.Name, m.Node, r.Name, r.Address, zh),
			}})
		}
	}
	return out
}

func why(reason string) (en, zh string) {
	switch reason {
	case Refused:
		return "the connection is refused; allow the port in the firewalls of both nodes.", "连接被拒绝；请在两个节点的防火墙中放行该端口。"
	case Stranger:
		return "another program answers there; end it.", "该地址由其他程序应答；请结束该程序。"
	case Unreachable:
		return "there is no route; check the network between the nodes.", "没有路由；请检查节点间网络。"
	}
	return "there is no answer; allow the port in the firewalls between the nodes.", "没有应答；请在节点间的防火墙中放行该端口。"
}

// versions names what is not the same everywhere in a group.
func versions(members []Member) (out []api.PreflightFinding) {
	groups := map[string]map[string]map[string][]string{} // group → field → version → replicas
	sizes := map[string]int{}
	for _, m := range members {
		if m.Facts == nil {
			continue
		}
		sizes[m.Group]++
		if groups[m.Group] == nil {
			groups[m.Group] = map[string]map[string][]string{}
		}
		for field, version := range m.Facts.Versions {
			if groups[m.Group][field] == nil {
				groups[m.Group][field] = map[string][]string{}
			}
			groups[m.Group][field][version] = append(groups[m.Group][field][version], m.Name)
		}
	}
	for _, g := range slices.Sorted(maps.Keys(groups)) {
		for _, field := range slices.Sorted(maps.Keys(groups[g])) {
			found := groups[g][field]
			have := 0
			for _, names := range found {
				have += len(names)
			}
			if len(found) == 1 && have == sizes[g] {
				continue
			}
			en, zh := []string{}, []string{}
			for _, v := range slices.Sorted(maps.Keys(found)) {
				en, zh = append(en, v+" on "+few(found[v])), append(zh, few(found[v])+" 为 "+v)
			}
			if missing := sizes[g] - have; missing > 0 {
				en, zh = append(en, fmt.Sprintf("none on %d others", missing)), append(zh, fmt.Sprintf("另有 %d 个没有", missing))
			}
			out = append(out, api.PreflightFinding{Field: field, Message: fault.Text{
				EN: fmt.Sprintf("%s differs: %s; use the same environment everywhere.", field, strings.Join(en, ", ")),
				ZH: fmt.Sprintf("%s 版本不一致：%s；请在所有副本使用相同的环境。", field, strings.Join(zh, "，")),
			}})
		}
	}
	return out
}

// few names the first of a list.
func few(names []string) string {
	if len(names) <= 3 {
		return strings.Join(names, " ")
	}
	return strings.Join(names[:3], " ") + fmt.Sprintf(" +%d", len(names)-3)
}

// room names what is short on a node.
func room(m Member) (out []api.PreflightFinding) {
	if m.Facts == nil {
		return nil
	}
	if want := max(m.Disk, leastDisk); m.Facts.FreeDisk < want {
		out = append(out, finding("disk", "Node %[2]s has %[3]s of disk free for %[1]s, which needs %[4]s; free some.", "节点 %[2]s 的可用磁盘为 %[3]s，%[1]s 需要 %[4]s；请清理磁盘。", m.Name, m.Node, api.Bytes(m.Facts.FreeDisk), api.Bytes(want)))
	}
	if want := max(m.Memory, leastMemory); m.Facts.SharedMemory < want {
		out = append(out, finding("sharedMemory", "Node %[2]s has %[3]s of shared memory free for %[1]s, which needs %[4]s; enlarge /dev/shm.", "节点 %[2]s 的可用共享内存为 %[3]s，%[1]s 需要 %[4]s；请增大 /dev/shm。", m.Name, m.Node, api.Bytes(m.Facts.SharedMemory), api.Bytes(want)))
	}
	return out
}
