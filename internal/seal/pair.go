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
	"time"
)

// PairTLS is mutual TLS by one key that both sides derive from a secret they share: who holds it is
// one of them, whatever its address; nobody else gets beyond the handshake. use keeps different uses
// of one secret apart.
func PairTLS(secret []byte, use string) (*tls.Config, error) {
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
	same := func(cs tls.ConnectionState) error {
		if pub, ok := cs.PeerCertificates[0].PublicKey.(ed25519.PublicKey); ok && pub.Equal(key.Public()) {
			return nil
		}
		return errors.New("the other side does not hold the shared key")
	}
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS13,
		// Names and authorities mean nothing here; the key does, and VerifyConnection looks at it.
		InsecureSkipVerify: true, ClientAuth: tls.RequireAnyClientCert, VerifyConnection: same, //nolint:gosec
	}, nil
}
