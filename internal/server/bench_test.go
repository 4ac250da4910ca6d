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
	cfg := emptyConfig()
	for b.Loop() {
		if _, err := New(cfg); err != nil {
			b.Fatal(err)
		}
	}
}

// emptyConfig is enough to build a server that answers nobody.
func emptyConfig() Config {
	return Config{Store: store.New(store.Config{}), History: (*sqlstore.Store)(nil), Blob: (*folder.Store)(nil), Logs: (*logbook.Book)(nil)}
}

func emptyServer(t testing.TB) *Server {
	t.Helper()
	s, err := New(emptyConfig())
	if err != nil {
		t.Fatal(err)
	}
	return s
}
