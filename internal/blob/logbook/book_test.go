package logbook

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/fermi-cluster/fermi/internal/blob/folder"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var epoch = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

func newFolder(t testing.TB) (*folder.Store, string) {
	t.Helper()
	dir := t.TempDir()
	st, err := folder.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	return st, filepath.Join(dir, "objects")
}

// text is a line of replica number rep whose content is i.
func text(rep, i int) []byte {
	return AppendLine(nil, Line{Time: epoch.Add(time.Duration(i*10+rep) * time.Millisecond), Rank: rep, Stream: 'O', Text: fmt.Appendf(nil, "%s %d", name(rep), i)})
}

func lines(rep, from, to int) []byte {
	var out []byte
	for i := from; i < to; i++ {
		out = append(out, text(rep, i)...)
	}
	return out
}

func name(rep int) string { return fmt.Sprintf("r%d", rep) }

func appendOK(t testing.TB, b *Book, rep int, offset int64, data []byte) int64 {
	t.Helper()
	durable, err := b.Append(context.Background(), "task-1", name(rep), offset, data)
	if err != nil {
		t.Fatalf("Append(%s, %d): %v", name(rep), offset, err)
	}
	return durable
}

func read(t testing.TB, b *Book, opts ReadOptions) []string {
	t.Helper()
	got := []string{}
	err := b.Read(context.Background(), "task-1", opts, func(replica string, l Line) error {
		got = append(got, string(l.Text))
		return nil
	})
	if err != nil {
		t.Fatalf("Read(%+v): %v", opts, err)
	}
	return got
}

// numbered is "r0 from" … "r0 to-1".
func numbered(rep, from, to int) []string {
	out := []string{}
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprintf("%s %d", name(rep), i))
	}
	return out
}

func same(t testing.TB, want, got []string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
}

func TestOffsets(t *testing.T) {
	st, _ := newFolder(t)
	b := New(Config{Blob: st})
	ctx := context.Background()
	all := lines(0, 0, 10)
	at := func(i int) int64 { return int64(len(lines(0, 0, i))) }

	if d := appendOK(t, b, 0, 0, all[:at(4)]); d != 0 {
		t.Fatalf("durable = %d", d)
	}
	_, err := b.Append(ctx, "task-1", "r0", at(5), all[at(5):])
	if !fault.Is(err, fault.Conflict) || fault.ReasonOf(err) != "LogGap" {
		t.Fatalf("gap: %v", err)
	}
	appendOK(t, b, 0, at(2), all[at(2):at(6)])
	appendOK(t, b, 0, at(1), all[at(1):at(3)])
	if _, err := b.Append(ctx, "task-1", "r0", at(6)-1, append([]byte("x"), all[at(6):]...)); fault.ReasonOf(err) != "LogMismatch" {
		t.Fatalf("mismatch: %v", err)
	}
	same(t, numbered(0, 0, 6), read(t, b, ReadOptions{}))
	if d, err := b.Finish(ctx, "task-1", "r0"); err != nil || d != at(6) {
		t.Fatalf("Finish = %d, %v", d, err)
	}
	if len(b.tasks) != 0 || b.held != 0 {
		t.Fatalf("still held: %d tasks, %d bytes", len(b.tasks), b.held)
	}
	// A launcher whose acknowledgement was lost sends again.
	if d := appendOK(t, b, 0, at(4), all[at(4):]); d != at(6) {
		t.Fatalf("durable = %d", d)
	}
	same(t, numbered(0, 0, 10), read(t, b, ReadOptions{Replica: "r0"}))
	for _, bad := range [][]byte{[]byte("no newline"), append(bytes.Repeat([]byte("x"), maxBlock), '\n')} {
		if _, err := b.Append(ctx, "task-1", "r0", 0, bad); !fault.Is(err, fault.Invalid) {
			t.Fatalf("err = %v", err)
		}
	}
	if _, err := b.Append(ctx, "task-1", "../x", 0, all); !fault.Is(err, fault.Invalid) {
		t.Fatalf("err = %v", err)
	}
}

