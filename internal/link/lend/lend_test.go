package lend

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	words "github.com/fermi-cluster/fermi/api/v1/asset"
	"github.com/fermi-cluster/fermi/internal/asset"
	"github.com/fermi-cluster/fermi/internal/blob/folder"
	"github.com/fermi-cluster/fermi/internal/blob/logbook"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/link/linkpb"
)

const (
	target  = engine.Name("task-a-worker-0-2")
	earlier = engine.Name("task-a-worker-0-1")
	foreign = engine.Name("task-b-worker-0-2")
)

// newDesk is a server with one version, of task-a's project, that task-a names.
func newDesk(t *testing.T) (api linkpb.AssetsClient, tokens *link.Tokens, list *words.Manifest, raw []byte, text string) {
	t.Helper()
	store, err := folder.Open(filepath.Join(t.TempDir(), "blob"))
	must(t, err)
	t.Cleanup(func() { store.Close() })
	repo := asset.New(store, clock.Real, 0)
	text = strings.Repeat("0123456789abcdef", 600<<10) // three chunks
	files := []words.File{{Path: "big", Size: int64(len(text))}}
	open := func(string) (io.ReadCloser, error) {
		return struct {
			io.ReadSeeker
			io.Closer
		}{strings.NewReader(text), io.NopCloser(nil)}, nil
	}
	list, err = words.Build(t.Context(), files, open, nil)
	must(t, err)
	raw, _ = list.Encode()
	at := 0
	for _, c := range list.Chunks {
		must(t, repo.PutChunk(t.Context(), "p", c.Hash, []byte(text[at:at+int(c.Bytes)])))
		at += int(c.Bytes)
	}
	must(t, repo.PutManifest(t.Context(), "p", raw))
	tokens = link.NewTokens([]byte("a key of thirty-two bytes, or so"))
	log := slog.New(slog.DiscardHandler)
	hub := link.NewHub(link.HubConfig{
		Blob: store, Logs: logbook.New(logbook.Config{Blob: store, Log: log, Clock: clock.Real}), Tokens: tokens, Log: log, Clock: clock.Real,
		Fetched: link.Fetched{ArchiveOf: func(context.Context, string) (string, error) { return "", nil }},
	})
	hub.Lead(1)
	desk := NewDesk(repo, func(_ context.Context, of link.Parts, digest string) (string, error) {
		if of.TaskID != "task-a" || of.Attempt != 2 || digest != words.Sum(raw).String() {
			return "", fault.New(fault.Forbidden, "NotItsVersion", fault.T("No.", "不行。"))
		}
		return "p", nil
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = hub.Serve(ctx, l, desk.Register) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	return linkpb.NewAssetsClient(conn), tokens, list, raw, text
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func pull(ctx context.Context, api linkpb.AssetsClient, req *linkpb.FetchAssetRequest) ([]byte, error) {
	stream, err := api.Fetch(ctx, req)
	var got bytes.Buffer
	for err == nil {
		var piece *linkpb.Chunk
		if piece, err = stream.Recv(); err == nil {
			got.Write(piece.GetData())
		}
	}
	if err == io.EOF {
		err = nil
	}
	return got.Bytes(), err
}

// TestFetch: the list and the chunks, as they are.
func TestFetch(t *testing.T) {
	api, tokens, list, raw, text := newDesk(t)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+tokens.Mint(target), link.MetaReplica, string(target))
	digest := words.Sum(raw).String()
	got, err := pull(ctx, api, &linkpb.FetchAssetRequest{Digest: digest})
	if err != nil || !bytes.Equal(got, raw) {
		t.Fatal(len(got), err)
	}
	got, err = pull(ctx, api, &linkpb.FetchAssetRequest{Digest: digest, First: 0, Count: int32(len(list.Chunks))})
	if err != nil || string(got) != text {
		t.Fatal(len(got), err)
	}
	if got, err = pull(ctx, api, &linkpb.FetchAssetRequest{Digest: digest, First: 1, Count: 1}); err != nil || string(got) != text[words.ChunkMax:2*words.ChunkMax] {
		t.Fatal(len(got), err)
	}
}

// TestWhoMayFetch: only a replica whose work names the version, in the attempt that runs, and nothing that can't be.
func TestWhoMayFetch(t *testing.T) {
	api, tokens, list, raw, _ := newDesk(t)
	digest, n := words.Sum(raw).String(), int32(len(list.Chunks))
	for _, c := range []struct {
		what  string
		name  engine.Name
		token string
		req   *linkpb.FetchAssetRequest
		want  codes.Code
	}{
		{"nobody", target, "", &linkpb.FetchAssetRequest{Digest: digest}, codes.Unauthenticated},
		{"another's token", target, tokens.Mint(foreign), &linkpb.FetchAssetRequest{Digest: digest}, codes.Unauthenticated},
		{"another task", foreign, tokens.Mint(foreign), &linkpb.FetchAssetRequest{Digest: digest}, codes.PermissionDenied},
		{"an earlier attempt", earlier, tokens.Mint(earlier), &linkpb.FetchAssetRequest{Digest: digest, Count: 1}, codes.PermissionDenied},
		{"another version", target, tokens.Mint(target), &linkpb.FetchAssetRequest{Digest: strings.Repeat("0", 64)}, codes.PermissionDenied},
		{"no digest", target, tokens.Mint(target), &linkpb.FetchAssetRequest{Digest: "../../x"}, codes.InvalidArgument},
		{"a chunk too far", target, tokens.Mint(target), &linkpb.FetchAssetRequest{Digest: digest, First: n, Count: 1}, codes.InvalidArgument},
		{"below zero", target, tokens.Mint(target), &linkpb.FetchAssetRequest{Digest: digest, First: -1, Count: 1}, codes.InvalidArgument},
		{"a count below zero", target, tokens.Mint(target), &linkpb.FetchAssetRequest{Digest: digest, First: 2, Count: -1}, codes.InvalidArgument},
		{"all numbers", target, tokens.Mint(target), &linkpb.FetchAssetRequest{Digest: digest, First: 1 << 30, Count: 1 << 30}, codes.InvalidArgument},
		{"the replica", target, tokens.Mint(target), &linkpb.FetchAssetRequest{Digest: digest}, codes.OK},
	} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+c.token, link.MetaReplica, string(c.name))
		got, err := pull(ctx, api, c.req)
		if status.Code(err) != c.want || err != nil && len(got) > 0 {
			t.Errorf("%s: %v with %d bytes, want %v", c.what, err, len(got), c.want)
		}
	}
}
