package launch

import (
	"os"

	"github.com/fermi-cluster/fermi/internal/link"
)

// standBy makes a spare ready: it counts, and is charged, from now on, and its interpreter imports while
// nobody waits for it. Which ranks it will have, if any, it is told by the first order.
func (r *runner) standBy() {
	r.begun(os.Getpid())
	g := link.Generation{Hold: true, Membership: link.Membership{World: 1}}
	if e := r.wall.Home.Replica.Elastic; e != nil {
		g.World = e.World
	}
	s, err := r.stage(g)
	if err == nil {
		err = r.wall.Home.WriteRecipe(s.Replica, "") // its folder is behind the wall that the ranks will share
	}
	if err != nil {
		r.log.Warn("the spare has no standby", "error", err) // its first order will say why
		return
	}
	r.standby.Keep(g.Hold, s.Replica, s.Dir, s.Env, s.Each[0], r.wall.Starter())
	r.standby.TellWarm(r.ranks.Report.Warm)
}
