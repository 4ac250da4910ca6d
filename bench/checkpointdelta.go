package main

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/klauspost/compress/zstd"
)

//go:embed checkpoint/delta.py
var deltaScript []byte

// benchDelta prints what a later state takes when it is coded against an earlier one, beside zstd alone: real AdamW steps,
// each kind of number by itself. Nothing is checked: docs/decisions/0015 says what follows from it.
func benchDelta(ctx context.Context) error {
	fmt.Println("share of the bytes that is left, and MiB/s to code and decode on one core; states of AdamW, some steps apart")
	for _, kind := range []struct {
		dtype string
		width int
	}{{"float32", 4}, {"bfloat16", 2}} {
		dir, err := os.MkdirTemp("", "fermi-delta-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		var out struct{ Loss []float64 }
		env := []string{"FERMI_DELTA=" + dir}
		if err := runPython(ctx, deltaScript, &out, env, kind.dtype, "100", "1", "10", "100"); err != nil {
			return err
		}
		for _, part := range []string{"weights", "first", "second"} {
			if err := deltaOf(dir, kind.dtype, part, kind.width); err != nil {
				return err
			}
		}
	}
	return nil
}

func deltaOf(dir, dtype, part string, width int) error {
	read := func(gap int) ([]byte, error) { return os.ReadFile(filepath.Join(dir, fmt.Sprintf("%s-%d", part, gap))) }
	base, err := read(0)
	if err != nil {
		return err
	}
	for _, gap := range []int{1, 10, 100} {
		now, err := read(gap)
		if err != nil {
			return err
		}
		plain, err := coded(now, func(b []byte) []byte { return b }, func(b []byte) []byte { return b })
		if err != nil {
			return err
		}
		planed, err := coded(now, func(b []byte) []byte { return planes(b, width) }, func(b []byte) []byte { return unplanes(b, width) })
		if err != nil {
			return err
		}
		delta, err := coded(now, func(b []byte) []byte { return planes(xor(b, base), width) }, func(b []byte) []byte { return xor(unplanes(b, width), base) })
		if err != nil {
			return err
		}
		fmt.Printf("  %-8s %-7s %3d steps: zstd %s; byte planes, zstd %s; XOR, byte planes, zstd %s\n", dtype, part, gap, plain, planed, delta)
	}
	return nil
}

// coded codes and decodes, and says how much is left and how fast that went.
func coded(raw []byte, code, decode func([]byte) []byte) (string, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return "", err
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return "", err
	}
	defer dec.Close()
	begin := time.Now()
	small := enc.EncodeAll(code(raw), nil)
	coded := time.Since(begin)
	begin = time.Now()
	back, err := dec.DecodeAll(small, nil)
	if err != nil {
		return "", err
	}
	back = decode(back)
	decoded := time.Since(begin)
	if !bytes.Equal(back, raw) {
		return "", fmt.Errorf("coded bytes came back as others")
	}
	rate := func(d time.Duration) float64 { return float64(len(raw)) / (1 << 20) / d.Seconds() }
	return fmt.Sprintf("%.3f (%.0f, %.0f)", float64(len(small))/float64(len(raw)), rate(coded), rate(decoded)), nil
}

func xor(a, b []byte) []byte {
	out := make([]byte, len(a))
	for i := range a {
		out[i] = a[i] ^ b[i]
	}
	return out
}

// planes puts the first bytes of all elements together, then the second, and so on.
func planes(b []byte, width int) []byte {
	out := make([]byte, len(b))
	n := len(b) / width
	for i := range n {
		for j := range width {
			out[j*n+i] = b[i*width+j]
		}
	}
	return out
}

func unplanes(b []byte, width int) []byte {
	out := make([]byte, len(b))
	n := len(b) / width
	for i := range n {
		for j := range width {
			out[i*width+j] = b[j*n+i]
		}
	}
	return out
}
