package app

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/fermi-cluster/fermi/internal/app/keyfile"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/conf"
	"github.com/fermi-cluster/fermi/internal/fault"
)

const (
	selfSignedFile = "tls.pem"            // certificate and key in one file: they appear together
	selfSignedLife = 825 * 24 * time.Hour // the longest that every system takes
	renewBefore    = 30 * 24 * time.Hour
)

// certificate is the one to serve with: given, self-signed, or nil for plain HTTP.
func certificate(cfg Config) (*tls.Certificate, error) {
	switch {
	case cfg.TLS.Cert != "":
		pair, err := tls.LoadX509KeyPair(cfg.TLS.Cert, cfg.TLS.Key)
		if err != nil {
			return nil, badCertificate(err)
		}
		return &pair, nil
	case cfg.TLS.SelfSigned:
		return selfSigned(filepath.Join(cfg.Data, selfSignedFile), cfg, clock.Real.Now())
	}
	return nil, nil
}

func badCertificate(err error) error {
	return fault.New(fault.Invalid, "BadCertificate", fault.T("The certificate or its key can't be used.", "证书或私钥无法使用。")).Because(err)
}

// selfSigned reads the certificate of the folder, or makes it: at the first start, and shortly
// before it ends.
func selfSigned(path string, cfg Config, now time.Time) (*tls.Certificate, error) {
	raw, err := os.ReadFile(path)
	if err == nil {
		pair, err := tls.X509KeyPair(raw, raw)
		if err != nil {
			return nil, badCertificate(err)
		}
		if pair.Leaf.NotAfter.After(now.Add(renewBefore)) {
			return &pair, nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, badCertificate(err)
	}
	if raw, err = makeCertificate(cfg, now); err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(raw, raw)
	if err != nil {
		return nil, err
	}
	return &pair, keyfile.Replace(path, raw)
}

func makeCertificate(cfg Config, now time.Time) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "fermi"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(selfSignedLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
		DNSNames: append([]string{"localhost"}, hostNames(cfg, nil)...), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	if host, _, err := net.SplitHostPort(cfg.Listen); err == nil {
		if ip := net.ParseIP(host); ip != nil && !ip.IsUnspecified() && !ip.IsLoopback() {
			template.IPAddresses = append(template.IPAddresses, ip)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...), nil
}

// fingerprint is what people compare: SHA-256 of the certificate, in hexadecimal.
func fingerprint(cert *tls.Certificate) string {
	sum := sha256.Sum256(cert.Certificate[0])
	return hex.EncodeToString(sum[:])
}

// hostNames are the names of this server: those given, those of its certificate, the one it
// listens on and, where others can reach it, the machine's own.
func hostNames(cfg Config, cert *tls.Certificate) []string {
	names := append([]string(nil), cfg.Hosts...)
	if cert != nil && cert.Leaf != nil {
		names = append(names, cert.Leaf.DNSNames...)
	}
	host, _, err := net.SplitHostPort(cfg.Listen)
	if err != nil {
		return names
	}
	if host != "" && net.ParseIP(host) == nil {
		names = append(names, host)
	}
	if !conf.Loopback(host) {
		if machine, err := os.Hostname(); err == nil {
			names = append(names, machine)
		}
	}
	return names
}

// listen opens the API's door, with TLS where there is a certificate.
func listen(cfg Config, cert *atomic.Pointer[tls.Certificate]) (net.Listener, error) {
	l, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, fault.New(fault.Conflict, "AddressInUse", fault.T("Can't listen on %s.", "无法监听 %s。", cfg.Listen)).
			WithHint(fault.T("Is another fermi running? Choose another address with --listen.", "是否已有 fermi 在运行？可用 --listen 换一个地址。")).Because(err)
	}
	if cert.Load() == nil {
		return l, nil
	}
	return tls.NewListener(l, &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return cert.Load(), nil }, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}), nil
}

// rotateTLS makes a new certificate of our own.
func (p *part) rotateTLS(context.Context) (fault.Text, error) {
	if !p.cfg.TLS.SelfSigned {
		return fault.Text{}, fault.New(fault.Conflict, "NothingToRotate", fault.T(
			"This server has no certificate of its own making: replace the files that tls.cert and tls.key name, and restart it.", "该服务器没有自签名证书：请替换 tls.cert 和 tls.key 所指文件并重启。"))
	}
	raw, err := makeCertificate(p.cfg, clock.Real.Now())
	if err != nil {
		return fault.Text{}, err
	}
	pair, err := tls.X509KeyPair(raw, raw)
	if err != nil {
		return fault.Text{}, err
	}
	if err := keyfile.Replace(filepath.Join(p.cfg.Data, selfSignedFile), raw); err != nil {
		return fault.Text{}, err
	}
	p.served.Store(&pair)
	return fault.T("The new certificate has SHA-256 %s: give it to clients as FERMI_TLS_FINGERPRINT.", "新证书的 SHA-256 为 %s：请在客户端设为 FERMI_TLS_FINGERPRINT。", fingerprint(&pair)), nil
}
