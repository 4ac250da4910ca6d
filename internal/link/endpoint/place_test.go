package endpoint

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	in := "# servers\n\nunix:///run/f/link.sock\n127.0.0.1:7071\n[::1]:7071\nhost\nunix://rel\nhttp://x:1\nhost:port\n:80\n  b:2  \n"
	want := []string{"unix:///run/f/link.sock", "127.0.0.1:7071", "[::1]:7071", "b:2"}
	if d := cmp.Diff(want, Parse([]byte(in))); d != "" {
		t.Error(d)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("unix:///a\n127.0.0.1:1\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, s := range Parse(data) {
			if to, err := Split(s); err != nil || to.Address == "" || to.Network == "" {
				t.Fatalf("%q: %v", s, err)
			}
		}
	})
}

// TestAdd: a server that was restarted at another address, or with another key, replaces what it announced.
func TestAdd(t *testing.T) {
	file := filepath.Join(t.TempDir(), "endpoints")
	for _, c := range []struct{ old, target string }{{"", "a:1"}, {"", "a:1"}, {"", "b:2"}, {"a:1", "a:3"}, {"a:3", "a:3"}, {"x:1", "b:2"}} {
		if err := Add(file, c.old, c.target); err != nil {
			t.Fatal(err)
		}
	}
	list, err := Read(file)
	if slices.Sort(list); err != nil || !slices.Equal(list, []string{"a:3", "b:2"}) {
		t.Error(list, err)
	}
	a := Announcement{File: file, Own: file + ".own"}
	for _, key := range []string{"one", "one", "two"} {
		if err := a.announce("10.0.0.7:7072", []byte(key)); err != nil {
			t.Fatal(err)
		}
	}
	want, err := Target("10.0.0.7:7072", []byte("two"))
	if err != nil {
		t.Fatal(err)
	}
	if list, err = Read(file); err != nil || len(list) != 3 || !slices.Contains(list, want) {
		t.Error(list, err)
	}
}
