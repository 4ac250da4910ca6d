package ckpt

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"
)

// TestPackGivesWhatCame: whatever the lengths, and wherever the chunks lie in their buffers, all comes out, streamed in
// pieces that O_DIRECT takes or gathered, and every buffer is free again.
func TestPackGivesWhatCame(t *testing.T) {
	const buffers = 4
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		free := make(chan []byte, buffers)
		for range buffers {
			free <- make([]byte, packAlign+20_000)
		}
		p := newPack("k", free)
		var want []byte
		go func() {
			for _, n := range rng.Perm(50) {
				m := &moving{buf: <-free, at: rng.IntN(packAlign), length: 1 + n*400}
				chunk := m.buf[m.at : m.at+m.length]
				copy(chunk, noise(rng, len(chunk)))
				want = append(want, chunk...)
				p.add(m)
			}
			p.end(nil)
		}()
		var got bytes.Buffer
		if seed%2 == 0 {
			if _, err := p.WriteTo(pieces{t, &got}); err != nil {
				t.Fatal(err)
			}
		} else {
			must[int64](t)(p.Seek(0, io.SeekEnd))
			for range 2 { // a store may send it again
				got.Reset()
				must[int64](t)(p.Seek(0, io.SeekStart))
				must[int64](t)(io.Copy(&got, p))
			}
		}
		if !bytes.Equal(got.Bytes(), want) || len(free) != buffers {
			t.Fatalf("seed %d: %d bytes of %d, %d buffers free", seed, got.Len(), len(want), len(free))
		}
	}
}

// pieces looks at what a store is given: all but the last can go around the page cache.
type pieces struct {
	t   *testing.T
	out *bytes.Buffer
}

func (p pieces) Write(b []byte) (int, error) {
	if p.out.Len()%packAlign != 0 {
		p.t.Errorf("a piece behind %d bytes", p.out.Len())
	}
	return p.out.Write(b)
}
