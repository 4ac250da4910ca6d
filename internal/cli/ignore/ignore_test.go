package ignore

import (
	"strings"
	"testing"
)

func TestRules(t *testing.T) {
	ig, err := Parse(File, []byte("# comment\n*.log\n!keep.log\n/build\nout/\ndocs/**/*.tmp\n**/cache\nx[0-9]y?\n\\#odd\nsp\\ \na/**\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		path   string
		folder bool
		want   bool
	}{
		{"a.log", false, true},
		{"d/a.log", false, true},
		{"keep.log", false, false},
		{"build", false, true},
		{"d/build", false, false},
		{"out", true, true},
		{"out", false, false},
		{"d/out", true, true},
		{"docs/a.tmp", false, true},
		{"docs/x/y/a.tmp", false, true},
		{"a.tmp", false, false},
		{"d/e/cache", true, true},
		{"cache", true, true},
		{"x5yz", false, true},
		{"xay", false, false},
		{"#odd", false, true},
		{"sp ", false, true},
		{"a", true, false},
		{"a/b", false, true},
		{".git", true, true},
		{"d/.git", true, true},
		{".gitignore", false, false},
	} {
		if got := ig.Ignored(tt.path, tt.folder, false); got != tt.want {
			t.Errorf("Ignored(%q, %v) = %v", tt.path, tt.folder, got)
		}
	}
	if _, err := Parse(File, []byte("ok\n[z-a]\n")); err == nil || !strings.Contains(err.Error(), ":2:") {
		t.Errorf("a bad pattern: %v", err)
	}
}

func FuzzRules(f *testing.F) {
	f.Add([]byte("*.log\n!a\n[a-z]\n\\"), "a/b.log")
	f.Add([]byte("**/x/**\n[!a]\n/"), "x")
	f.Fuzz(func(t *testing.T, rules []byte, path string) {
		if ig, err := Parse(File, rules); err == nil {
			ig.Ignored(path, true, false)
		}
		if !(&Rules{}).Ignored(".git", true, false) {
			t.Error(".git is packed")
		}
	})
}
