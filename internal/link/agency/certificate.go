package agency

import (
	"crypto"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"time"
)

// The authority of agents is a key that is made from the link key, which all servers of a cluster have. Only servers check certificates, by
// their own clock: an agent whose clock is off gets in all the same, and its node says so.

const (
	authorityUse = "fermi agents v1"
	// life is how long a certificate is good; a server gives another after a third of it.
	life     = 90 * 24 * time.Hour
	renewDue = life * 2 / 3 // left of it
)

// Identity is whom a certificate is of.
type Identity struct {
	Node string
	ID   string // of the joining
}

func authority(secret []byte) (ed25519.PrivateKey, error) {
	seed, err := hkdf.Key(sha256.New, secret, nil, authorityUse, ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// issue makes a certificate for the key of a request.
func issue(secret, csr []byte, who Identity, now time.Time) ([]byte, error) {
	req, err := x509.ParseCertificateRequest(csr)
	if err == nil {
		err = req.CheckSignature()
	}
	if err != nil {
		return nil, err
	}
	if _, ok := req.PublicKey.(ed25519.PublicKey); !ok {
		return nil, errors.New("the key is not Ed25519")
	}
	key, err := authority(secret)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: who.Node, SerialNumber: who.ID},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(life),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, BasicConstraintsValid: true,
	}
	parent := &x509.Certificate{Subject: pkix.Name{CommonName: "fermi agents"}, SubjectKeyId: keyID(key.Public())}
	return x509.CreateCertificate(rand.Reader, template, parent, req.PublicKey, key)
}

func keyID(key crypto.PublicKey) []byte {
	sum := sha256.Sum256(key.(ed25519.PublicKey))
	return sum[:20]
}

// check says whom a certificate is of, and whether it is time for another. secrets are the link keys, that of now first.
func check(secrets [][]byte, cert *x509.Certificate, now time.Time) (who Identity, due bool, err error) {
	who = Identity{cert.Subject.CommonName, cert.Subject.SerialNumber}
	for i, secret := range secrets {
		key, err := authority(secret)
		if err != nil {
			return who, false, err
		}
		if !ed25519.Verify(key.Public().(ed25519.PublicKey), cert.RawTBSCertificate, cert.Signature) {
			continue
		}
		if now.After(cert.NotAfter) {
			return who, false, errExpired
		}
		return who, i > 0 || cert.NotAfter.Sub(now) < renewDue, nil
	}
	return who, false, errStranger
}

// Check says whose agent's a certificate is. keys are the link keys, that of now first.
func Check(keys [][]byte, cert *x509.Certificate, now time.Time) (Identity, error) {
	who, _, err := check(keys, cert, now)
	return who, err
}

// request makes a request for a certificate.
func request(key ed25519.PrivateKey) ([]byte, error) {
	return x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "fermi agent"}}, key)
}
