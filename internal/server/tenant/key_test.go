package tenant

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// TestParseKey: good keys are taken as ssh-keygen writes them; the rest is refused, and says what would be right.
func TestParseKey(t *testing.T) {
	line := func(key any) string {
		t.Helper()
		pub, err := ssh.NewPublicKey(key)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(pub)))
	}
	pub, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	good := line(pub)
	got, err := ParseKey(good+" li@laptop\n", "")
	if err != nil || got.Name != "li@laptop" || got.Key != good || !strings.HasPrefix(got.Fingerprint, "SHA256:") || len(got.ID) != 12 {
		t.Errorf("%+v, %v", got, err)
	}
	strong, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ParseKey(line(&strong.PublicKey), "work"); err != nil {
		t.Error(err)
	}
	weak := "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQDC5dGtmcNmSJaQbGUXg9lfDgIbYaSwzHjAbIGKrGGdDXhkH0UIcS6vbpRfAgzhFpaYEmNVEOZxJhHZVzmVgkSdrLVcZQs0bNeGjUcrZlXJGQBoYTQ3rs0ThwhTBBVjzyRSGYqKxTFbOQpuKyHKFXXuB2m1lMNWSMcvBZ4fyzXtPQ=="
	for name, bad := range map[string]string{
		"nothing": "", "text": "hello", "a private key": "-----BEGIN OPENSSH PRIVATE KEY-----", "two": good + "\n" + good, "options": `command="x" ` + good, "cut": good[:len(good)-10],
		"weak": weak, "huge": "ssh-ed25519 " + strings.Repeat("A", maxKey),
	} {
		if _, err := ParseKey(bad, ""); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"a\nb", strings.Repeat("x", 129), "\xff"} {
		if _, err := ParseKey(good, name); !fault.Is(err, fault.Invalid) {
			t.Errorf("the name %q: %v", name, err)
		}
	}
}
