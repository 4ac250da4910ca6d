package ckpt

import (
	"hash/crc32"
	"math/rand/v2"
	"testing"
)

// BenchmarkHash4MiB is what a save does with each chunk, beside reading and writing it.
func BenchmarkHash4MiB(b *testing.B) {
	chunk := noise(rand.New(rand.NewPCG(1, 1)), chunkMax)
	b.SetBytes(chunkMax)
	for b.Loop() {
		if sum(chunk) == (Hash{}) || crc32.ChecksumIEEE(chunk) == 0 {
			b.Fatal("no sum")
		}
	}
}
