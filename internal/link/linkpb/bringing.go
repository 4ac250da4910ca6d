package linkpb

import "github.com/fermi-cluster/fermi/internal/engine"

// BringingOf is the message for what is on its way; nil: nothing is.
func BringingOf(b *engine.Bringing) *Bringing {
	if b == nil {
		return nil
	}
	return &Bringing{Name: b.Name, Done: b.Done, Total: b.Total}
}

// Engine undoes BringingOf.
func (x *Bringing) Engine() *engine.Bringing {
	if x == nil {
		return nil
	}
	return &engine.Bringing{Name: x.GetName(), Done: x.GetDone(), Total: x.GetTotal()}
}

// maxBringing bounds the name of what is on its way.
const maxBringing = 128

// IsSane says that it can be.
func (x *Bringing) IsSane() bool {
	return x == nil || len(x.GetName()) <= maxBringing && x.GetDone() >= 0 && x.GetDone() <= x.GetTotal()
}
