package app

import (
	"context"
	"net"
	"os"

	"github.com/fermi-cluster/fermi/api/v1/joined"
	"github.com/fermi-cluster/fermi/internal/link/agency"
)

// joinAnswer is the leader's word on a machine that wants to join.
type joinAnswer struct {
	Joined agency.Joined `json:"joined"`
	refused
}

// askJoin puts the wish of a machine to the leader; false: we lead ourselves, or there is nobody else.
func (l *live) askJoin(ctx context.Context, w agency.Wish) (agency.Joined, bool, error) {
	var told joinAnswer
	asked, err := l.others.askWith(ctx, askJoin, w.Name, w, &told)
	return told.Joined, asked, told.refusal(err)
}

// upgradeAnswer is the leader's word on an agent that is to be upgraded.
type upgradeAnswer struct {
	Upgrade joined.Upgrade `json:"upgrade"`
	refused
}

// UpgradeNode has the agent of a node replace its program by the leader's.
func (l *live) UpgradeNode(ctx context.Context, node string) (joined.Upgrade, error) {
	var told upgradeAnswer
	if asked, err := l.others.ask(ctx, askUpgrade, node, &told); asked {
		return told.Upgrade, told.refusal(err)
	}
	return l.hosts.Upgrade(ctx, node)
}

// JoinPlace is where agents reach servers, and the key that those show.
func (l *live) JoinPlace(context.Context) (addresses []string, pin string, err error) {
	return l.hosts.Place()
}

// advertised is where replicas on other machines reach those of this one: the address for launchers of other machines, or the machine's first.
func advertised(cfg Config) string {
	if cfg.Doors.Launchers == "" {
		return ""
	}
	host, _, err := net.SplitHostPort(cfg.Doors.Launchers)
	if err != nil {
		return ""
	}
	if own := os.Getenv("FERMI_ADVERTISE"); own != "" {
		return own
	}
	if ip := net.ParseIP(host); ip != nil && !ip.IsUnspecified() {
		return host
	}
	return agency.FirstAddress()
}
