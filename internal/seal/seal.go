// Package seal encrypts small values at rest.
//
// Place: foundation. Promise: what Seal made only Open with the same key and the same context gives
// back, whole and unchanged (AES-256-GCM); a value moved to another name does not open. Enemies: a
// key in a backup, plain text in an error.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"sync/atomic"
)

// KeyBytes is the length of a key.
const KeyBytes = 32

// Box seals with one key and opens with that and older ones. Safe for concurrent use.
type Box struct {
	// keys are never empty; the first seals.
	keys atomic.Pointer[[]cipher.AEAD]
}

// New makes a box from a key of KeyBytes random bytes, and older ones that still open.
func New(key []byte, older ...[]byte) (*Box, error) {
	b := &Box{}
	return b, b.Replace(key, older...)
}

// Replace changes the keys of the box, for all who hold it.
func (b *Box) Replace(key []byte, older ...[]byte) error {
	var keys []cipher.AEAD
	for _, k := range append([][]byte{key}, older...) {
		if len(k) != KeyBytes {
			return fmt.Errorf("a key of %d bytes; it must have %d", len(k), KeyBytes)
		}
		block, err := aes.NewCipher(k)
		if err != nil {
			return err
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return err
		}
		keys = append(keys, aead)
	}
	b.keys.Store(&keys)
	return nil
}

// prefix names the scheme, so that a later one can be told apart.
const prefix = "v1:"

// Seal encrypts plain; context is where it belongs and must be the same at Open.
func (b *Box) Seal(plain, context string) string {
	return prefix + base64.StdEncoding.EncodeToString((*b.keys.Load())[0].Seal(nil, nil, []byte(plain), []byte(context)))
}

var errOpen = errors.New("the value does not open: another key, another place, or damaged")

// Open gives back what Seal took.
func (b *Box) Open(sealed, context string) (string, error) {
	plain, _, err := b.OpenWith(sealed, context)
	return plain, err
}

// OpenWith is Open, and says whether the key that opened is the one that seals now.
func (b *Box) OpenWith(sealed, context string) (plain string, current bool, err error) {
	if len(sealed) < len(prefix) || sealed[:len(prefix)] != prefix {
		return "", false, errOpen
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(sealed[len(prefix):])
	if err != nil {
		return "", false, errOpen
	}
	for i, key := range *b.keys.Load() {
		if out, err := key.Open(nil, nil, raw, []byte(context)); err == nil {
			return string(out), i == 0, nil
		}
	}
	return "", false, errOpen
}

// NewKey makes a key.
func NewKey() []byte {
	key := make([]byte, KeyBytes)
	rand.Read(key)
	return key
}
