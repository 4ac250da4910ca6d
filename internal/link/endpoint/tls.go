package endpoint

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/fermi-cluster/fermi/internal/seal"
)

// A server shows that it holds the link key: all servers of a cluster show
// the same, and a launcher knows whom to expect by the target that it was given, "tls://HOST:PORT#PIN". The launcher shows its token.

// dialFor is how long a server may take to answer.
const dialFor = 5 * time.Second

// tlsUse is what the key of the servers' certificate is made for.
const tlsUse = "fermi link v1"

// ServerTLS is a server's side. keys gives the link keys, that of now first. All servers of a cluster seal their tickets with one
// key, derived from the link's: a launcher that lost its server goes on with its session at the next one,
// for about half of what a new one costs. That decides how long it takes until all launchers of a large
// task are back. A new secret is agreed on each time all the same: who learns the key later reads nothing.
func ServerTLS(keys func() [][]byte) *tls.Config {
	cfg := seal.ShownTLS(keys, tlsUse)
	cfg.ClientAuth = tls.RequestClientCert // agents have one; whoever wants it checks it
	var mu sync.Mutex
	var made *tls.Config
	var of []byte // the key that made has its tickets from
	cfg.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		mu.Lock()
		defer mu.Unlock()
		key := keys()[0]
		if made == nil || !bytes.Equal(of, key) {
			raw, err := hkdf.Key(sha256.New, key, nil, "fermi link tickets v1", 32)
			if err != nil {
				return nil, err
			}
			next := cfg.Clone()
			next.GetConfigForClient = nil
			next.SetSessionTicketKeys([][32]byte{[32]byte(raw)})
			made, of = next, bytes.Clone(key)
		}
		return made, nil
	}
	return cfg
}

// Shown is for a server that dials agents: it shows the key that their targets name.
func Shown(keys func() [][]byte) *tls.Config { return seal.ShownTLS(keys, tlsUse) }

// Target is where launchers reach a server that serves with ServerTLS and this key.
func Target(address string, key []byte) (string, error) {
	pin, err := seal.PublicKey(key, tlsUse)
	return "tls://" + address + "#" + base64.RawURLEncoding.EncodeToString(pin), err
}

// ClientTLS is a launcher's side of a target: it speaks to no other server, and remembers one session.
func ClientTLS(text string) (*tls.Config, error) {
	t, err := Split(text)
	if err != nil {
		return nil, err
	}
	return t.config()
}

func (t Place) config() (*tls.Config, error) {
	if t.pin == nil {
		return nil, fmt.Errorf("%s is neither a unix socket nor over TLS", t.Address)
	}
	cfg := seal.PinnedTLS(t.pin)
	cfg.ServerName = "fermi" // by which its session is remembered, at whatever server
	cfg.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	return cfg, nil
}

// Dial is net.Dialer's.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Road is how a launcher reaches servers: unix sockets plainly, all else over TLS. Safe for concurrent use.
type Road struct {
	mu  sync.Mutex
	pin ed25519.PublicKey
	tls *tls.Config // for pin
}

// To is the way to a place; own goes before, where there is one.
func (r *Road) To(t Place, own Dial) (Dial, error) {
	plain := &net.Dialer{Timeout: dialFor}
	switch {
	case own != nil:
		return own, nil
	case t.Network == "unix":
		return plain.DialContext, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tls == nil || !r.pin.Equal(t.pin) {
		cfg, err := t.config()
		if err != nil {
			return nil, err
		}
		r.tls, r.pin = cfg, t.pin
	}
	return (&tls.Dialer{NetDialer: plain, Config: r.tls}).DialContext, nil
}
