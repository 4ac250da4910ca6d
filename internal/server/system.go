package server

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

type versionInfo struct {
	Version string `json:"version"`
	API     string `json:"api"`
	Go      string `json:"go"`
}

// Identity is whom a token speaks for. It is exported for the document: sessions embed it.
type Identity struct {
	User      string         `json:"user"`
	Role      api.UserRole   `json:"role"`
	Token     string         `json:"token"`
	Task      string         `json:"task,omitempty" doc:"The one task this token reaches."`
	Scope     api.TokenScope `json:"scope,omitempty" doc:"read or tasks where the token may less than its user."`
	ExpiresAt *time.Time     `json:"expiresAt,omitempty"`
	Projects  []string       `json:"projects,omitempty" doc:"Those you are a member of."`
	SeesAll   bool           `json:"seesAll,omitempty"`
}

// systemRoutes are about the server itself.
func (s *Server) systemRoutes(reg *schemas) []*route {
	routes := []*route{
		{method: http.MethodGet, path: "/healthz", id: "healthz", summary: "The process lives.", tag: "system", open: true, handle: func(context.Context, *call) (*reply, error) {
			return &reply{}, nil
		}},
		{method: http.MethodGet, path: "/readyz", id: "readyz", summary: "The server can work.", tag: "system", open: true, handle: s.readyz},
		{method: http.MethodGet, path: "/metrics", id: "metrics", summary: "Prometheus metrics; for operators and admins.", tag: "system", media: "text/plain", handle: s.metrics},
		{method: http.MethodGet, path: prefix + "/openapi.json", id: "openapi", summary: "This document.", tag: "system", media: "application/json", handle: s.openapi},
		{method: http.MethodGet, path: prefix + "/version", id: "version", summary: "The server's version.", tag: "system", data: schemaOf[versionInfo](reg), handle: func(context.Context, *call) (*reply, error) {
			return &reply{data: versionInfo{s.Version, "v1", runtime.Version()}}, nil
		}},
		{method: http.MethodGet, path: prefix + "/whoami", id: "whoami", summary: "Whom the token speaks for.", tag: "system", data: schemaOf[Identity](reg), handle: s.whoami},
		{method: http.MethodPost, path: prefix + "/backup", id: "backup", summary: "A tar of everything; for admins.", tag: "system", verb: "backup", kind: "Backup", media: "application/x-tar", handle: s.backup},
	}
	return append(append(routes, s.rotateRoute(reg)), s.archiveRoutes(reg)...)
}

func (s *Server) readyz(ctx context.Context, _ *call) (*reply, error) {
	if s.Ready != nil {
		if err := s.Ready(); err != nil {
			return nil, notReady(err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := s.Store.Healthy(ctx); err != nil {
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

func (s *Server) metrics(_ context.Context, c *call) (*reply, error) {
	if s.Metrics == nil {
		return nil, fault.New(fault.NotFound, "NoMetrics", fault.T("This server keeps no metrics.", "该服务器未启用指标。"))
	}
	promhttp.HandlerFor(s.Metrics, promhttp.HandlerOpts{}).ServeHTTP(patient{c}, c.r)
	return nil, nil
}

func (s *Server) openapi(_ context.Context, c *call) (*reply, error) {
	doc, err := s.doc()
	if err != nil {
		return nil, err
	}
	c.send(http.StatusOK, doc)
	return nil, nil
}

func (s *Server) whoami(ctx context.Context, c *call) (*reply, error) {
	out, err := s.identify(ctx, c.who)
	if err != nil {
		return nil, err
	}
	return &reply{data: out}, nil
}

func (s *Server) identify(ctx context.Context, w *caller) (Identity, error) {
	out := Identity{
		User: w.name(), Role: w.role(), Token: w.token.Meta.Name, Task: w.token.Spec.Task, Scope: w.token.Spec.Scope,
		ExpiresAt: w.token.Spec.ExpiresAt, SeesAll: w.seesAll(),
	}
	snap, err := s.Store.List(ctx, api.KindProject, "", 0)
	if err == nil && w.token.Spec.Task == "" {
		out.Projects = w.memberships(snap)
	}
	return out, err
}

func (s *Server) backup(ctx context.Context, c *call) (*reply, error) {
	if s.Backup == nil {
		return nil, fault.New(fault.Unavailable, "NoBackup", fault.T("This server makes no backups.", "该服务器不支持备份。"))
	}
	c.w.Header().Set("Content-Type", "application/x-tar")
	c.w.Header().Set("Content-Disposition", attachment(fmt.Sprintf("fermi-%s.tar", s.Clock.Now().UTC().Format("20060102-150405"))))
	defer c.guard(ctx, nil)()
	if err := s.Backup(ctx, patient{c}); err != nil {
		return nil, err // the connection is cut: a short tar must not look whole
	}
	s.remember(c, "ok")
	return nil, nil
}
