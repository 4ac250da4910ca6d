package pattern

import "testing"

func TestWrongOnesAreFoundInTests(t *testing.T) {
	if !New(`^a+$`).MatchString("aaa") || New(`^a+$`).MatchString("ab") {
		t.Error("it matches something else")
	}
	defer func() {
		if recover() == nil {
			t.Error("a wrong expression was taken")
		}
	}()
	New(`(`)
}
