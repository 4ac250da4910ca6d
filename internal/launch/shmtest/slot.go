package shmtest

import (
	"encoding/binary"
	"hash/crc32"
	"os"
	"testing"
)

// Copied puts the data of a state into the slot at path, without sums, as the Python SDK does.
func Copied(t testing.TB, path string, step uint64, data []byte) {
	t.Helper()
	tree := []byte(`{"y":[0,1]}`)
	le := binary.LittleEndian
	h := []byte("FERMIL0\x01")
	for _, v := range []uint32{1, 0, 1, 0} {
		h = le.AppendUint32(h, v)
	}
	for _, v := range []uint64{4, step, uint64(len(data)), uint64(len(tree)), 4} {
		h = le.AppendUint64(h, v)
	}
	h = le.AppendUint32(le.AppendUint32(h, crc32.ChecksumIEEE(tree)), 0)
	h = le.AppendUint32(h, crc32.ChecksumIEEE(h))
	file := append(append(append(h, make([]byte, 4096-len(h))...), data...), tree...)
	if err := os.WriteFile(path, append(file, 0, 0, 0, 0), 0o600); err != nil {
		t.Fatal(err)
	}
}
