package rest

import "testing"

// TestWordsOfASet: an empty word is none of a set, alone and in a list; an empty text counts as absent.
func TestWordsOfASet(t *testing.T) {
	params := []Param{{Name: "phase", Form: FormList, Enum: []string{"Running", "Failed"}}, {Name: "state", Enum: []string{"on"}}, {Name: "label", Form: FormList}, {Name: "search"}}
	for raw, good := range map[string]bool{
		"phase=Running": true, "phase=running,Failed": true, "phase=Running&phase=Failed": true, "label=": true, "search=": true,
		"phase=": false, "phase=Running,": false, "state=": false,
	} {
		if _, err := ParseQuery(raw, params); (err == nil) != good {
			t.Errorf("%s: %v", raw, err)
		}
	}
}
