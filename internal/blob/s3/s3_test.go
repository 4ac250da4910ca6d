package s3_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/blob/blobtest"
	"github.com/fermi-cluster/fermi/internal/blob/s3"
	"github.com/fermi-cluster/fermi/internal/blob/s3/s3test"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func open(t *testing.T, cfg s3.Config) *s3.Store {
	t.Helper()
	st, err := s3.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func TestConformance(t *testing.T) {
	blobtest.Run(t, func(t *testing.T) blob.Store { return open(t, s3test.Server(t)) })
}

// TestMultipart: a body whose length nobody knows goes in parts; one that breaks off leaves nothing.
func TestMultipart(t *testing.T) {
	st := open(t, s3test.Server(t))
	ctx := context.Background()
	want := make([]byte, 40<<20+5)
	rand.Read(want)
	info, err := st.Put(ctx, "big", struct{ io.Reader }{bytes.NewReader(want)})
	if err != nil || info.Size != int64(len(want)) {
		t.Fatalf("%+v, %v", info, err)
	}
	r, _, err := st.Open(ctx, "big")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	if _, err := st.Create(ctx, "big", struct{ io.Reader }{bytes.NewReader(want)}); !fault.Is(err, fault.Conflict) {
		t.Fatalf("Create over it: %v", err)
	}
	if _, err := st.Put(ctx, "broken", io.MultiReader(bytes.NewReader(want), brokenReader{})); err == nil {
		t.Fatal("a body that broke off was taken")
	}
	if _, _, err := st.Open(ctx, "broken"); !fault.Is(err, fault.NotFound) {
		t.Fatalf("err = %v", err)
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrClosedPipe }

// TestRetries: a server that fails now and then, or breaks off its answers, is asked again.
func TestRetries(t *testing.T) {
	var asked atomic.Int32
	cfg := s3test.Behind(t, s3test.Server(t), func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		switch asked.Add(1) % 3 {
		case 0:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 1:
			pass.ServeHTTP(&cutting{ResponseWriter: w, left: 100_000}, r)
		default:
			pass.ServeHTTP(w, r)
		}
	})
	st := open(t, cfg)
	ctx := context.Background()
	want := make([]byte, 300_000)
	rand.Read(want)
	for range 6 {
		if _, err := st.Put(ctx, "k", bytes.NewReader(want)); err != nil {
			t.Fatal(err)
		}
		r, _, err := st.Open(ctx, "k")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
		r.Close()
	}
}

// cutting breaks the connection off in the middle of an answer.
type cutting struct {
	http.ResponseWriter
	left int
}

func (c *cutting) Write(p []byte) (int, error) {
	if len(p) > c.left {
		panic(http.ErrAbortHandler)
	}
	c.left -= len(p)
	return c.ResponseWriter.Write(p)
}

func TestRefusals(t *testing.T) {
	cfg := s3test.Server(t)
	good := cfg.Credentials
	cfg.Credentials = func(ctx context.Context) (string, string, string, error) {
		id, _, _, err := good(ctx)
		return id, "another", "", err
	}
	_, err := open(t, cfg).Put(context.Background(), "k", strings.NewReader("x"))
	if !fault.Is(err, fault.Forbidden) {
		t.Fatalf("a wrong key: %v", err)
	}
	cfg.Credentials, cfg.Bucket = good, "none"
	if _, err := open(t, cfg).Put(context.Background(), "k", strings.NewReader("x")); err == nil || fault.Is(err, fault.NotFound) {
		t.Fatalf("no bucket: %v", err)
	}
	if _, err := s3.Open(s3.Config{Bucket: "b"}); !fault.Is(err, fault.Invalid) {
		t.Fatalf("err = %v", err)
	}
	cfg.Endpoint = "http://127.0.0.1:1"
	if _, err := open(t, cfg).Put(context.Background(), "k", strings.NewReader("x")); !fault.Is(err, fault.Unavailable) {
		t.Fatalf("nobody there: %v", err)
	}
}
