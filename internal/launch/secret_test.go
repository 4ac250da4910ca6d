package launch

import "testing"

func TestMasker(t *testing.T) {
	m := masker([]string{"hunter22", "hunter2222", "ab", "-----BEGIN\nMIIEvgIBADAN\n-----END"})
	for in, want := range map[string]string{
		"password hunter22!":       "password ***!",
		"hunter2222":               "***",
		"ab is too short to hide":  "ab is too short to hide",
		"MIIEvgIBADAN in one line": "*** in one line",
	} {
		if got := m.Replace(in); got != want {
			t.Errorf("%q became %q, not %q", in, got, want)
		}
	}
	if masker([]string{"", "abc"}) != nil {
		t.Error("nothing to hide is nil")
	}
}
