package s3_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/blob/s3"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// mute is a server over TCP with one object, that goes silent in the middle of the first bodies.
type mute struct {
	object []byte
	times  int32 // how many
	asked  atomic.Int32
	took   atomic.Int64 // bytes of the last whole body
	over   chan struct{}
}

func (m *mute) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	stall := m.asked.Add(1) <= m.times
	if r.Method == http.MethodPut {
		if stall {
			_, _ = io.CopyN(io.Discard, r.Body, 1000)
			m.hang(r)
			return
		}
		n, _ := io.Copy(io.Discard, r.Body)
		m.took.Store(n)
		w.Header().Set("ETag", `"a"`)
		return
	}
	from, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(r.Header.Get("Range"), "bytes="), "-"))
	rest := m.object[from:]
	w.Header().Set("ETag", `"a"`)
	w.Header().Set("Content-Length", fmt.Sprint(len(rest)))
	if from > 0 {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(m.object)-1, len(m.object)))
		w.WriteHeader(http.StatusPartialContent)
	}
	if stall {
		_, _ = w.Write(rest[:len(rest)/2])
		w.(http.Flusher).Flush()
		m.hang(r)
		return
	}
	_, _ = w.Write(rest)
}

func (m *mute) hang(r *http.Request) {
	select {
	case <-m.over:
	case <-r.Context().Done():
	}
}

func (m *mute) open(t *testing.T, silence time.Duration) *s3.Store {
	t.Helper()
	m.object, m.over = make([]byte, 1<<20), make(chan struct{})
	rand.Read(m.object)
	door := httptest.NewServer(m)
	t.Cleanup(door.Close)
	t.Cleanup(func() { close(m.over) })
	return open(t, s3.Config{
		Endpoint: door.URL, Region: "x", Bucket: "b", Silence: silence,
		Credentials: func(context.Context) (string, string, string, error) { return "id", "secret", "", nil },
	})
}

// TestAServerThatGoesSilent in the middle of a body is asked again, for what is still missing or from the beginning; one
// that does so each time is away.
func TestAServerThatGoesSilent(t *testing.T) {
	m := &mute{times: 2}
	st := m.open(t, time.Second)
	in, _, err := st.Open(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if got, err := io.ReadAll(in); err != nil || !bytes.Equal(got, m.object) || m.asked.Load() < 3 {
		t.Fatalf("%d bytes after %d requests, %v", len(got), m.asked.Load(), err)
	}
	m = &mute{times: 2}
	st = m.open(t, time.Second)
	body := make([]byte, 64<<20) // more than the buffers between us hold
	if _, err := st.Put(t.Context(), "k", bytes.NewReader(body)); err != nil || m.asked.Load() < 3 || m.took.Load() < int64(len(body)) {
		t.Fatalf("%d bytes after %d requests, %v", m.took.Load(), m.asked.Load(), err)
	}
	m = &mute{times: 1 << 30}
	st = m.open(t, 200*time.Millisecond)
	in, _, err = st.Open(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if _, err := io.ReadAll(in); !fault.Is(err, fault.Unavailable) {
		t.Fatal(err)
	}
}

// TestHowSlowlyWeReadDoesNotCount: a reader that waits between two reads for longer than a server may be silent.
func TestHowSlowlyWeReadDoesNotCount(t *testing.T) {
	m := &mute{}
	st := m.open(t, 3*time.Second)
	in, _, err := st.Open(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	head := make([]byte, 10)
	if _, err := io.ReadFull(in, head); err != nil {
		t.Fatal(err)
	}
	<-time.After(4 * time.Second)
	if rest, err := io.ReadAll(in); err != nil || !bytes.Equal(append(head, rest...), m.object) || m.asked.Load() != 1 {
		t.Fatalf("%d bytes, %v", len(rest), err)
	}
	if _, err := st.Put(t.Context(), "k", &slowly{Reader: bytes.NewReader(m.object)}); err != nil || m.asked.Load() != 2 {
		t.Fatalf("%d requests, %v", m.asked.Load(), err)
	}
}

// slowly waits once in the middle.
type slowly struct {
	*bytes.Reader
	waited bool
}

func (s *slowly) Read(p []byte) (int, error) {
	if at := s.Size() - int64(s.Len()); at > 0 && !s.waited {
		s.waited = true
		<-time.After(4 * time.Second)
	}
	return s.Reader.Read(p[:min(len(p), 4096)])
}

func (s *slowly) WriteTo(w io.Writer) (int64, error) { return io.Copy(w, struct{ io.Reader }{s}) }
