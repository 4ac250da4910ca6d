package link

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strconv"

	"github.com/fermi-cluster/fermi/internal/engine"
)

// Tokens mints and checks replica tokens. A token is an HMAC of the replica's name, which contains
// the attempt: nothing is stored, it works for that attempt only, and every server with the key
// can check it. Safe for concurrent use.
type Tokens struct{ key []byte }

// NewTokens uses this key; give at least 32 random bytes.
func NewTokens(key []byte) *Tokens { return &Tokens{key: append([]byte(nil), key...)} }

// Mint makes the replica's token.
func (t *Tokens) Mint(name engine.Name) string { return t.mac("fermi-link-v1", string(name)) }

// MintTask makes the key by which the replicas of an attempt know each other.
func (t *Tokens) MintTask(taskID string, attempt int) string {
	return t.mac("fermi-task-v1", taskID+"\x00"+strconv.Itoa(attempt))
}

// MintPeer makes the key by which the launchers of an attempt hand each other states. Unlike the other it
// never reaches a rank.
func (t *Tokens) MintPeer(taskID string, attempt int) string {
	return t.mac("fermi-peer-v1", taskID+"\x00"+strconv.Itoa(attempt))
}

func (t *Tokens) mac(use, name string) string {
	mac := hmac.New(sha256.New, t.key)
	mac.Write([]byte(use + "\x00" + name))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// Check says whether the token is the replica's, in constant time.
func (t *Tokens) Check(name engine.Name, token string) bool {
	return hmac.Equal([]byte(t.Mint(name)), []byte(token))
}
