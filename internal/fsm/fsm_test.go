package fsm

import "testing"

func TestTable(t *testing.T) {
	table := Table[string]{"": {"a"}, "a": {"b", "c"}, "b": {"a"}, "c": {}}
	tests := []struct {
		from, to string
		want     bool
	}{
		{"", "a", true},
		{"a", "b", true},
		{"b", "a", true},
		{"c", "c", true},
		{"c", "a", false},
		{"", "b", false},
		{"unknown", "a", false},
	}
	for _, tc := range tests {
		if got := table.Allows(tc.from, tc.to); got != tc.want {
			t.Errorf("%q to %q: %t", tc.from, tc.to, got)
		}
	}
	if !table.Final("c") || table.Final("a") {
		t.Error("c alone is final")
	}
}
