package process

import (
	"slices"
	"testing"
)

// TestParseStandby: words of a standby are checked, whoever wrote them.
func TestParseStandby(t *testing.T) {
	for line, good := range map[string]bool{
		`{"ready":{}}`: true, `{"forked":{"id":1,"pids":[7]}}`: true, `{"refused":{"id":null,"why":"x"}}`: true, `{"refused":{"id":3,"why":"x"}}`: true,
		`{}`: false, ``: false, `[]`: false, `{"forked":{"id":1,"pids":[7,1]}}`: false, `{"forked":{"id":1,"pids":[-1]}}`: false, `{"forked":{"id":1,"pid":7}}`: false,
		`{"ready":{},"forked":{"id":1,"pids":[7]}}`: false, `{"ready":{}} x`: false, `{"other":{}}`: false,
	} {
		if _, err := parseStandby([]byte(line)); (err == nil) != good {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func FuzzStandbyWord(f *testing.F) {
	f.Add([]byte(`{"forked":{"id":1,"pids":[7]}}`))
	f.Add([]byte(`{"refused":{"id":null,"why":"x"}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		if w, err := parseStandby(line); err == nil && w.Forked != nil && slices.ContainsFunc(w.Forked.PIDs, func(pid int) bool { return pid <= 1 }) {
			t.Errorf("%s", line)
		}
	})
}
