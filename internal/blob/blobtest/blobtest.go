// Package blobtest is the conformance suite of blob: every adapter's test calls Run.
//
// Place: layer 3, for tests only. Promise: an adapter that passes can stand in for any other.
// Enemies: behaviour that only one adapter has and somebody relies on.
package blobtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// SharedFolder is a folder of the test's own on the mount that FERMI_SHARED_FOLDER names; without it the test is skipped.
func SharedFolder(t *testing.T) string {
	t.Helper()
	mount := os.Getenv("FERMI_SHARED_FOLDER")
	if mount == "" {
		t.Skip("FERMI_SHARED_FOLDER names no folder on a mount that machines share, such as NFS, Lustre or CephFS")
	}
	dir, err := os.MkdirTemp(mount, "fermi-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("what the test wrote stays: %v", err)
		}
	})
	return dir
}

// Run checks everything the port promises; open gives a new empty store each time.
func Run(t *testing.T, open func(t *testing.T) blob.Store) {
	t.Run("PutOpen", func(t *testing.T) { putOpen(t, open(t)) })
	t.Run("BadKeys", func(t *testing.T) { badKeys(t, open(t)) })
	t.Run("FailedPutChangesNothing", func(t *testing.T) { failedPut(t, open(t)) })
	t.Run("ListOrder", func(t *testing.T) { listOrder(t, open(t)) })
	t.Run("Delete", func(t *testing.T) { deletes(t, open(t)) })
	t.Run("Content", func(t *testing.T) { content(t, open(t)) })
	t.Run("ContentTooLarge", func(t *testing.T) { contentTooLarge(t, open(t)) })
	t.Run("Concurrent", func(t *testing.T) { concurrent(t, open(t)) })
	t.Run("Create", func(t *testing.T) { create(t, open(t)) })
	t.Run("Model", func(t *testing.T) { model(t, open(t)) })
}

func put(t testing.TB, st blob.Store, key, text string) {
	t.Helper()
	info, err := st.Put(context.Background(), key, strings.NewReader(text))
	if err != nil {
		t.Fatalf("Put(%q): %v", key, err)
	}
	if info.Key != key || info.Size != int64(len(text)) || info.Modified.IsZero() {
		t.Fatalf("Put(%q) = %+v", key, info)
	}
}

