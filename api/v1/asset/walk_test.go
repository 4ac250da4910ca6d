package asset

import (
	"io/fs"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestWalk(t *testing.T) {
	at := time.Unix(5, 7)
	dir := fstest.MapFS{
		"b":     {Data: []byte("12"), ModTime: at, Mode: 0o755},
		"b.txt": {Data: []byte("1"), ModTime: at},
		"b/x":   nil,
		"a/c":   {Data: []byte("123"), ModTime: at.Add(1)},
		"a/l":   {Mode: fs.ModeSymlink},
	}
	delete(dir, "b/x")
	files, skipped, err := Walk(dir)
	want := []File{{"a/c", 3, false, "5000000008"}, {"b", 2, true, "5000000007"}, {"b.txt", 1, false, "5000000007"}}
	if err != nil || !cmp.Equal(files, want) || !cmp.Equal(skipped, []string{"a/l"}) {
		t.Fatal(files, skipped, err)
	}
	if got := Untagged(files); got[0].Tag != "" || files[0].Tag == "" {
		t.Error(got)
	}
}

func TestChanges(t *testing.T) {
	listed := []File{{"a", 1, false, "x"}, {"b", 2, false, "x"}, {"d", 3, false, "x"}, {"e", 4, false, "x"}}
	now := []File{{"a", 1, false, "x"}, {"b", 2, false, "y"}, {"c", 9, false, "x"}, {"e", 5, false, "x"}, {"f", 1, false, "x"}}
	some, n := Changes(listed, now, 4)
	want := []Change{{"b", 2, 2}, {"c", -1, 9}, {"d", 3, -1}, {"e", 4, 5}}
	if n != 5 || !cmp.Equal(some, want) {
		t.Error(n, some)
	}
	if some, n := Changes(listed, listed, 4); n != 0 || some != nil {
		t.Error(some)
	}
}
