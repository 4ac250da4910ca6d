package kubeengine

import (
	"os"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
)

// What was known last is noted, so that a server which starts while a cluster is away does not take what runs there for lost. It is
// no second truth: as soon as the cluster answers, its pods count and nothing else.

type notes Engine

func (e *notes) noteFile() string { return e.cfg.Cluster.Zone + ".json" }

// remember takes up what was noted.
func (e *notes) remember() {
	var list []engine.Observation
	if _, err := record.Read(e.cfg.Dir, e.noteFile(), &list); err != nil {
		e.cfg.Log.Warn("what was known of a cluster can't be read", "zone", e.cfg.Cluster.Zone, "error", err)
	}
	for _, o := range list {
		e.Put(o)
	}
}

// note writes down what is known, if that has changed.
func (e *notes) note() {
	e.mu.Lock()
	if e.noted || !e.synced {
		e.mu.Unlock()
		return
	}
	e.noted = true
	list := e.Replicas("")
	e.mu.Unlock()
	err := os.MkdirAll(e.cfg.Dir, 0o700)
	if err == nil {
		err = record.Write(e.cfg.Dir, e.noteFile(), list)
	}
	if err != nil {
		e.cfg.Log.Warn("what is known of a cluster can't be noted", "zone", e.cfg.Cluster.Zone, "error", err)
	}
}
