package kubeengine

import (
	"github.com/fermi-cluster/fermi/internal/fault"
)

// upset takes down why the cluster can't be used; true: that is news.
func (c *Cluster) upset(why *fault.Error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	news := c.trouble == nil || c.trouble.Reason != why.Reason
	c.trouble = why
	return news
}

func (c *Cluster) calm() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trouble = nil
}

// Trouble is why the cluster can't be used now; nil: it can, or nobody asked it yet.
func (c *Cluster) Trouble() *fault.Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.trouble
}
