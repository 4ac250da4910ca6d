package agency

import (
	"strconv"
	"strings"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// Compatible says whether a server takes an agent of some version: its own, or an older one of the same or the minor version before. Versions that
// are no numbers, such as those of developers, are taken.
func Compatible(server, agent string) error {
	s, ok := numbers(server)
	a, fine := numbers(agent)
	if !ok || !fine {
		return nil
	}
	switch {
	case a[0] > s[0] || a[0] == s[0] && a[1] > s[1]:
		return fault.New(fault.Conflict, "AgentTooNew", fault.T(
			"The agent is of version %s, which is newer than the server's %s.", "代理版本 %s 比服务器版本 %s 新。", agent, server)).
			WithHint(fault.T("Update the servers first, then the agents.", "请先升级服务器，再升级代理。"))
	case a[0] < s[0] || s[1]-a[1] > 1:
		return fault.New(fault.Conflict, "AgentTooOld", fault.T(
			"The agent is of version %s; the server of version %s takes agents of the same or the previous minor version.", "代理版本为 %s；版本 %s 的服务器仅接受相同或前一个次版本的代理。", agent, server)).
			WithHint(fault.T("Install the server's version on this machine. What runs here goes on meanwhile.", "请在本机安装与服务器相同的版本；期间已运行的任务不受影响。"))
	}
	return nil
}

// numbers are major and minor of "v1.2.3-rc1".
func numbers(version string) (out [2]int, ok bool) {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 {
		return out, false
	}
	for i := range out {
		n, err := strconv.Atoi(parts[i])
		if err != nil || n < 0 {
			return out, false
		}
		out[i] = n
	}
	return out, true
}
