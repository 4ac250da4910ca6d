package launch

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
)

// TestWhyItDoesNotAnswer: a service's owner reads which port does not answer, and no address of a replica.
func TestWhyItDoesNotAnswer(t *testing.T) {
	held := make(chan struct{})
	bad := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-held
		}
		w.WriteHeader(http.StatusInternalServerError)
	}))
	defer bad.Close()
	defer close(held)
	port := bad.Listener.Addr().(*net.TCPAddr).Port
	ask := func(path string, within time.Duration) string {
		err := newDoctor(bad.Listener.Addr().String(), &engine.Serve{Path: path, Timeout: api.Duration(within)}).ask(t.Context())
		if err == nil {
			return ""
		}
		return plainly(err, port)
	}
	if got, want := ask("/slow", 50*time.Millisecond), "port "+strconv.Itoa(port)+": no answer in time"; got != want {
		t.Error(got)
	}
	if got := ask("/ill", time.Minute); got != "/ill answers 500 Internal Server Error" {
		t.Error(got)
	}
	nobody := newDoctor("127.0.0.1:1", &engine.Serve{Path: "/", Timeout: api.Duration(time.Minute)})
	if err := nobody.ask(t.Context()); err == nil || plainly(err, 1) != "port 1: connection refused" {
		t.Errorf("%v", err)
	}
}
