package apart

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/link/endpoint"
	"github.com/fermi-cluster/fermi/internal/store"
)

// TestNames: what a server says of itself in the election others read, also of servers that say less.
func TestNames(t *testing.T) {
	r := NewRoster()
	got := r.Read([]store.Member{
		{Name: Name("a-1", "10.0.0.1:7072", "10.0.0.1:7071"), Epoch: store.Epoch{Revision: 7}}, {Name: Name("b-1", "localhost:0", "10.0.0.2:7071")},
		{Name: Name("c-1", "", "[fd00::1]:7071")}, {Name: "old@10.0.0.3:7071"}, {Name: "alone"},
	})
	want := []link.Server{
		{Name: "a-1", Address: "10.0.0.1:7071", Epoch: 7}, {Name: "b-1", Address: "10.0.0.2:7071"}, {Name: "c-1", Address: "[fd00::1]:7071"},
		{Name: "old", Address: "10.0.0.3:7071"}, {Name: "alone"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	if links := *r.links.Load(); !slices.Equal(links, []string{"10.0.0.1:7072"}) {
		t.Error(links)
	}
}

// TestTell: the file names all servers with the key of now, and keeps what it has while nobody is known.
func TestTell(t *testing.T) {
	r := NewRoster()
	file, key := filepath.Join(t.TempDir(), "targets"), []byte(strings.Repeat("k", 32))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	r.Read([]store.Member{{Name: Name("b", "10.0.0.2:1", "p")}, {Name: Name("a", "10.0.0.1:1", "p")}})
	go func() {
		ended <- r.Tell(ctx, file, func() [][]byte { return [][]byte{key} }, slog.New(slog.DiscardHandler))
	}()
	defer func() { cancel(); <-ended }()
	deadline := time.Now().Add(time.Minute)
	var list []string
	for ; len(list) != 2; list, _ = endpoint.Read(file) {
		if time.Now().After(deadline) {
			t.Fatal("never written")
		}
		<-time.After(5 * time.Millisecond)
	}
	want, err := endpoint.Target("10.0.0.1:1", key)
	if err != nil || list[0] != want || !strings.Contains(list[1], "10.0.0.2:1") {
		t.Error(list, err)
	}
	r.Read(nil)
	if len(r.targets(key)) != 0 {
		t.Error("somebody is left")
	}
}
