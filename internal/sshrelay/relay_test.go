package sshrelay

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// pair is a door and the program behind it.
func pair(t *testing.T) *Session {
	t.Helper()
	here, there := net.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- Serve(there) }()
	s, err := NewSession(here)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s
}

// A socket that somebody listens at, asked for and gone with its stream; another one reached; each direction ends by itself.
func TestSockets(t *testing.T) {
	s := pair(t)
	path := filepath.Join(t.TempDir(), "s")
	listens, a, err := s.Ask(Request{Kind: KindUnix, ID: "one", Path: path})
	if err != nil || a.Path != path {
		t.Fatal(a, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v", info, err)
	}
	if _, _, err := s.Ask(Request{Kind: KindUnix, ID: "two", Path: path}); err == nil {
		t.Error("two listen at one path")
	}
	out, _, err := s.Ask(Request{Kind: KindDial, Path: path})
	if err != nil {
		t.Fatal(err)
	}
	in, from, err := s.Next()
	if err != nil || from.ID != "one" {
		t.Fatal(from, err)
	}
	go func() {
		_, _ = out.Write([]byte("question"))
		_ = out.CloseWrite()
	}()
	if got, err := io.ReadAll(in); err != nil || string(got) != "question" {
		t.Fatalf("%q %v", got, err)
	}
	_, _ = in.Write([]byte("answer"))
	_ = in.CloseWrite()
	if got, err := io.ReadAll(out); err != nil || string(got) != "answer" {
		t.Fatalf("%q %v", got, err)
	}
	_ = listens.Close()
	for {
		if _, err := os.Stat(path); err != nil {
			break
		}
	}
	if _, _, err := s.Ask(Request{Kind: KindDial, Path: path}); err == nil {
		t.Error("it still listens")
	}
}

// A client may not have what listens without end.
func TestListenersAreBounded(t *testing.T) {
	s := pair(t)
	for i := range mostListeners {
		if _, a, err := s.Ask(Request{Kind: KindTCP, ID: fmt.Sprint(i)}); err != nil || a.Port == 0 {
			t.Fatal(i, a, err)
		}
	}
	if _, _, err := s.Ask(Request{Kind: KindTCP, ID: "more"}); err == nil {
		t.Error("one more listens")
	}
	for _, r := range []Request{{Kind: "x11"}, {Kind: KindUnix, Path: "relative"}, {Kind: KindTCP, Port: -1}, {Kind: KindTCP, Port: 1 << 20}} {
		if _, _, err := pair(t).Ask(r); err == nil {
			t.Errorf("%+v is done", r)
		}
	}
}

func FuzzHead(f *testing.F) {
	var b bytes.Buffer
	_ = writeHead(&b, Arrival{ID: "one", Host: "127.0.0.1", Port: 9})
	f.Add(b.Bytes())
	f.Add([]byte{0xff, 0xff, '{'})
	f.Add([]byte{0, 2, '{', '}', 'x'})
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bytes.NewReader(data)
		var a Arrival
		if err := readHead(r, &a); err != nil {
			return
		}
		if used := len(data) - r.Len(); used > maxHead+2 {
			t.Fatalf("%d bytes were read", used)
		}
	})
}
