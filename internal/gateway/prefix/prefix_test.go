package prefix

import (
	"bytes"
	"fmt"
	"testing"
)

// TestMatch: two questions match as far as they begin alike, by whole blocks, and what follows a difference never counts.
func TestMatch(t *testing.T) {
	common := bytes.Repeat([]byte("s"), 4*size)
	tail := bytes.Repeat([]byte("t"), 2*size)
	first := append(append(bytes.Clone(common), 'a'), tail...)
	second := append(append(bytes.Clone(common), 'b'), tail...)
	var k Known
	if n := k.Match(Blocks(first)); n != 0 {
		t.Errorf("%d blocks of nothing", n)
	}
	k.Saw(Blocks(first))
	if n := k.Match(Blocks(first)); n != 6 {
		t.Errorf("%d blocks of itself", n)
	}
	if n := k.Match(Blocks(second)); n != 4 {
		t.Errorf("%d blocks of another with the same beginning", n)
	}
	if n := k.Match(Blocks(tail)); n != 0 {
		t.Errorf("%d blocks of what stood behind a beginning", n)
	}
	if Blocks([]byte("short")) != nil || len(Blocks(make([]byte, 10*mostBlocks*size))) != mostBlocks {
		t.Error("a question is looked at from one block to as many as are worth it")
	}
}

// TestBounded: what is remembered is bounded, the newest stays, and of it the beginning.
func TestBounded(t *testing.T) {
	var k Known
	for i := range 3 * mostKnown / mostBlocks {
		k.Saw(Blocks(bytes.Repeat([]byte(fmt.Sprintf("%08d", i)), mostBlocks*size/8)))
	}
	if len(k.at) != mostKnown || k.order.Len() != mostKnown {
		t.Errorf("%d and %d are known", len(k.at), k.order.Len())
	}
	newest := bytes.Repeat([]byte(fmt.Sprintf("%08d", 3*mostKnown/mostBlocks-1)), mostBlocks*size/8)
	if n := k.Match(Blocks(newest)); n != mostBlocks {
		t.Errorf("%d blocks of the newest", n)
	}
}
