package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
)

type versionInfo struct {
	Version string `json:"version"`
	API     string `json:"api"`
	Go      string `json:"go"`
}

// system serves what is about the server itself. write, rotateKey, ready and gatherer may be nil.
type system struct {
	truth     *truth
	streams   *streams
	auditor   *auditor
	clock     clock.Clock
	version   string
	ready     func() error
	gatherer  prometheus.Gatherer
	doc       func() ([]byte, error)
	write     func(ctx context.Context, w io.Writer) error // a backup
	rotateKey func(ctx context.Context, key string) (fault.Text, error)
}

// routes are about the server itself.
func (s *system) routes(reg *schemas) []*route {
	routes := []*route{
		{method: http.MethodGet, path: "/healthz", id: "healthz", summary: "The process lives.", tag: "system", open: true, handle: func(context.Context, *call) (*reply, error) {
			return &reply{}, nil
		}},
		{method: http.MethodGet, path: "/readyz", id: "readyz", summary: "The server can work.", tag: "system", open: true, handle: s.readyz},
		{method: http.MethodGet, path: "/metrics", id: "metrics", summary: "Prometheus metrics; for operators and admins.", tag: "system", media: "text/plain", handle: s.metrics},
		{method: http.MethodGet, path: prefix + "/openapi.json", id: "openapi", summary: "This document.", tag: "system", media: "application/json", handle: s.openapi},
		{method: http.MethodGet, path: prefix + "/version", id: "version", summary: "The server's version.", tag: "system", data: schemaOf[versionInfo](reg), handle: func(context.Context, *call) (*reply, error) {
			return &reply{data: versionInfo{s.version, "v1", runtime.Version()}}, nil
		}},
		{method: http.MethodPost, path: prefix + "/backup", id: "backup", summary: "A tar of everything; for admins.", tag: "system", verb: "backup", kind: "Backup", media: "application/x-tar", handle: s.backup},
	}
	return append(routes, s.rotateRoute(reg))
}

func (s *system) readyz(ctx context.Context, _ *call) (*reply, error) {
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
	return &reply{}, nil
}

// notReady is always a 503, whatever the cause is in itself.
func notReady(err error) error {
	e := *fault.From(err)
	e.Code = fault.Unavailable
	return &e
}

func (s *system) metrics(_ context.Context, c *call) (*reply, error) {
	if s.gatherer == nil {
		return nil, fault.New(fault.NotFound, "NoMetrics", fault.T("This server keeps no metrics.", "该服务器未启用指标。"))
	}
	promhttp.HandlerFor(s.gatherer, promhttp.HandlerOpts{}).ServeHTTP(patient{c}, c.r)
	return nil, nil
}

func (s *system) openapi(_ context.Context, c *call) (*reply, error) {
	doc, err := s.doc()
	if err != nil {
		return nil, err
	}
	c.send(http.StatusOK, doc)
	return nil, nil
}

func (s *system) backup(ctx context.Context, c *call) (*reply, error) {
	if s.write == nil {
		return nil, fault.New(fault.Unavailable, "NoBackup", fault.T("This server makes no backups.", "该服务器不支持备份。"))
	}
	c.w.Header().Set("Content-Type", "application/x-tar")
	c.w.Header().Set("Content-Disposition", attachment(fmt.Sprintf("fermi-%s.tar", s.clock.Now().UTC().Format("20060102-150405"))))
	defer s.streams.guard(ctx, c, nil)()
	if err := s.write(ctx, patient{c}); err != nil {
		return nil, err // the connection is cut: a short tar must not look whole
	}
	s.auditor.remember(c, "ok")
	return nil, nil
}
