package linkpb

import "github.com/fermi-cluster/fermi/internal/engine"

// maxWhy bounds why a replica does not answer, in bytes.
const maxWhy = 300

// ServingOf is what a launcher says of a replica that answers requests; nil: it answers none.
func ServingOf(s *engine.Serving) *Serving {
	if s == nil {
		return nil
	}
	return &Serving{Ready: s.Ready, Port: int32(s.Port), Why: s.Why[:min(len(s.Why), maxWhy)]}
}

// Engine is the same in the words of the engine's port.
func (x *Serving) Engine() *engine.Serving {
	if x == nil {
		return nil
	}
	return &engine.Serving{Ready: x.GetReady(), Port: int(x.GetPort()), Why: x.GetWhy()}
}

// IsSane says that it can be: there is such a port, and not too many words.
func (x *Serving) IsSane() bool {
	return x == nil || x.GetPort() >= 1 && x.GetPort() <= 65535 && len(x.GetWhy()) <= maxWhy
}
