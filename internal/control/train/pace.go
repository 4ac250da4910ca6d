package train

import (
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// A turn looks at every member. In a small task each change has its turn at once; in a large one a
// change right after a turn waits for others, so that a thousand that start don't cost a thousand
// turns, and the first that fails has its turn at once.
type pace struct {
	last  time.Time
	every time.Duration
}

const membersPerMilli = 50

// left is how long the next turn for a change of replicas waits.
func (p pace) left(now time.Time) time.Duration { return max(p.every-now.Sub(p.last), 0) }

// paced notes a turn of a task.
func (c *Controller) paced(key api.Key, members int) {
	every := time.Duration(members/membersPerMilli) * time.Millisecond
	c.mu.Lock()
	defer c.mu.Unlock()
	if every == 0 {
		delete(c.paces, key)
		return
	}
	c.paces[key] = pace{c.cfg.Clock.Now(), every}
}