func get(st blob.Store, key string) (string, error) {
	r, info, err := st.Open(context.Background(), key)
	if err != nil {
		return "", err
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err == nil && (info.Key != key || info.Size != int64(len(b))) {
		err = fmt.Errorf("Open(%q) said %+v, read %d bytes", key, info, len(b))
	}
	return string(b), err
}

func want(t testing.TB, st blob.Store, key, text string) {
	t.Helper()
	if got, err := get(st, key); err != nil || got != text {
		t.Fatalf("get(%q) = %.50q, %v; want %.50q", key, got, err, text)
	}
}

func wantGone(t testing.TB, st blob.Store, key string) {
	t.Helper()
	if got, err := get(st, key); !fault.Is(err, fault.NotFound) {
		t.Fatalf("get(%q) = %.50q, %v; want NotFound", key, got, err)
	}
}

func keys(t testing.TB, st blob.Store, prefix, after string, limit int) []string {
	t.Helper()
	infos, err := st.List(context.Background(), prefix, after, limit)
	if err != nil {
		t.Fatalf("List(%q, %q): %v", prefix, after, err)
	}
	out := []string{}
	for _, i := range infos {
		out = append(out, i.Key)
	}
	return out
}

func putOpen(t *testing.T, st blob.Store) {
	big := strings.Repeat("大模型", 1<<20)
	put(t, st, "a/模型 权重.bin", "one")
	want(t, st, "a/模型 权重.bin", "one")
	put(t, st, "a/模型 权重.bin", big)
	want(t, st, "a/模型 权重.bin", big)
	put(t, st, "empty", "")
	want(t, st, "empty", "")
	wantGone(t, st, "a/b")
	wantGone(t, st, "empty/b")
	wantGone(t, st, "a")

	r, _, err := st.Open(context.Background(), "a/模型 权重.bin")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.Seek(-3, io.SeekEnd); err != nil {
		t.Fatal(err)
	}
	put(t, st, "a/模型 权重.bin", "new") // an open reader keeps what it opened
	if tail, err := io.ReadAll(r); err != nil || string(tail) != "型" {
		t.Fatalf("tail = %q, %v", tail, err)
	}
}

func badKeys(t *testing.T, st blob.Store) {
	ctx := context.Background()
	for _, key := range []string{"", "/a", "../a", "a/../b", "a//b", "a\x00b", "a/.", "a\nb", "\xff", strings.Repeat("a/", 600) + "a", strings.Repeat("a", 256)} {
		if _, err := st.Put(ctx, key, strings.NewReader("x")); !fault.Is(err, fault.Invalid) {
			t.Errorf("Put(%.20q): %v", key, err)
		}
		if _, _, err := st.Open(ctx, key); !fault.Is(err, fault.Invalid) {
			t.Errorf("Open(%.20q): %v", key, err)
		}
		if err := st.Delete(ctx, key); !fault.Is(err, fault.Invalid) {
			t.Errorf("Delete(%.20q): %v", key, err)
		}
	}
	if _, err := st.List(ctx, "a", "", 1); !fault.Is(err, fault.Invalid) {
		t.Errorf("List of no folder: %v", err)
	}
}

func failedPut(t *testing.T, st blob.Store) {
	put(t, st, "k", "old")
	broken := errors.New("the sender went away")
	r := io.MultiReader(strings.NewReader(strings.Repeat("x", 100_000)), &failing{broken})
	if _, err := st.Put(context.Background(), "k", r); !errors.Is(err, broken) {
		t.Fatalf("err = %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := st.Put(ctx, "k", strings.NewReader("new")); err == nil {
		t.Fatal("Put succeeded under an ended context")
	}
	want(t, st, "k", "old")
	if got := keys(t, st, "", "", 10); !slices.Equal(got, []string{"k"}) {
		t.Fatalf("keys = %q", got)
	}
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }

func listOrder(t *testing.T, st blob.Store) {
	all := []string{"a-b", "a/b", "a/b-c/x", "a/b.d", "a0", "b/1/2/3", "b/1/2/4", "c", "logs/t/r/1", "logs/t/r/2", "中/文"}
	for i := len(all) - 1; i >= 0; i-- {
		put(t, st, all[i], all[i])
	}
	slices.Sort(all)
	if diff := cmp.Diff(all, keys(t, st, "", "", 100)); diff != "" {
		t.Fatal(diff)
	}
	var paged []string
	for after := ""; ; {
		page := keys(t, st, "", after, 2)
		if len(page) == 0 {
			break
		}
		paged = append(paged, page...)
		after = page[len(page)-1]
	}
	if diff := cmp.Diff(all, paged); diff != "" {
		t.Fatal(diff)
	}
	if diff := cmp.Diff([]string{"logs/t/r/1", "logs/t/r/2"}, keys(t, st, "logs/t/", "", 100)); diff != "" {
		t.Fatal(diff)
	}
	// after need not be a key: this skips all of b/.
	if diff := cmp.Diff([]string{"c"}, keys(t, st, "", "b0", 1)); diff != "" {
		t.Fatal(diff)
	}
	if got := keys(t, st, "nothing/here/", "", 10); len(got) != 0 {
		t.Fatalf("keys = %q", got)
	}
}

func deletes(t *testing.T, st blob.Store) {
	ctx := context.Background()
	for _, k := range []string{"a/b/1", "a/b/2", "a/bc", "d"} {
		put(t, st, k, k)
	}
	for _, k := range []string{"a/b/", "d", "d", "nothing", "nothing/", "d/e"} {
		if err := st.Delete(ctx, k); err != nil {
			t.Fatalf("Delete(%q): %v", k, err)
		}
	}
	if err := st.Delete(ctx, "a"); err != nil { // not an object: stays
		t.Fatal(err)
	}
	if err := st.Delete(ctx, "a/bc/"); err != nil { // not a folder: stays
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a/bc"}, keys(t, st, "", "", 10)); diff != "" {
		t.Fatal(diff)
	}
	wantGone(t, st, "d")
	put(t, st, "d/was/a/file", "x")
	want(t, st, "d/was/a/file", "x")
}

func content(t *testing.T, st blob.Store) {
	ctx := context.Background()
	const sum = "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
	for range 2 {
		digest, size, err := blob.PutContent(ctx, st, "archives", strings.NewReader("hello"), 5)
		if err != nil || digest != sum || size != 5 {
			t.Fatalf("PutContent = %q, %d, %v", digest, size, err)
		}
	}
	key, err := blob.ContentKey("archives", sum)
	if err != nil {
		t.Fatal(err)
	}
	want(t, st, key, "hello")
	if diff := cmp.Diff([]string{key}, keys(t, st, "", "", 10)); diff != "" {
		t.Fatal(diff)
	}
}

func contentTooLarge(t *testing.T, st blob.Store) {
	_, _, err := blob.PutContent(context.Background(), st, "archives", strings.NewReader("hello!"), 5)
	if !fault.Is(err, fault.TooLarge) {
		t.Fatalf("err = %v", err)
	}
	if got := keys(t, st, "", "", 10); len(got) != 0 {
		t.Fatalf("left behind: %q", got)
	}
}

// concurrent hammers few keys: every read sees one whole write or nothing.
func concurrent(t *testing.T, st blob.Store) {
	ctx := context.Background()
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 15 {
				key := fmt.Sprintf("x/%d/%d", i%3, i%2)
				text := bytes.Repeat([]byte{byte('a' + w)}, 5000)
				if _, err := st.Put(ctx, key, bytes.NewReader(text)); err != nil {
					t.Errorf("Put: %v", err)
				}
				got, err := get(st, key)
				if err != nil && !fault.Is(err, fault.NotFound) {
					t.Errorf("get: %v", err)
				}
				if err == nil && (len(got) != 5000 || strings.Count(got, got[:1]) != 5000) {
					t.Errorf("a torn read of %d bytes", len(got))
				}
				if w%2 == 0 {
					if err := st.Delete(ctx, key); err != nil {
						t.Errorf("Delete: %v", err)
					}
				}
				if _, err := st.List(ctx, "x/", "", 10); err != nil {
					t.Errorf("List: %v", err)
				}
			}
		})
	}
	wg.Wait()
}