func TestRestartAndResend(t *testing.T) {
	st, _ := newFolder(t)
	all := lines(0, 0, 1000)
	b := New(Config{Blob: st, ChunkBytes: 5000})
	appendOK(t, b, 0, 0, all[:len(lines(0, 0, 300))])
	durable := appendOK(t, b, 0, int64(len(lines(0, 0, 300))), lines(0, 300, 310))
	if durable != int64(len(lines(0, 0, 300))) {
		t.Fatalf("durable = %d", durable)
	}
	again := New(Config{Blob: st, ChunkBytes: 5000}) // the server was killed
	from, err := again.Durable(context.Background(), "task-1", "r0")
	if err != nil || from != durable {
		t.Fatalf("Durable = %d, %v; want %d", from, err, durable)
	}
	appendOK(t, again, 0, from, all[from:])
	same(t, numbered(0, 0, 1000), read(t, again, ReadOptions{}))
}

// TestTwoServers: the old server still commits what it had; chunks overlap, lines do not repeat.
func TestTwoServers(t *testing.T) {
	st, _ := newFolder(t)
	ctx := context.Background()
	one, two := New(Config{Blob: st}), New(Config{Blob: st})
	all := lines(0, 0, 100)
	appendOK(t, one, 0, 0, all[:len(lines(0, 0, 50))])
	appendOK(t, two, 0, 0, all[:len(lines(0, 0, 70))])
	for _, b := range []*Book{one, two} {
		if _, err := b.Finish(ctx, "task-1", "r0"); err != nil {
			t.Fatal(err)
		}
		appendOK(t, one, 0, int64(len(lines(0, 0, 50))), lines(0, 50, 60))
	}
	appendOK(t, one, 0, int64(len(lines(0, 0, 70))), lines(0, 70, 100))
	for _, n := range []int{0, 1, 30, 31, 45, 55, 100, 200} {
		want := numbered(0, 0, 100)
		if n > 0 {
			want = want[max(0, 100-n):]
		}
		same(t, want, read(t, one, ReadOptions{Tail: n}))
	}
}

func TestMergeTailSince(t *testing.T) {
	st, _ := newFolder(t)
	b := New(Config{Blob: st, ChunkBytes: 300})
	var want []string
	for rep := range 3 {
		offset := int64(0)
		for i := range 40 {
			line := text(rep, i)
			appendOK(t, b, rep, offset, line)
			offset += int64(len(line))
		}
	}
	for i := range 40 {
		for rep := range 3 {
			want = append(want, fmt.Sprintf("r%d %d", rep, i))
		}
	}
	same(t, want, read(t, b, ReadOptions{}))
	for _, n := range []int{1, 2, 7, 50, 119, 120, 121} {
		same(t, want[max(0, 120-n):], read(t, b, ReadOptions{Tail: n}))
	}
	same(t, want[60:], read(t, b, ReadOptions{Since: epoch.Add(200 * time.Millisecond)}))
	same(t, numbered(1, 37, 40), read(t, b, ReadOptions{Replica: "r1", Tail: 3}))
	same(t, []string{}, read(t, b, ReadOptions{Replica: "nobody"}))
}

