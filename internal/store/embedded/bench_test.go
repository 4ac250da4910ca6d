package embedded

import (
	"os"
	"testing"
)

// BenchmarkStartFresh is a new folder until etcd takes writes, with fsync.
func BenchmarkStartFresh(b *testing.B) {
	for b.Loop() {
		dir := folder(b)
		s, err := Start(b.Context(), Config{Dir: dir})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := s.Client().Put(b.Context(), "/k", "v"); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		s.Close()
		os.RemoveAll(dir)
		b.StartTimer()
	}
}
