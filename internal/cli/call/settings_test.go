package call

import (
	"testing"
)

// TestLocalTokenStaysHere: the token of a local `fermi up` is not sent to other machines.
func TestLocalTokenStaysHere(t *testing.T) {
	for server, want := range map[string]bool{
		"http://127.0.0.1:7070": true, "localhost:7070": true, "http://[::1]:1": true, "127.0.0.1:1": true,
		"http://10.0.0.1": false, "https://fermi.example": false, "http://localhost.evil.example": false, "http://127.0.0.1@evil.example": false, "::": false,
	} {
		if got := isLocal(server); got != want {
			t.Errorf("isLocal(%q) = %v", server, got)
		}
	}
}
