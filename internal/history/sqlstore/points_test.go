package sqlstore

import (
	"context"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/history/historytest"
)

// TestPointsAreThinned: a series never has more than so many blocks, and its peaks stay.
func TestPointsAreThinned(t *testing.T) {
	tune := usual
	tune.blocks = 8
	s := openAt(t, filepath.Join(t.TempDir(), "h.db"), tune)
	ctx := context.Background()
	step := int64(0)
	for seq := int64(1); step < 40*history.MaxBlock; seq++ {
		list := make([]history.Point, 200)
		for i := range list {
			step++
			list[i] = history.Point{Time: time.Unix(step, 0), Step: step, Value: math.Sin(float64(step))}
			if step == 777 {
				list[i].Value = 1e6
			}
		}
		if err := s.AddPoints(ctx, history.Batch{TaskID: "t", Replica: "r", Seq: seq, Lines: []history.Line{{Name: "loss", Points: list}}}); err != nil {
			t.Fatal(err)
		}
	}
	points, made := historytest.PointsOf(t, s, "t", history.Series{Name: "loss", Replica: "r"}, history.Span{})
	// A fold may bring 64 batches of 200 points at once, and as many may wait.
	if most := (8+2*13)*history.MaxBlock + 64*200; len(points) > most || made != step {
		t.Fatalf("%d points (at most %d) stand for %d of %d", len(points), most, made, step)
	}
	peak := false
	for i, p := range points {
		peak = peak || p.Step == 777 && p.Value == 1e6
		if i > 0 && p.Step <= points[i-1].Step {
			t.Fatalf("step %d after %d", p.Step, points[i-1].Step)
		}
	}
	if !peak {
		t.Fatal("the peak is gone")
	}
}

// TestPointsKilled: a process that adds batches is killed in the middle, also of folds: what it had acknowledged is there, once
// and in order, and what it sends again is not doubled.
func TestPointsKilled(t *testing.T) {
	const variable = "FERMI_TEST_POINTS_DB"
	if path := os.Getenv(variable); path != "" {
		addUntilKilled(t, path, os.Getenv(variable+"_ACK"))
		return
	}
	dir := t.TempDir()
	path, ack := filepath.Join(dir, "h.db"), filepath.Join(dir, "ack")
	for round := range 4 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestPointsKilled$")
		cmd.Env = append(os.Environ(), variable+"="+path, variable+"_ACK="+ack)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		goal := acknowledged(ack) + int64(40+37*round)
		for deadline := time.Now().Add(time.Minute); acknowledged(ack) < goal; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d of %d after a minute", acknowledged(ack), goal)
			}
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		s := openAt(t, path, usual)
		points, _ := historytest.PointsOf(t, s, "t", history.Series{Name: "loss", Replica: "r"}, history.Span{})
		for i, p := range points {
			if p.Step != int64(i+1) {
				t.Fatalf("point %d is step %d", i, p.Step)
			}
		}
		if n := acknowledged(ack); int64(len(points)) < 3*n {
			t.Fatalf("%d batches were acknowledged, and %d points are there", n, len(points))
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func acknowledged(path string) int64 {
	raw, _ := os.ReadFile(path)
	n, _ := strconv.ParseInt(string(raw), 10, 64)
	return n
}

func addUntilKilled(t *testing.T, path, ack string) {
	s := openAt(t, path, usual)
	for seq := max(1, acknowledged(ack)-5); ; seq++ { // some again
		var list []history.Point
		for i := range int64(3) {
			list = append(list, history.Point{Time: time.Unix(seq, 0), Step: 3*(seq-1) + i + 1})
		}
		if err := s.AddPoints(t.Context(), history.Batch{TaskID: "t", Replica: "r", Seq: seq, Lines: []history.Line{{Name: "loss", Points: list}}}); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(ack+".new", []byte(strconv.FormatInt(seq, 10)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(ack+".new", ack); err != nil {
			t.Fatal(err)
		}
	}
}
