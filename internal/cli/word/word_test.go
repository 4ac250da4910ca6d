package word

import (
	"strings"
	"testing"
)

func TestTitle(t *testing.T) {
	for want, argv := range map[string][]string{
		"python train.py": {"/usr/bin/python", "train.py"}, "sh -c a b": {"sh", "-c", "a\n\tb"}, "task": {"\x01"},
		"x " + strings.Repeat("训", 61) + "…": {"x", strings.Repeat("训", 100)},
	} {
		if got := Title(argv); got != want {
			t.Errorf("title(%q) = %q, want %q", argv, got, want)
		}
	}
}
