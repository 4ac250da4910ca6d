package client

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// TestSchemes: who speaks TLS to a plain server, or the other way round, is told so.
func TestSchemes(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w, nil) })
	plain, secure := httptest.NewServer(h), httptest.NewTLSServer(h)
	defer plain.Close()
	defer secure.Close()
	for _, tc := range []struct{ server, reason, hint string }{
		{strings.Replace(plain.URL, "http:", "https:", 1), "PlainServer", "http://"},
		{strings.Replace(secure.URL, "https:", "http:", 1), "TLSServer", "https://"},
	} {
		c, err := New(Config{Server: tc.server})
		if err != nil {
			t.Fatal(err)
		}
		err = c.read(t.Context(), "/version", nil, nil)
		if e := fault.From(err); fault.ReasonOf(err) != tc.reason || !strings.Contains(e.Hint.EN, tc.hint) || e.Hint.ZH == "" {
			t.Errorf("%s: %v", tc.server, err)
		}
		c.CloseIdle()
	}
}

// TestWaits: a call without an answer says so once, and still gets it.
func TestWaits(t *testing.T) {
	said := make(chan string, 2)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		said <- <-said // answered when it was said
		answer(w, nil)
	}))
	defer srv.Close()
	c, err := New(Config{Server: srv.URL, Waits: func(server string) { said <- server }})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseIdle()
	if err := c.read(t.Context(), "/version", nil, nil); err != nil {
		t.Fatal(err)
	}
	if got := <-said; got != srv.URL || len(said) != 0 {
		t.Errorf("%q", got)
	}
}
