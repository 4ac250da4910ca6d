package where

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestSpan(t *testing.T) {
	for text, want := range map[string]Span{
		"4": {4, 4}, `"4"`: {4, 4}, `"2..6"`: {2, 6}, `"2.."`: {2, MostReplicas}, `"..6"`: {0, 6}, `"0..1"`: {0, 1}, `"3..3"`: {3, 3},
	} {
		var s Span
		if err := json.Unmarshal([]byte(text), &s); err != nil || s != want {
			t.Errorf("%s: %v, %v", text, s, err)
		}
		out, err := json.Marshal(s)
		var again Span
		if err != nil || json.Unmarshal(out, &again) != nil || again != want {
			t.Errorf("%s is written %s, read %v, %v", text, out, again, err)
		}
	}
	for _, bad := range []string{"0", "-1", `"x"`, `".."`, `"6..2"`, `"0..0"`, `"1..x"`, `"+1"`, `"1...3"`, `"1..99999"`, "1.5", "null", "{}", `""`} {
		var s Span
		if err := json.Unmarshal([]byte(bad), &s); err == nil {
			t.Errorf("%s is read as %v", bad, s)
		}
	}
}

func TestSplitCheck(t *testing.T) {
	for name, c := range map[string]struct {
		split Split
		want  string // path and a word
	}{
		"adds up":          {Split{"a": Exactly(2), "b": Exactly(3)}, ""},
		"does not add up":  {Split{"a": Exactly(2), "b": Exactly(2)}, "split has 4 replicas, the task 5"},
		"within":           {Split{"a": {1, 4}, "b": {0, 2}}, ""},
		"one fixed":        {Split{"a": Exactly(2), "b": {0, 3}}, ""},
		"too much at best": {Split{"a": {3, 4}, "b": {3, 4}}, "6 replicas at least"},
		"too little":       {Split{"a": {0, 2}, "b": {1, 2}}, "4 replicas at most"},
		"closed":           {Split{"a": {0, 5}, "shut": {0, 2}}, "keep the task out"},
		"upside down":      {Split{"a": {5, 2}}, "out of range"},
	} {
		got := c.split.Check("spec.zones.split", 5, func(z string) bool { return z == "shut" })
		if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.Contains(got[0].Message.EN, c.want) || got[0].Message.ZH == "") {
			t.Errorf("%s: %v", name, got)
		}
	}
}
