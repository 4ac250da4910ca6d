package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/crypto/ssh"

	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/asset"
	"github.com/fermi-cluster/fermi/internal/server/audit"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/stream"
	"github.com/fermi-cluster/fermi/internal/server/truth"
)

type versionInfo struct {
	Version string `json:"version"`
	API     string `json:"api"`
	Go      string `json:"go"`
}

// system serves what is about the server itself. write, rotateKey, ready and gatherer may be nil.
type system struct {
	assets    *asset.Assets
	truth     *truth.Truth
	streams   *stream.Streams
	auditor   *audit.Auditor
	clock     clock.Clock
	version   string
	ready     func() error
	gatherer  prometheus.Gatherer
	doc       func() ([]byte, error)
	write     func(ctx context.Context, w io.Writer) error // a backup
	rotateKey func(ctx context.Context, key string) (fault.Text, error)
	ssh       func() (port int, key ssh.Signer) // nil: there is none
}

// sshInfo is where and as what SSH is answered.
type sshInfo struct {
	Port        int    `json:"port" doc:"On the host by which you reach this server. 0: SSH is not answered here."`
	HostKey     string `json:"hostKey,omitempty" doc:"As in known_hosts: type and value."`
	Fingerprint string `json:"fingerprint,omitempty" doc:"SHA256:…, as ssh shows it."`
}

func (s *system) getSSH(context.Context, *rest.Call) (*rest.Reply, error) {
	var out sshInfo
	if s.ssh != nil {
		if port, key := s.ssh(); port != 0 {
			pub := key.PublicKey()
			out = sshInfo{port, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(pub))), ssh.FingerprintSHA256(pub)}
		}
	}
	return &rest.Reply{Data: out}, nil
}

// routes are about the server itself.
func (s *system) routes(reg *rest.Schemas) []*rest.Route {
	routes := []*rest.Route{
		{Method: http.MethodGet, Path: "/healthz", ID: "healthz", Summary: "The process lives.", Tag: "system", Open: true, Handle: func(context.Context, *rest.Call) (*rest.Reply, error) {
			return &rest.Reply{}, nil
		}},
		{Method: http.MethodGet, Path: "/readyz", ID: "readyz", Summary: "The server can work.", Tag: "system", Open: true, Handle: s.readyz},
		{Method: http.MethodGet, Path: "/metrics", ID: "metrics", Summary: "Prometheus metrics; for operators and admins.", Tag: "system", Media: "text/plain", Handle: s.metrics},
		{Method: http.MethodGet, Path: rest.Prefix + "/openapi.json", ID: "openapi", Summary: "This document.", Tag: "system", Media: "application/json", Handle: s.openapi},
		{Method: http.MethodGet, Path: rest.Prefix + "/version", ID: "version", Summary: "The server's version.", Tag: "system", Data: rest.SchemaOf[versionInfo](reg), Handle: func(context.Context, *rest.Call) (*rest.Reply, error) {
			return &rest.Reply{Data: versionInfo{s.version, "v1", runtime.Version()}}, nil
		}},
		{Method: http.MethodGet, Path: rest.Prefix + "/ssh", ID: "getSSH", Summary: "Where SSH is answered, and with which host key.", Tag: "system", Data: rest.SchemaOf[sshInfo](reg), Handle: s.getSSH},
		{Method: http.MethodPost, Path: rest.Prefix + "/backup", ID: "backup", Summary: "A tar of everything; for admins.", Tag: "system", Verb: "backup", Kind: "Backup", Media: "application/x-tar", Handle: s.backup},
	}
	return append(routes, s.rotateRoute(reg))
}

func (s *system) readyz(ctx context.Context, _ *rest.Call) (*rest.Reply, error) {
	if s.ready != nil {
		if err := s.ready(); err != nil {
			return nil, notReady(err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := s.truth.Healthy(ctx); err != nil {
		return nil, notReady(err)
	}
	return &rest.Reply{}, nil
}

// notReady is always a 503, whatever the cause is in itself.
func notReady(err error) error {
	e := *fault.From(err)
	e.Code = fault.Unavailable
	return &e
}

func (s *system) metrics(_ context.Context, c *rest.Call) (*rest.Reply, error) {
	if s.gatherer == nil {
		return nil, fault.New(fault.NotFound, "NoMetrics", fault.T("This server keeps no metrics.", "该服务器未启用指标。"))
	}
	promhttp.HandlerFor(s.gatherer, promhttp.HandlerOpts{}).ServeHTTP(c.Patient(), c.R)
	return nil, nil
}

func (s *system) openapi(_ context.Context, c *rest.Call) (*rest.Reply, error) {
	doc, err := s.doc()
	if err != nil {
		return nil, err
	}
	c.Send(http.StatusOK, doc)
	return nil, nil
}

func (s *system) backup(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	if s.write == nil {
		return nil, fault.New(fault.Unavailable, "NoBackup", fault.T("This server makes no backups.", "该服务器不支持备份。"))
	}
	c.W.Header().Set("Content-Type", "application/x-tar")
	c.W.Header().Set("Content-Disposition", rest.Attachment(fmt.Sprintf("fermi-%s.tar", s.clock.Now().UTC().Format("20060102-150405"))))
	defer s.streams.Guard(ctx, c, nil)()
	if err := s.write(ctx, c.Patient()); err != nil {
		return nil, err // the connection is cut: a short tar must not look whole
	}
	s.auditor.Remember(c, "ok")
	return nil, nil
}
