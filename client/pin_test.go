package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// TestPin: the pinned certificate and no other, whoever signed it.
func TestPin(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"code":200,"data":{"version":"x"}}`)
	}))
	defer srv.Close()
	sum := sha256.Sum256(srv.Certificate().Raw)
	good := hex.EncodeToString(sum[:])
	colons := strings.ToUpper(good[:2]) + ":" + good[2:]
	for _, tc := range []struct{ fingerprint, reason string }{
		{good, ""}, {colons, ""}, {"", "UntrustedCertificate"}, {strings.Repeat("0", 64), "WrongCertificate"},
	} {
		c, err := New(Config{Server: srv.URL, Token: "secret", TLSFingerprint: tc.fingerprint})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = c.Version(context.Background()); fault.ReasonOf(err) != tc.reason {
			t.Errorf("%q: %v, want %q", tc.fingerprint, err, tc.reason)
		}
		c.CloseIdle()
	}
	for _, bad := range []Config{{Server: srv.URL, TLSFingerprint: "abc"}, {Server: "http://127.0.0.1:1", TLSFingerprint: good}} {
		if _, err := New(bad); !fault.Is(err, fault.Invalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}
