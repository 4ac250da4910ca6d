package store

import (
	"context"
	"syscall"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// BenchmarkFill100k fills a cache from 100,000 objects of about 2 kB.
func BenchmarkFill100k(b *testing.B) {
	const objects = 100_000
	client := etcd(b, folder(b)).Client()
	s := New(Config{Client: client})
	var ops []Op
	bytes := 0
	for i := range objects {
		o := bigTask(i)
		raw, err := encode(o)
		if err != nil {
			b.Fatal(err)
		}
		bytes += len(raw)
		ops = append(ops, Create(o))
		if len(ops) == 100 {
			if _, err := s.Commit(context.Background(), Txn{Ops: ops}); err != nil {
				b.Fatal(err)
			}
			ops = ops[:0]
		}
	}
	used := cpu()
	for b.Loop() {
		s = New(Config{Client: client})
		if err := s.relist(context.Background()); err != nil {
			b.Fatal(err)
		}
		if n := s.cache.list(api.KindTrainingTask, "").Len(); n != objects {
			b.Fatalf("%d objects", n)
		}
	}
	// On a busy machine the time on the wall says little; on two quiet cores it is half of this.
	b.ReportMetric((cpu()-used).Seconds()/float64(b.N), "cpu-s/op")
	b.ReportMetric(float64(bytes)/objects, "B/object")
}

// cpu is what this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkCommit is one small fsync-less write at a time: our own share of the cost.
func BenchmarkCommit(b *testing.B) {
	s := fresh(b)
	o := bigTask(0)
	if _, err := s.Commit(b.Context(), Txn{Ops: []Op{Create(o)}}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := s.Commit(b.Context(), Txn{Ops: []Op{Update(o)}}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDecode is the heart of filling the cache.
func BenchmarkDecode2kB(b *testing.B) {
	o := bigTask(7)
	raw, err := encode(o)
	if err != nil {
		b.Fatal(err)
	}
	key, info := api.KeyOf(o), api.MustInfo(o.Kind())
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decode(key, info, raw, 1); err != nil {
			b.Fatal(err)
		}
	}
}
