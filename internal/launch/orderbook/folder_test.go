package orderbook_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/launch"
	"github.com/fermi-cluster/fermi/internal/launch/orderbook"
	"github.com/fermi-cluster/fermi/internal/launch/orderstest"
)

// engineSide is a folder as the engine and leaders write it.
type engineSide struct{ dir, epochs string }

func (e *engineSide) Spec(r engine.Replica) error {
	for file, v := range map[string]any{record.FileReplica: r, record.FileEndpoint: record.Link{Endpoints: "e", Epochs: e.epochs}} {
		if err := record.Write(e.dir, file, v); err != nil {
			return err
		}
	}
	return nil
}

func (e *engineSide) Lead(epoch int64) error { return record.EnterEpoch(e.epochs, epoch) }

func (e *engineSide) Stop(epoch int64, grace time.Duration) error {
	return record.Write(e.dir, record.StopFile(epoch), record.Stop{Grace: grace})
}

func open(t *testing.T) (launch.Orders, orderstest.Leader) {
	e := &engineSide{dir: t.TempDir(), epochs: filepath.Join(t.TempDir(), record.DirEpochs)}
	return orderbook.Open(e.dir), e
}

func TestFolder(t *testing.T) { orderstest.Run(t, open) }

// TestTornStop: an order that can't be read is an error, not silence.
func TestTornStop(t *testing.T) {
	o, leader := open(t)
	if err := leader.Spec(engine.Replica{Name: "x", Command: []string{"true"}}); err != nil {
		t.Fatal(err)
	}
	dir := leader.(*engineSide).dir
	if err := os.WriteFile(filepath.Join(dir, record.StopFile(3)), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := o.Stop(3); err == nil {
		t.Errorf("a torn order is taken for %t", ok)
	}
}
