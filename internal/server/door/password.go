package door

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"

	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
)

// Passwords are kept as argon2id in its usual text form, "$argon2id$v=19$m=19456,t=2,p=1$salt$key".
// The cost is the smallest that OWASP recommends: about 20 ms and 19 MiB, and at most hashers of
// them at a time, so that guessing costs the guesser more than the server.
const (
	minPassword = 8
	maxPassword = 256
	hashers     = 2
	saltBytes   = 16
	keyBytes    = 32
)

// Cost is how dear one hash is. What is read back is bounded by maxCost: a stored hash must not
// be able to take the server's memory.
type Cost struct {
	Memory uint32 // KiB
	Times  uint32
	Lanes  uint8
}

var (
	usualCost = Cost{19 << 10, 2, 1}
	maxCost   = Cost{256 << 10, 16, 8}
)

// Passwords hashes, a few at a time. Safe for concurrent use.
type Passwords struct {
	random io.Reader
	Cost   Cost // of new ones
	slots  chan struct{}
}

func newPasswords(random io.Reader) *Passwords {
	return &Passwords{random: random, Cost: usualCost, slots: make(chan struct{}, hashers)}
}

func (p *Passwords) derive(ctx context.Context, password string, salt []byte, c Cost, n uint32) ([]byte, error) {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-p.slots }()
	return argon2.IDKey([]byte(password), salt, c.Times, c.Memory, c.Lanes, n), nil
}

// hash makes what is stored of a password.
func (p *Passwords) hash(ctx context.Context, password string) (string, error) {
	salt := make([]byte, saltBytes)
	if _, err := io.ReadFull(p.random, salt); err != nil {
		return "", err
	}
	key, err := p.derive(ctx, password, salt, p.Cost, keyBytes)
	if err != nil {
		return "", err
	}
	return formatHash(p.Cost, salt, key), nil
}

// matches says whether a password is the one that was hashed. An empty or unreadable hash
// matches nothing, and takes as long as any other to say so.
func (p *Passwords) matches(ctx context.Context, password, stored string) (bool, error) {
	c, salt, key, err := parseHash(stored)
	known := err == nil
	if !known {
		c, salt, key = p.Cost, make([]byte, saltBytes), make([]byte, keyBytes)
	}
	got, err := p.derive(ctx, password, salt, c, uint32(len(key)))
	if err != nil {
		return false, err
	}
	return subtle.ConstantTimeCompare(got, key) == 1 && known, nil
}

func formatHash(c Cost, salt, key []byte) string {
	b64 := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, c.Memory, c.Times, c.Lanes, b64.EncodeToString(salt), b64.EncodeToString(key))
}

var errBadHash = errors.New("not an argon2id hash within bounds")

func parseHash(text string) (c Cost, salt, key []byte, err error) {
	parts := strings.Split(text, "$")
	if len(text) > 256 || len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" || parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return c, nil, nil, errBadHash
	}
	if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &c.Memory, &c.Times, &c.Lanes); err != nil {
		return c, nil, nil, errBadHash
	}
	if c.Lanes < 1 || c.Times < 1 || c.Memory < 8*uint32(c.Lanes) || c.Lanes > maxCost.Lanes || c.Times > maxCost.Times || c.Memory > maxCost.Memory {
		return c, nil, nil, errBadHash
	}
	salt, errSalt := base64.RawStdEncoding.Strict().DecodeString(parts[4])
	key, errKey := base64.RawStdEncoding.Strict().DecodeString(parts[5])
	if errSalt != nil || errKey != nil || len(salt) < 8 || len(salt) > 64 || len(key) < 16 || len(key) > 64 {
		return c, nil, nil, errBadHash
	}
	if formatHash(c, salt, key) != text {
		return c, nil, nil, errBadHash
	}
	return c, salt, key, nil
}

// checkPassword refuses what is no password worth having.
func checkPassword(user, password string) error {
	switch {
	case !utf8.ValidString(password) || strings.ContainsFunc(password, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return refuse.Invalid("password", fault.T("A password has no control characters.", "密码不能包含控制字符。"))
	case utf8.RuneCountInString(password) < minPassword:
		return refuse.Invalid("password", fault.T("A password has at least %d characters.", "密码至少 %d 个字符。", minPassword))
	case len(password) > maxPassword:
		return refuse.Invalid("password", fault.T("A password has at most %d bytes.", "密码最多 %d 字节。", maxPassword))
	case strings.EqualFold(password, user):
		return refuse.Invalid("password", fault.T("The password is the user's name.", "密码不能与用户名相同。"))
	}
	return nil
}
