package blob_test

import (
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func TestCheckKey(t *testing.T) {
	for _, key := range []string{"a", "a/b", "…", "a b", "大模型/权重-1.bin", "..a", "a/...", `a\b`} {
		if err := blob.CheckKey(key); err != nil {
			t.Errorf("CheckKey(%q) = %v", key, err)
		}
	}
	for _, key := range []string{"", "/", "a/", "/a", ".", "..", "a/..", "a\x00", "a\tb", "\u202ea", "\xff", "a//b"} {
		if err := blob.CheckKey(key); !fault.Is(err, fault.Invalid) {
			t.Errorf("CheckKey(%q) = %v", key, err)
		}
	}
}

func TestContentKeyRefusesOtherText(t *testing.T) {
	for _, d := range []string{"", "sha256:", "sha256:../..", strings.Repeat("A", 64), strings.Repeat("a", 63), "md5:" + strings.Repeat("a", 64)} {
		if key, err := blob.ContentKey("p", d); !fault.Is(err, fault.Invalid) {
			t.Errorf("ContentKey(%q) = %q, %v", d, key, err)
		}
	}
}

// FuzzCheckKey: an accepted key, joined to any root, is a clean path under that root.
func FuzzCheckKey(f *testing.F) {
	for _, s := range []string{"a/b", "../x", "a/./b", "大/模型", "a//b", "/etc/passwd", "a\x00b", "..", "\u2024\u2024/x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if blob.CheckKey(key) != nil {
			return
		}
		if path.Clean(key) != key || !filepath.IsLocal(key) || strings.HasPrefix(key, "/") || len(key) > blob.MaxKey {
			t.Fatalf("accepted %q", key)
		}
		if !strings.HasPrefix(path.Join("/root/objects", key), "/root/objects/") {
			t.Fatalf("%q leaves the root", key)
		}
		if blob.CheckPrefix(key+"/") != nil {
			t.Fatalf("%q is a key but no prefix", key)
		}
	})
}
