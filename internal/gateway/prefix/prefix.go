package prefix

import (
	"container/list"
	"hash/maphash"
)

const (
	// size of a block, in bytes: about 64 tokens.
	size = 256
	// mostBlocks of a question are looked at.
	mostBlocks = 256
	// mostKnown blocks are remembered of a replica.
	mostKnown = 16 << 10
)

var seed = maphash.MakeSeed()

// Blocks are the hashes of a question's whole blocks, each over everything before it as well.
func Blocks(question []byte) []uint64 {
	n := min(len(question)/size, mostBlocks)
	if n == 0 {
		return nil
	}
	var h maphash.Hash
	h.SetSeed(seed)
	out := make([]uint64, n)
	for i := range out {
		_, _ = h.Write(question[i*size : (i+1)*size])
		out[i] = h.Sum64()
	}
	return out
}

// Known is what one replica has seen. Its caller keeps it from being used twice at once.
type Known struct {
	at    map[uint64]*list.Element
	order list.List // the newest in front
}

// Match is how many blocks from the beginning on it has seen.
func (k *Known) Match(blocks []uint64) int {
	for i, b := range blocks {
		if k.at[b] == nil {
			return i
		}
	}
	return len(blocks)
}

// Saw remembers a question.
func (k *Known) Saw(blocks []uint64) {
	if k.at == nil {
		k.at = map[uint64]*list.Element{}
	}
	for i := len(blocks) - 1; i >= 0; i-- { // the beginning stays longest
		b := blocks[i]
		if e := k.at[b]; e != nil {
			k.order.MoveToFront(e)
			continue
		}
		k.at[b] = k.order.PushFront(b)
		if len(k.at) > mostKnown {
			oldest := k.order.Back()
			delete(k.at, k.order.Remove(oldest).(uint64))
		}
	}
}
