package app

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/conf"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func TestSelfSigned(t *testing.T) {
	cfg := Config{Data: t.TempDir(), Listen: "192.0.2.7:7070", Hosts: []string{"fermi.example"}, TLS: conf.TLS{SelfSigned: true}}
	first, err := certificate(cfg)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(cfg.Data, selfSignedFile)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	for _, host := range []string{"fermi.example", "localhost", "127.0.0.1", "192.0.2.7"} {
		if err := first.Leaf.VerifyHostname(host); err != nil {
			t.Error(err)
		}
	}
	again, err := certificate(cfg)
	if err != nil || fingerprint(again) != fingerprint(first) || len(fingerprint(first)) != 64 {
		t.Errorf("a second start has another certificate (%v)", err)
	}
	later, err := selfSigned(path, cfg, time.Now().Add(selfSignedLife-renewBefore+time.Hour))
	if err != nil || fingerprint(later) == fingerprint(first) {
		t.Errorf("it is not renewed (%v)", err)
	}
	if err := os.WriteFile(path, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := certificate(cfg); fault.ReasonOf(err) != "BadCertificate" {
		t.Errorf("a garbled file: %v", err)
	}
	if cert, err := certificate(Config{}); cert != nil || err != nil {
		t.Errorf("plain HTTP: %v %v", cert, err)
	}
}

func TestHostNames(t *testing.T) {
	machine, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if got := hostNames(Config{Listen: "127.0.0.1:7070", Hosts: []string{"a"}}, nil); !slices.Equal(got, []string{"a"}) {
		t.Errorf("%v", got)
	}
	if got := hostNames(Config{Listen: "node.example:7070"}, nil); !slices.Equal(got, []string{"node.example", machine}) {
		t.Errorf("%v", got)
	}
}
