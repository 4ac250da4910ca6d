package ckpt

import (
	"hash/crc32"
	"testing"

	"pgregory.net/rapid"
)

// The sum of two stretches by their own is that of both at once.
func TestJoinCRC(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.SliceOf(rapid.Byte()).Draw(t, "a"), rapid.SliceOf(rapid.Byte()).Draw(t, "b")
		if got, want := joinCRC(crc32.ChecksumIEEE(a), crc32.ChecksumIEEE(b), uint64(len(b))), crc32.ChecksumIEEE(append(a, b...)); got != want {
			t.Fatalf("%08x instead of %08x", got, want)
		}
	})
}
