package agentengine

import (
	"context"
	"encoding/json"
	"io"
	"testing"
	"testing/synctest"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/joined"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// ends is a stream whose other end is the test.
type ends struct {
	up, down chan Frame
	over     <-chan struct{}
}

func (s ends) Send(f Frame) error {
	select {
	case s.down <- f:
		return nil
	case <-s.over:
		return io.EOF
	}
}

func (s ends) Recv() (Frame, error) {
	select {
	case f := <-s.up:
		return f, nil
	case <-s.over:
		return Frame{}, io.EOF
	}
}

// TestLateRefused: a replica that was to start on a machine that was away, and which that machine does not take when it is back, is ordered again where it may take it later,
// and has failed where it never will. Before, it counted as created for ever.
func TestLateRefused(t *testing.T) {
	for name, refusal := range map[string]error{
		"later": fault.New(fault.Unavailable, "NotYet", fault.T("Not yet.", "尚未就绪。")),
		"never": fault.New(fault.Conflict, "Never", fault.T("Never.", "不可能。")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, end := context.WithCancel(t.Context())
				node := api.Node{Meta: api.Meta{Name: "n"}, Spec: api.NodeSpec{Spec: joined.Spec{Agent: &joined.Agent{ID: "x"}}}}
				e := New(Config{Mint: func(engine.Name) string { return "" }, Joined: func(context.Context) ([]api.Node, error) { return []api.Node{node}, nil }})
				done := make(chan error, 2)
				go func() { done <- e.Run(ctx) }()
				<-e.Ready()
				r := engine.Replica{Name: "task-1-worker-0-1", TaskID: "task-1"}
				r.Node = "n"
				if err := e.Start(ctx, r); err != nil {
					t.Fatal(err)
				}
				s := ends{make(chan Frame), make(chan Frame, 16), ctx.Done()}
				go func() { done <- e.Attend(ctx, "n", Hello{Instance: "i", Node: node, Now: time.Now()}, s) }()
				s.up <- Frame{Kind: kindWhole}
				for f := range s.down {
					if f.Kind == kindStart {
						raw, err := json.Marshal(refusedBy(refusal))
						if err != nil {
							t.Fatal(err)
						}
						s.up <- Frame{Seq: f.Seq, Kind: kindDone, Body: raw}
						break
					}
				}
				synctest.Wait()
				o, known := e.Replica(r.Name)
				switch {
				case name == "later" && known:
					t.Errorf("it counts as %v", o.State)
				case name == "never" && (!known || o.Exit == nil || o.Exit.Reason != engine.ReasonStartFailed):
					t.Errorf("%+v", o)
				}
				end()
				<-done
				<-done
			})
		})
	}
}
