package launch

import (
	"net"
	"strconv"
	"strings"

	"github.com/fermi-cluster/fermi/internal/link"
)

// What a rank of a task with several roles knows of each: as variables when it starts, and over its
// socket when replicas are elsewhere later on.

// roleEnviron sets FERMI_ROLE_<NAME>_*.
func roleEnviron(env *env, r link.Role) {
	name := "FERMI_ROLE_" + strings.ToUpper(strings.ReplaceAll(r.Name, "-", "_")) + "_"
	hosts := make([]string, len(r.Addresses))
	for i, address := range r.Addresses {
		hosts[i], _, _ = net.SplitHostPort(address) // link has checked it; "": not known
	}
	env.set(name+"ADDRS", strings.Join(r.Addresses, ","))
	env.set(name+"HOSTS", strings.Join(hosts, ","))
	env.set(name+"REPLICAS", strconv.Itoa(r.Replicas))
	env.set(name+"RANKS", strconv.Itoa(r.Ranks))
}
