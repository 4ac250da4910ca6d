package ledger

import "testing"

func TestLedger(t *testing.T) {
	var l Ledger
	if l.Counted() || l.Used("lab") != (Sums{}) {
		t.Error("an empty ledger knows something")
	}
	l.Add("lab", "t1", Outputs, 100)
	l.Add("lab", "t2", Logs, 10)
	l.Add("other", "t3", Outputs, 7)
	l.Add("lab", "t1", Outputs, -30)
	l.Add("lab", "t2", Logs, -1000)
	l.Set("lab", "t1", Checkpoints, 5)
	l.Set("lab", "t1", Checkpoints, 9)
	if got, want := l.Used("lab"), (Sums{Outputs: 70, Checkpoints: 9}); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	l.Begin()
	l.Add("lab", "t1", Outputs, 1)
	l.Add("lab", "new", Logs, 3)
	l.Replace(map[string]Entry{"t1": {"lab", Sums{Outputs: 50}}, "t3": {"other", Sums{Outputs: 7}}})
	if got, want := l.Used("lab"), (Sums{Outputs: 51, Logs: 3}); got != want || !l.Counted() {
		t.Errorf("%v, want %v", got, want)
	}
	l.Drop("t1")
	l.Drop("never")
	if got, want := l.Used("lab"), (Sums{Logs: 3}); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	if got := l.Used("other"); got != (Sums{Outputs: 7}) {
		t.Error(got)
	}
}
