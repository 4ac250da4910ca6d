// Package storetest opens a store for the tests of those who stand on one.
//
// Place: layer 3, for tests only. Promise: a real etcd, embedded, and a store that runs until the
// test's end and leaves nothing behind. Enemies: a stand-in for the store.
package storetest

import (
	"context"
	"log/slog"
	"os"
	"testing"

	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/internal/store/embedded"
)

// Open starts both and waits until the store can be read.
func Open(t testing.TB) *store.Store {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "f") // short: sockets lie in it
	if err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	e, err := embedded.Start(t.Context(), embedded.Config{Dir: dir + "/e", Log: quiet, UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	s := store.New(store.Config{Client: e.Client(), Log: quiet, Clock: clock.Real})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-ended
		e.Close()
		os.RemoveAll(dir)
	})
	<-s.Ready()
	return s
}
