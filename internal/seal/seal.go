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
)

// KeyBytes is the length of a key.
const KeyBytes = 32

// Box seals and opens with one key. Safe for concurrent use.
type Box struct{ aead cipher.AEAD }

// New makes a box from a key of KeyBytes random bytes.
func New(key []byte) (*Box, error) {
	if len(key) != KeyBytes {
		return nil, fmt.Errorf("a key of %d bytes; it must have %d", len(key), KeyBytes)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	return &Box{aead}, nil
}

// prefix names the scheme, so that a later one can be told apart.
const prefix = "v1:"

// Seal encrypts plain; context is where it belongs and must be the same at Open.
func (b *Box) Seal(plain, context string) string {
	return prefix + base64.StdEncoding.EncodeToString(b.aead.Seal(nil, nil, []byte(plain), []byte(context)))
}

var errOpen = errors.New("the value does not open: another key, another place, or damaged")

// Open gives back what Seal took.
func (b *Box) Open(sealed, context string) (string, error) {
	if len(sealed) < len(prefix) || sealed[:len(prefix)] != prefix {
		return "", errOpen
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(sealed[len(prefix):])
	if err != nil {
		return "", errOpen
	}
	plain, err := b.aead.Open(nil, nil, raw, []byte(context))
	if err != nil {
		return "", errOpen
	}
	return string(plain), nil
}

// NewKey makes a key.
func NewKey() []byte {
	key := make([]byte, KeyBytes)
	rand.Read(key)
	return key
}
