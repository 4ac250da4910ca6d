package agentengine

import (
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// starts are orders to start, and what becomes of those that are not obeyed.
type starts struct {
	board *engine.Board
	mint  func(engine.Name) string
	clock clock.Clock
}

// isNever says that a machine will never take what it refused so.
func isNever(err error) bool {
	c := fault.CodeOf(err)
	return err != nil && (c == fault.Conflict || c == fault.Invalid)
}

// fail is the end of a replica that failed before it began; it says why.
func (s starts) fail(r engine.Replica, err error) {
	s.board.Put(engine.Observation{Name: r.Name, TaskID: r.TaskID, State: engine.StateDone, Node: r.Node, Exit: &engine.Exit{
		Code: -1, Reason: engine.ReasonStartFailed, Message: fault.From(err).Message.In("en"), At: s.clock.Now().UTC(),
	}})
}

// late sends an order that had to wait for its machine. Who gave it does not wait any more: a replica that is not taken for now is not there,
// so that it is ordered again.
func (s starts) late(v *visit, r engine.Replica) {
	c := make(chan error, 1)
	v.order(kindStart, start{r, s.mint(r.Name)}, c)
	go func() { // ends with the stream: then all orders are answered
		switch err := <-c; {
		case err == nil, fault.ReasonOf(err) == reasonAway: // it comes again, and says whether it has it
		case isNever(err):
			s.fail(r, err)
		default:
			s.board.Drop(r.Name)
		}
	}()
}
