package link

import (
	"bytes"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/engine"
)

// TestReplacedKey: replicas that run keep their tokens, attempts from before keep the keys by which their
// replicas know each other, and everything new is made with the new key.
func TestReplacedKey(t *testing.T) {
	first, second, third := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32), bytes.Repeat([]byte{3}, 32)
	begun := map[string]time.Time{"task-old": time.Unix(10, 0), "task-mid": time.Unix(30, 0), "task-new": time.Unix(50, 0)}
	placed := func(id string) time.Time { return begun[id] }
	was := NewTokens(first)
	old := engine.NameOf("task-old", "worker", 0, 1)
	token, key := was.Mint(old), was.MintTask("task-old", 1)

	tokens := NewTokens(first)
	tokens.Replace(third, []OldKey{{second, time.Unix(40, 0)}, {first, time.Unix(20, 0)}}, placed)
	if !tokens.Check(old, token) || tokens.MintTask("task-old", 1) != key || tokens.Mint(engine.NameOf("task-old", "worker", 1, 1)) != was.Mint(engine.NameOf("task-old", "worker", 1, 1)) {
		t.Error("an attempt from before the first change has other keys")
	}
	if tokens.MintPeer("task-mid", 1) != NewTokens(second).MintPeer("task-mid", 1) || tokens.MintPeer("task-new", 1) != NewTokens(third).MintPeer("task-new", 1) ||
		tokens.MintPeer("task-unknown", 1) != NewTokens(third).MintPeer("task-unknown", 1) {
		t.Error("an attempt has the key of another time")
	}
	if keys := tokens.Keys(); len(keys) != 3 || !bytes.Equal(keys[0], third) || !bytes.Equal(keys[1], second) {
		t.Errorf("%v", keys)
	}
	tokens.Replace(third, nil, placed)
	if tokens.Check(old, token) {
		t.Error("a key that is gone still opens")
	}
}