func TestCommitByAge(t *testing.T) {
	st, _ := newFolder(t)
	fake := clock.NewFake(epoch)
	b := New(Config{Blob: st, Clock: fake, ChunkAge: time.Minute})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	all := lines(0, 0, 10)
	appendOK(t, b, 0, 0, all)
	deadline := time.Now().Add(time.Minute)
	for {
		fake.Advance(15 * time.Second)
		d, err := New(Config{Blob: st}).Durable(ctx, "task-1", "r0")
		if err != nil {
			t.Fatal(err)
		}
		if d == int64(len(all)) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("never committed")
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	st, _ := newFolder(t)
	b := New(Config{Blob: st, MemoryBytes: 100_000})
	for rep := range 50 {
		appendOK(t, b, rep, 0, lines(rep, 0, 100))
		if b.held > 150_000 {
			t.Fatalf("%d bytes held", b.held)
		}
	}
	if got := read(t, b, ReadOptions{}); len(got) != 5000 {
		t.Fatalf("%d lines", len(got))
	}
}

func TestDamagedChunks(t *testing.T) {
	st, dir := newFolder(t)
	b := New(Config{Blob: st, ChunkBytes: 1})
	offset := int64(0)
	for i := range 4 {
		data := lines(0, i*10, i*10+10)
		appendOK(t, b, 0, offset, data)
		offset += int64(len(data))
	}
	chunks, err := filepath.Glob(filepath.Join(dir, "logs/task-1/r0/*"))
	if err != nil || len(chunks) != 4 {
		t.Fatalf("%q, %v", chunks, err)
	}
	raw, err := os.ReadFile(chunks[1])
	if err != nil {
		t.Fatal(err)
	}
	raw[len(raw)/2] ^= 0x55
	if err := os.WriteFile(chunks[1], raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(chunks[2]); err != nil {
		t.Fatal(err)
	}
	for _, b := range []*Book{b, New(Config{Blob: st})} { // one that knew the chunk, one that finds a gap
		read(t, b, ReadOptions{}) // after it the book looks anew
		got := read(t, b, ReadOptions{})
		if len(got) != 22 || !strings.Contains(got[10], filepath.Base(chunks[1])) {
			t.Fatalf("got %q", got)
		}
		same(t, got[10:], read(t, b, ReadOptions{Tail: 12}))
		same(t, got[11:], read(t, b, ReadOptions{Tail: 11}))
	}
}

func TestForeignLinesAreShown(t *testing.T) {
	st, _ := newFolder(t)
	b := New(Config{Blob: st})
	appendOK(t, b, 0, 0, append(lines(0, 0, 1), "not a log line\n"...))
	same(t, []string{"r0 0", "not a log line"}, read(t, b, ReadOptions{}))
}

func TestDelete(t *testing.T) {
	st, _ := newFolder(t)
	ctx := context.Background()
	b := New(Config{Blob: st})
	appendOK(t, b, 0, 0, lines(0, 0, 10))
	if _, err := b.Finish(ctx, "task-1", "r0"); err != nil {
		t.Fatal(err)
	}
	appendOK(t, b, 1, 0, lines(1, 0, 10))
	ended := make(chan error, 1)
	seen := make(chan struct{}, 100)
	go func() {
		ended <- b.Read(ctx, "task-1", ReadOptions{Follow: true}, func(string, Line) error { seen <- struct{}{}; return nil })
	}()
	for range 20 {
		<-seen
	}
	if err := b.Delete(ctx, "task-1"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !fault.Is(err, fault.NotFound) {
		t.Fatalf("the follower ended with %v", err)
	}
	same(t, []string{}, read(t, b, ReadOptions{}))
	if b.held != 0 {
		t.Fatalf("%d bytes held", b.held)
	}
}

// TestFull: a full disk refuses, keeps what is in memory readable, and heals.
func TestFull(t *testing.T) {
	st, dir := newFolder(t)
	b := New(Config{Blob: st, ChunkBytes: 1000})
	// A file where the folder should be: every Put fails.
	if err := os.WriteFile(filepath.Join(dir, "logs"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	all := lines(0, 0, 100)
	if d, err := b.Append(ctx, "task-1", "r0", 0, all); err == nil || d != 0 {
		t.Fatalf("Append = %d, %v", d, err)
	}
	if _, err := b.Append(ctx, "task-1", "r0", int64(len(all)), lines(0, 100, 101)); err == nil {
		t.Fatal("more was taken while nothing can be committed")
	}
	same(t, numbered(0, 0, 100), read(t, b, ReadOptions{}))
	if err := os.Remove(filepath.Join(dir, "logs")); err != nil {
		t.Fatal(err)
	}
	appendOK(t, b, 0, int64(len(all)), lines(0, 100, 101))
	same(t, numbered(0, 0, 101), read(t, b, ReadOptions{}))
}
