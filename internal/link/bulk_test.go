package link

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link/linkpb"
)

func TestOutputs(t *testing.T) {
	w := newWorld(t)
	w.max = 100
	s := w.serve("s", 1, nil)
	ctx := context.Background()
	file := w.endpoints(s.target)
	c, _, _, _ := w.client(testName, file, 0)
	put := func(c *Client, path, data string) error {
		return c.PutOutput(ctx, path, int64(len(data)), time.Now(), strings.NewReader(data))
	}
	read := func(key string) string {
		t.Helper()
		r, _, err := w.store.Open(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	if err := put(c, "a/模型.bin", "one"); err != nil {
		t.Fatal(err)
	}
	if err := put(c, "empty", ""); err != nil {
		t.Fatal(err)
	}
	if got := read("outputs/task-a/worker-0/a/模型.bin"); got != "one" {
		t.Fatal(got)
	}
	for _, bad := range []string{"../x", "/etc/passwd", "a/../../x", "", "a//b", "x\x00"} {
		if err := put(c, bad, "evil"); !Permanent(err) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if err := put(c, "big", strings.Repeat("b", 98)); !Permanent(err) {
		t.Fatalf("over the limit: %v", err)
	}
	if err := put(c, "a/模型.bin", strings.Repeat("b", 100)); err != nil {
		t.Fatalf("replacing within the limit: %v", err)
	}
	if err := c.PutOutput(ctx, "short", 10, time.Now(), strings.NewReader("123")); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
	later, _, _, _ := w.client("task-a-worker-0-2", file, 0)
	if err := put(later, "a/模型.bin", "two"); err != nil {
		t.Fatal(err)
	}
	if err := put(c, "a/模型.bin", "late"); err != nil {
		t.Fatal(err)
	}
	if got := read("outputs/task-a/worker-0/a/模型.bin"); got != "two" {
		t.Fatalf("an earlier attempt won: %q", got)
	}
	infos, err := w.store.List(ctx, "outputs/", "", 100)
	if err != nil || len(infos) != 2 {
		t.Fatalf("%v %v", infos, err)
	}
	// A restarted server counts what is there already.
	s.stop()
	s2 := w.serve("s2", 2, nil)
	w.endpoints(s2.target)
	var perr error
	eventually(t, "an answer", func() bool { perr = put(later, "more", strings.Repeat("b", 98)); return Permanent(perr) })
	if status.Code(perr) != codes.ResourceExhausted {
		t.Fatal(perr)
	}
}

func TestLyingUploads(t *testing.T) {
	w := newWorld(t)
	s := w.serve("s", 1, nil)
	c := dialRaw(t, w, s, testName, w.tokens.Mint(testName))
	head := &linkpb.PutOutputRequest{Part: &linkpb.PutOutputRequest_Header{Header: &linkpb.OutputHeader{Path: "x", Size: 3}}}
	data := func(s string) *linkpb.PutOutputRequest {
		return &linkpb.PutOutputRequest{Part: &linkpb.PutOutputRequest_Data{Data: []byte(s)}}
	}
	for name, parts := range map[string][]*linkpb.PutOutputRequest{
		"no header": {data("abc")}, "too much": {head, data("abcd")}, "too little": {head, data("ab")},
		"two headers": {head, head}, "nothing": {},
	} {
		t.Run(name, func(t *testing.T) {
			stream, err := c.PutOutput(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range parts {
				_ = stream.Send(p)
			}
			if _, err := stream.CloseAndRecv(); err == nil {
				t.Fatal("taken")
			}
		})
	}
	if infos, err := w.store.List(context.Background(), "outputs/", "", 10); err != nil || len(infos) > 0 {
		t.Fatal(infos, err)
	}
}

func TestArchive(t *testing.T) {
	w := newWorld(t)
	s := w.serve("s", 1, nil)
	ctx := context.Background()
	body := bytes.Repeat([]byte("archive "), 100_000)
	digest, _, err := blob.PutContent(ctx, w.store, "archives", bytes.NewReader(body), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	c, _, _, _ := w.client(testName, w.endpoints(s.target), 0)
	var got bytes.Buffer
	if err := c.FetchArchive(ctx, digest, &got); !Permanent(err) {
		t.Fatalf("another's archive: %v", err)
	}
	w.archive = digest
	if err := c.FetchArchive(ctx, digest, &got); err != nil || !bytes.Equal(got.Bytes(), body) {
		t.Fatal(err, got.Len())
	}
	if err := c.FetchArchive(ctx, "sha256:"+strings.Repeat("0", 64), &got); !Permanent(err) {
		t.Fatalf("another's archive: %v", err)
	}
}

// TestGivenUpCommitsNothing: what a replica hands over after it was given up is refused for good, also where its bytes were on their way
// when that happened; its successor's file stays, and its log is taken.
func TestGivenUpCommitsNothing(t *testing.T) {
	w := newWorld(t)
	var given atomic.Bool
	w.config = func(cfg *HubConfig) {
		cfg.GivenUp = func(_ context.Context, p Parts) error {
			if given.Load() && p.LogKey() == string(testName) {
				return fault.New(fault.Forbidden, "GivenUp", fault.T("Given up.", "已放弃。"))
			}
			return nil
		}
	}
	s := w.serve("s", 1, nil)
	ctx := t.Context()
	file := w.endpoints(s.target)
	c, spool, _, _ := w.client(testName, file, 0)
	put := func(c *Client, path, data string) error {
		return c.PutOutput(ctx, path, int64(len(data)), time.Now(), strings.NewReader(data))
	}
	if err := put(c, "before", "counts"); err != nil {
		t.Fatal(err)
	}
	raw := dialRaw(t, w, s, testName, w.tokens.Mint(testName))
	under, err := raw.PutOutput(ctx)
	if err != nil {
		t.Fatal(err)
	}
	_ = under.Send(&linkpb.PutOutputRequest{Part: &linkpb.PutOutputRequest_Header{Header: &linkpb.OutputHeader{Path: "under-way", Size: 3}}})
	_ = under.Send(&linkpb.PutOutputRequest{Part: &linkpb.PutOutputRequest_Data{Data: []byte("abc")}})
	given.Store(true)
	if _, err := under.CloseAndRecv(); !Permanent(err) {
		t.Errorf("what was under way: %v", err)
	}
	if err := put(c, "after", "counts not"); !Permanent(err) {
		t.Errorf("after it was given up: %v", err)
	}
	next, _, _, _ := w.client("task-a-worker-0-2", file, 0)
	if err := put(next, "after", "its successor's"); err != nil {
		t.Error(err)
	}
	infos, err := w.store.List(ctx, "outputs/", "", 100)
	if err != nil || len(infos) != 2 {
		t.Errorf("%v %v", infos, err)
	}
	spool.add(1, "what it did")
	eventually(t, "its log is taken", func() bool { return slices.Contains(w.lines(s), "what it did") })
}