// create: of many that put one key if absent, one does.
func create(t *testing.T, st blob.Store) {
	c, ok := st.(blob.Creator)
	if !ok {
		t.Fatal("this adapter has no Create; checkpoints are committed by it")
	}
	ctx := context.Background()
	var wg sync.WaitGroup
	var made atomic.Int32
	for w := range 8 {
		wg.Go(func() {
			_, err := c.Create(ctx, "c/only", strings.NewReader(strings.Repeat(string(rune('a'+w)), 5000)))
			if err == nil {
				made.Add(1)
			} else if !fault.Is(err, fault.Conflict) {
				t.Errorf("Create: %v", err)
			}
		})
	}
	wg.Wait()
	if made.Load() != 1 {
		t.Fatalf("%d of 8 were first", made.Load())
	}
	first, err := get(st, "c/only")
	if err != nil || len(first) != 5000 || strings.Count(first, first[:1]) != 5000 {
		t.Fatalf("%d bytes, %v", len(first), err)
	}
	if _, err := c.Create(ctx, "c/only", strings.NewReader("later")); !fault.Is(err, fault.Conflict) {
		t.Fatalf("a second Create: %v", err)
	}
	want(t, st, "c/only", first)
	if err := st.Delete(ctx, "c/only"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Create(ctx, "c/only", strings.NewReader("anew")); err != nil {
		t.Fatal(err)
	}
	want(t, st, "c/only", "anew")
}

// model compares the store with a map.
func model(t *testing.T, st blob.Store) {
	ctx := context.Background()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		base := fmt.Sprintf("m%d/", n)
		have := map[string]string{}
		key := rapid.Custom(func(rt *rapid.T) string {
			return rapid.SampledFrom([]string{"a/", "a-/", "b/c/", ""}).Draw(rt, "dir") +
				rapid.SampledFrom([]string{"x", "y-", "中"}).Draw(rt, "name")
		})
		for range rapid.IntRange(1, 6).Draw(rt, "steps") {
			k := key.Draw(rt, "key")
			switch rapid.IntRange(0, 3).Draw(rt, "op") {
			case 0, 1:
				put(t, st, base+k, k)
				have[base+k] = k
			case 2:
				if err := st.Delete(ctx, base+k); err != nil {
					rt.Fatal(err)
				}
				delete(have, base+k)
			case 3:
				if err := st.Delete(ctx, base+"a/"); err != nil {
					rt.Fatal(err)
				}
				for h := range have {
					if strings.HasPrefix(h, base+"a/") {
						delete(have, h)
					}
				}
			}
		}
		wantKeys := []string{}
		for k := range have {
			wantKeys = append(wantKeys, k)
		}
		slices.Sort(wantKeys)
		after := base + key.Draw(rt, "after")
		if diff := cmp.Diff(wantKeys, keys(t, st, base, "", 100)); diff != "" {
			rt.Fatal(diff)
		}
		behind := slices.DeleteFunc(wantKeys, func(k string) bool { return k <= after })
		if diff := cmp.Diff(behind, keys(t, st, base, after, 100)); diff != "" {
			rt.Fatal(diff)
		}
	})
}
