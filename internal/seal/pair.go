package seal

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"sync"
	"time"
)

// PairTLS is mutual TLS by one key that both sides derive from a secret they share: who holds it is
// one of them, whatever its address; nobody else gets beyond the handshake. use keeps different uses
// of one secret apart.
func PairTLS(secret []byte, use string) (*tls.Config, error) {
	cert, err := pairOf(secret, use)
	if err != nil {
		return nil, err
	}
	return pairTLS(func() ([]*tls.Certificate, error) { return []*tls.Certificate{cert}, nil }), nil
}

// RingTLS is PairTLS with a secret that may change: handshakes use the first that secrets gives, and take the
// other side at its word for any of them.
func RingTLS(secrets func() [][]byte, use string) *tls.Config { return pairTLS(ring(secrets, use)) }

// ShownTLS is the side of one whose other side has no key: it shows that it holds the first of the secrets, to whoever knows
// its PublicKey, as a server or as one who dials, and asks for nothing.
func ShownTLS(secrets func() [][]byte, use string) *tls.Config {
	certs := ring(secrets, use)
	own := func() (*tls.Certificate, error) {
		all, err := certs()
		if err != nil {
			return nil, err
		}
		return all[0], nil
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return own() },
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return own() },
	}
}

// PublicKey is what ShownTLS shows.
func PublicKey(secret []byte, use string) (ed25519.PublicKey, error) {
	cert, err := pairOf(secret, use)
	if err != nil {
		return nil, err
	}
	return cert.PrivateKey.(ed25519.PrivateKey).Public().(ed25519.PublicKey), nil
}

// PinnedTLS is the side of one who knows the PublicKey: it speaks to nobody else.
func PinnedTLS(pin ed25519.PublicKey) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true, //nolint:gosec // names and authorities mean nothing here; the key does, and VerifyConnection looks at it
		VerifyConnection: func(cs tls.ConnectionState) error {
			if pub, ok := cs.PeerCertificates[0].PublicKey.(ed25519.PublicKey); !ok || !pub.Equal(pin) {
				return errors.New("the other side is not whom it should be")
			}
			return nil
		},
	}
}

// ring gives the certificates of secrets that may change.
func ring(secrets func() [][]byte, use string) func() ([]*tls.Certificate, error) {
	var mu sync.Mutex
	made := map[string]*tls.Certificate{} // a handshake need not make one
	return func() (out []*tls.Certificate, err error) {
		mu.Lock()
		defer mu.Unlock()
		now := map[string]*tls.Certificate{}
		for _, secret := range secrets() {
			cert := made[string(secret)]
			if cert == nil {
				if cert, err = pairOf(secret, use); err != nil {
					return nil, err
				}
			}
			now[string(secret)] = cert
			out = append(out, cert)
		}
		made = now
		return out, nil
	}
}

// pairTLS shows the first certificate, and takes the keys of all.
func pairTLS(certs func() ([]*tls.Certificate, error)) *tls.Config {
	own := func() (*tls.Certificate, error) {
		all, err := certs()
		if err != nil {
			return nil, err
		}
		return all[0], nil
	}
	known := func(cs tls.ConnectionState) error {
		all, err := certs()
		if err != nil {
			return err
		}
		pub, ok := cs.PeerCertificates[0].PublicKey.(ed25519.PublicKey)
		for _, cert := range all {
			if ok && pub.Equal(cert.PrivateKey.(ed25519.PrivateKey).Public()) {
				return nil
			}
		}
		return errors.New("the other side does not hold the shared key")
	}
	return &tls.Config{
		GetCertificate:       func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return own() },
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return own() }, MinVersion: tls.VersionTLS13,
		// Names and authorities mean nothing here; the key does, and VerifyConnection looks at it.
		InsecureSkipVerify: true, ClientAuth: tls.RequireAnyClientCert, VerifyConnection: known, //nolint:gosec
	}
}

func pairOf(secret []byte, use string) (*tls.Certificate, error) {
	seed, err := hkdf.Key(sha256.New, secret, nil, use, ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	key := ed25519.NewKeyFromSeed(seed)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "fermi"},
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<35, 0), // its life is the key's
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
