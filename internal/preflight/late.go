package preflight

import (
	"maps"
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// Common is the versions that all replicas of the first group had and agreed on.
func Common(members []Member) map[string]string {
	var out map[string]string
	for _, m := range members {
		switch {
		case m.Group != "" || m.Facts == nil:
		case out == nil:
			out = maps.Clone(m.Facts.Versions)
		default:
			maps.DeleteFunc(out, func(field, version string) bool { return m.Facts.Versions[field] != version })
		}
	}
	return out
}

// Late judges a replica that comes after the others have started: common is what those have.
func Late(m Member, common map[string]string) []api.PreflightFinding {
	out := slices.Concat(blocked(m), sick(m), room(m))
	for _, field := range slices.Sorted(maps.Keys(common)) {
		own, want := m.Facts.Versions[field], common[field]
		switch {
		case own == want:
		case own == "":
			out = append(out, finding(field, "%s on node %s has no %s, the others have %s; use the same environment everywhere.", "节点 %[2]s 上的 %[1]s 没有 %[3]s，其他副本为 %[4]s；请在所有副本使用相同的环境。", m.Name, m.Node, field, want))
		default:
			out = append(out, finding(field, "%s on node %s has %s %s, the others have %s; use the same environment everywhere.", "节点 %[2]s 上的 %[1]s 的 %[3]s 为 %[4]s，其他副本为 %[5]s；请在所有副本使用相同的环境。", m.Name, m.Node, field, own, want))
		}
	}
	return out
}
