package blob

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// Bounds of a key: the whole, and one segment (what file systems take as a name).
const (
	MaxKey     = 1024
	MaxSegment = 255
)

// CheckKey says whether a key may name an object; the fault is Invalid.
func CheckKey(key string) error {
	switch {
	case key == "":
		return badKey(key, "is empty", "为空")
	case len(key) > MaxKey:
		return badKey(key[:64]+"…", "is longer than 1024 bytes", "超过 1024 字节")
	case !utf8.ValidString(key):
		return badKey(strings.ToValidUTF8(key, "\uFFFD"), "is not valid UTF-8", "不是有效的 UTF-8")
	}
	for seg := range strings.SplitSeq(key, "/") {
		if seg == "" || seg == "." || seg == ".." {
			return badKey(key, `has an empty, "." or ".." segment`, `包含空段、"." 或 ".."`)
		}
		if len(seg) > MaxSegment {
			return badKey(key, "has a segment longer than 255 bytes", "有一段超过 255 字节")
		}
	}
	for _, r := range key {
		if !unicode.IsPrint(r) {
			return badKey(key, "has a character that cannot be printed", "包含不可打印字符")
		}
	}
	return nil
}

// CheckPrefix says whether a prefix may be listed: "" (all) or a key and a "/".
func CheckPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	key, ok := strings.CutSuffix(prefix, "/")
	if !ok {
		return badKey(prefix, `is no folder: it must end in "/"`, `不是目录：必须以 "/" 结尾`)
	}
	return CheckKey(key)
}

// Exists is what a Creator says where the key has an object.
func Exists(key string) *fault.Error {
	return fault.New(fault.Conflict, "ObjectExists", fault.T("There is an object %q already.", "对象 %q 已存在。", key))
}

func badKey(key, en, zh string) error {
	return fault.New(fault.Invalid, "BadKey", fault.T("The object key %q "+en+".", "对象键 %q "+zh+"。", key))
}

// ContentKey is where content of this digest ("sha256:<64 hex>" or the bare hex) is kept.
func ContentKey(prefix, digest string) (string, error) {
	sum := strings.TrimPrefix(digest, "sha256:")
	if raw, err := hex.DecodeString(sum); err != nil || len(raw) != sha256.Size || strings.ToLower(sum) != sum {
		return "", fault.New(fault.Invalid, "BadDigest", fault.T(
			"%.100q is no digest; it must look like sha256:<64 hexadecimal digits in lower case>.",
			"%.100q 不是有效的摘要；应为 sha256:<64 位小写十六进制>。", digest))
	}
	key := prefix + "/" + sum[:2] + "/" + sum
	return key, CheckKey(key)
}

// uploads is where content waits until its name is known; what a crash left there is swept by
// later uploads once it is older than staleUpload.
const (
	uploads     = "uploads"
	staleUpload = 24 * time.Hour
)

// Renamer is a Store that can move an object without copying it.
type Renamer interface {
	// Rename makes the object at from appear at to, whole and durable, replacing what was there.
	Rename(ctx context.Context, from, to string) error
}

// PutContent stores what r gives under its own SHA-256 and returns "sha256:<hex>". The bytes
// stream through a temporary object; content already there is not written again. More than limit
// bytes is fault TooLarge, and nothing stays behind.
func PutContent(ctx context.Context, st Store, prefix string, r io.Reader, limit int64) (digest string, size int64, err error) {
	if err := CheckKey(prefix); err != nil {
		return "", 0, err
	}
	if err := sweep(ctx, st, prefix); err != nil {
		return "", 0, err
	}
	var nonce [16]byte
	rand.Read(nonce[:]) // never fails
	tmp := prefix + "/" + uploads + "/" + hex.EncodeToString(nonce[:])
	sum := sha256.New()
	in := &limited{r: io.TeeReader(r, sum), left: limit, limit: limit}
	info, err := st.Put(ctx, tmp, in)
	if err != nil {
		return "", 0, err
	}
	defer func() {
		// Also when ctx ended meanwhile: the temporary object must go.
		err = errors.Join(err, st.Delete(context.WithoutCancel(ctx), tmp))
		if err != nil {
			digest, size = "", 0
		}
	}()
	digest = "sha256:" + hex.EncodeToString(sum.Sum(nil))
	key, err := ContentKey(prefix, digest)
	if err != nil {
		return "", 0, err
	}
	return digest, info.Size, adopt(ctx, st, tmp, key, info.Size)
}

// sweep removes a few uploads that a crash left behind.
func sweep(ctx context.Context, st Store, prefix string) error {
	old, err := st.List(ctx, prefix+"/"+uploads+"/", "", 16)
	for _, info := range old {
		if err == nil && time.Since(info.Modified) > staleUpload {
			err = st.Delete(ctx, info.Key)
		}
	}
	return err
}

// adopt moves tmp to key. Content that is there already is replaced by itself where that costs no copy: how long
// an upload takes does not say whether somebody sent the same before.
func adopt(ctx context.Context, st Store, tmp, key string, size int64) error {
	if mover, ok := st.(Renamer); ok {
		return mover.Rename(ctx, tmp, key)
	}
	if have, info, err := st.Open(ctx, key); err == nil {
		have.Close()
		if info.Size == size {
			return nil
		}
	} else if !fault.Is(err, fault.NotFound) {
		return err
	}
	in, _, err := st.Open(ctx, tmp)
	if err != nil {
		return err
	}
	defer in.Close()
	_, err = st.Put(ctx, key, in)
	return err
}

// limited fails, instead of ending, once more than left bytes were read.
type limited struct {
	r           io.Reader
	left, limit int64
}

func (l *limited) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, fault.New(fault.TooLarge, "TooLarge", fault.T(
			"The upload is larger than %d bytes.", "上传内容超过 %d 字节。", l.limit))
	}
	return n, err
}
