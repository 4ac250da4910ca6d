package link

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"

	"github.com/fermi-cluster/fermi/internal/engine"
)

// Tokens mints and checks replica tokens. A token is an HMAC of the replica's name, which contains
// the attempt: nothing is stored, it works for that attempt only, and every server with the key
// can check it. Safe for concurrent use.
type Tokens struct{ key []byte }

// NewTokens uses this key; give at least 32 random bytes.
func NewTokens(key []byte) *Tokens { return &Tokens{key: append([]byte(nil), key...)} }

// Mint makes the replica's token.
func (t *Tokens) Mint(name engine.Name) string {
	mac := hmac.New(sha256.New, t.key)
	mac.Write([]byte("fermi-link-v1\x00" + string(name)))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// Check says whether the token is the replica's, in constant time.
func (t *Tokens) Check(name engine.Name, token string) bool {
	return hmac.Equal([]byte(t.Mint(name)), []byte(token))
}
