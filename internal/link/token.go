package link

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/fermi-cluster/fermi/internal/engine"
)

// Tokens mints and checks replica tokens. A token is an HMAC of the replica's name, which contains
// the attempt: nothing is stored, it works for that attempt only, and every server with the key
// can check it. Safe for concurrent use.
//
// A key can be replaced while replicas run. They keep their tokens, so that a key which has retired still
// checks; and as the replicas of an attempt know each other by a key that is made from it, everything that
// belongs to an attempt from before is made with the key of then, also for a replica that joins it later.
type Tokens struct {
	mu     sync.RWMutex
	key    []byte
	old    []OldKey // by Retired, oldest first
	placed func(taskID string) time.Time
}

// OldKey is a key that is used for attempts which began before it retired, and for no others.
type OldKey struct {
	Key     []byte    `json:"key"`
	Retired time.Time `json:"retired"`
}

// NewTokens uses this key; give at least 32 random bytes.
func NewTokens(key []byte) *Tokens { return &Tokens{key: append([]byte(nil), key...)} }

// Replace changes the keys. placed says when the attempt of a task that runs now began; zero when it is not known.
func (t *Tokens) Replace(key []byte, old []OldKey, placed func(taskID string) time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.key, t.old, t.placed = append([]byte(nil), key...), slices.Clone(old), placed
	slices.SortFunc(t.old, func(a, b OldKey) int { return a.Retired.Compare(b.Retired) })
}

// Keys are all keys, that of now first.
func (t *Tokens) Keys() [][]byte {
	t.mu.RLock()
	defer t.mu.RUnlock()
	keys := [][]byte{t.key}
	for _, o := range slices.Backward(t.old) {
		keys = append(keys, o.Key)
	}
	return keys
}

// keyOf is the key of a task's attempt.
func (t *Tokens) keyOf(taskID string) []byte {
	t.mu.RLock()
	key, old, placed := t.key, t.old, t.placed
	t.mu.RUnlock()
	if len(old) == 0 || placed == nil {
		return key
	}
	at := placed(taskID)
	if at.IsZero() {
		return key
	}
	for _, o := range old {
		if !at.After(o.Retired) {
			return o.Key
		}
	}
	return key
}

// Mint makes the replica's token.
func (t *Tokens) Mint(name engine.Name) string {
	parts, err := ParseName(name)
	if err != nil {
		return mac(t.keyOf(""), "fermi-link-v1", string(name))
	}
	return mac(t.keyOf(parts.TaskID), "fermi-link-v1", string(name))
}

// MintTask makes the key by which the replicas of an attempt know each other.
func (t *Tokens) MintTask(taskID string, attempt int) string {
	return mac(t.keyOf(taskID), "fermi-task-v1", taskID+"\x00"+strconv.Itoa(attempt))
}

// MintPeer makes the key by which the launchers of an attempt hand each other states. Unlike the other it
// never reaches a rank.
func (t *Tokens) MintPeer(taskID string, attempt int) string {
	return mac(t.keyOf(taskID), "fermi-peer-v1", taskID+"\x00"+strconv.Itoa(attempt))
}

func mac(key []byte, use, name string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(use + "\x00" + name))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// Check says whether the token is the replica's, by any key, in constant time.
func (t *Tokens) Check(name engine.Name, token string) bool {
	good := false
	for _, key := range t.Keys() {
		good = hmac.Equal([]byte(mac(key, "fermi-link-v1", string(name))), []byte(token)) || good
	}
	return good
}
