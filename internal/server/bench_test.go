package server

import (
	"testing"

	"github.com/fermi-cluster/fermi/internal/blob/folder"
	"github.com/fermi-cluster/fermi/internal/blob/logbook"
	"github.com/fermi-cluster/fermi/internal/history/sqlstore"
	"github.com/fermi-cluster/fermi/internal/store"
)

// BenchmarkNew is on the way of every start; it touches none of its parts.
func BenchmarkNew(b *testing.B) {
	cfg := Config{Store: store.New(store.Config{}), History: (*sqlstore.Store)(nil), Blob: (*folder.Store)(nil), Logs: (*logbook.Book)(nil)}
	for b.Loop() {
		if _, err := New(cfg); err != nil {
			b.Fatal(err)
		}
	}
}
