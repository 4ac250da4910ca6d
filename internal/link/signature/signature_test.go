package signature

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/fermi-cluster/fermi/internal/blob/folder"
	"github.com/fermi-cluster/fermi/internal/blob/logbook"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
)

const own, foreign = engine.Name("task-a-worker-0-2"), engine.Name("task-b-worker-0-2")

// serve runs a hub with a desk, and gives a way to it and its tokens.
func serve(t *testing.T, d *Desk) (*grpc.ClientConn, *link.Tokens) {
	t.Helper()
	store, err := folder.Open(filepath.Join(t.TempDir(), "blob"))
	must(t, err)
	t.Cleanup(func() { store.Close() })
	tokens, log := link.NewTokens([]byte("a key of thirty-two bytes, or so")), slog.New(slog.DiscardHandler)
	hub := link.NewHub(link.HubConfig{Blob: store, Logs: logbook.New(logbook.Config{Blob: store, Log: log, Clock: clock.Real}), Tokens: tokens, Log: log, Clock: clock.Real})
	hub.Lead(1)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = hub.Serve(ctx, l, d.Register) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn, tokens
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestSign: a request arrives as it was made, by the replica whose token came with it, and its answer has what was added; who has no token, or asks for what
// can't be a request, gets nothing.
func TestSign(t *testing.T) {
	conn, tokens := serve(t, &Desk{Sign: func(_ context.Context, of link.Parts, r *http.Request) error {
		if of.TaskID != "task-a" {
			return fault.New(fault.Forbidden, "NotItsCheckpoint", fault.T("No.", "不行。"))
		}
		r.Header.Set("Authorization", strings.Join([]string{r.Method, r.URL.EscapedPath(), r.Header.Get("X-Amz-Content-Sha256")}, " "))
		if r.ContentLength != 5 {
			t.Errorf("length %d", r.ContentLength)
		}
		return nil
	}})
	r, err := http.NewRequest("PUT", "http://store/bucket/task-a/a%20b?x-id=PutObject", strings.NewReader("hello"))
	must(t, err)
	r.Header.Set("X-Amz-Content-Sha256", "abc")
	whole, err := asked(r)
	must(t, err)
	for _, c := range []struct {
		what  string
		name  engine.Name
		token string
		ask   func(*structpb.Struct)
		want  codes.Code
	}{
		{"its own", own, tokens.Mint(own), nil, codes.OK},
		{"no token", own, "", nil, codes.Unauthenticated},
		{"another's token", own, tokens.Mint(foreign), nil, codes.Unauthenticated},
		{"another task", foreign, tokens.Mint(foreign), nil, codes.PermissionDenied},
		{"no URL", own, tokens.Mint(own), func(s *structpb.Struct) { s.Fields[keyURL] = structpb.NewStringValue("http://%zz") }, codes.InvalidArgument},
		{"no method", own, tokens.Mint(own), func(s *structpb.Struct) { s.Fields[keyMethod] = structpb.NewStringValue("G ET") }, codes.InvalidArgument},
		{"a long URL", own, tokens.Mint(own), func(s *structpb.Struct) {
			s.Fields[keyURL] = structpb.NewStringValue("http://s/" + strings.Repeat("x", maxText))
		}, codes.InvalidArgument},
		{"below zero", own, tokens.Mint(own), func(s *structpb.Struct) { s.Fields[keyLength] = structpb.NewNumberValue(-1) }, codes.InvalidArgument},
	} {
		ask, err := asked(r)
		must(t, err)
		if c.ask != nil {
			c.ask(ask)
		}
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+c.token, link.MetaReplica, string(c.name))
		var out structpb.Struct
		err = call(ctx, conn, ask, &out)
		if status.Code(err) != c.want {
			t.Errorf("%s: %v, want %v", c.what, err, c.want)
		}
		if got := out.GetFields()["Authorization"].GetStringValue(); (got == "PUT /bucket/task-a/a%20b abc") != (c.want == codes.OK) {
			t.Errorf("%s: %q of %v", c.what, got, whole)
		}
	}
}
