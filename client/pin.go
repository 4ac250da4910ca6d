package client

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"encoding/hex"
	"strings"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// pinned trusts one certificate and no other, whoever signed it.
func pinned(fingerprint, scheme string) (*tls.Config, error) {
	want, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(fingerprint), ":", ""))
	if err != nil || len(want) != sha256.Size {
		return nil, fault.New(fault.Invalid, "BadFingerprint", fault.T(
			"The TLS fingerprint is not a SHA-256 of 64 hexadecimal digits.", "TLS 指纹应为 64 位十六进制的 SHA-256。"))
	}
	if scheme != "https" {
		return nil, fault.New(fault.Invalid, "BadServer", fault.T(
			"A TLS fingerprint needs a server address with https://.", "使用 TLS 指纹时，服务器地址须为 https://。"))
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, // replaced by the comparison below, which is stricter
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) > 0 {
				got := sha256.Sum256(state.PeerCertificates[0].Raw)
				if subtle.ConstantTimeCompare(got[:], want) == 1 {
					return nil
				}
			}
			return fault.New(fault.Forbidden, "WrongCertificate", fault.T(
				"The server's certificate is not the one that was pinned.", "服务器证书与固定的指纹不符。")).WithHint(fault.T(
				"If it was renewed, compare the fingerprint that the server prints at its start.", "若证书已更新，请核对服务器启动时显示的指纹。"))
		},
	}, nil
}
