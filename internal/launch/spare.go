package launch

import (
	"os"

	"github.com/fermi-cluster/fermi/internal/link"
)

// standBy makes a spare ready: it counts, and is charged, from now on, and its interpreter imports while
// nobody waits for it. Which ranks it will have, if any, it is told by the first order.
func (l *launcher) standBy() {
	l.begun(os.Getpid())
	g := link.Generation{Hold: true, World: 1}
	if e := l.replica.Elastic; e != nil {
		g.World = e.World
	}
	s, err := l.stageOf(g)
	if err == nil {
		err = l.writeRecipe(s.replica, "") // its folder is behind the wall that the ranks will share
	}
	if err != nil {
		l.log.Warn("the spare has no standby", "error", err) // its first order will say why
		return
	}
	l.standby.Keep(g.Hold, s.replica, s.dir, s.env, s.each[0], l.starter())
	l.standby.TellWarm(l.ranks.Warm)
}
