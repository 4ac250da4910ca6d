// Package telemetry makes the logger and the registry of metrics.
//
// Place: foundation; the assembly makes one of each and hands them down.
// Promise: structured logs in text or JSON; a registry that already tells about the Go runtime,
// the process and the build. Enemies: a global logger, a global registry, logs that hold secrets.
package telemetry

import (
	"io"
	"log/slog"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// NewLogger writes to w from level ("debug", "info", "warn", "error"; info when "") on, as
// format ("text" when "", or "json").
func NewLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	var at slog.Level
	switch level {
	case "debug":
		at = slog.LevelDebug
	case "info", "":
		at = slog.LevelInfo
	case "warn":
		at = slog.LevelWarn
	case "error":
		at = slog.LevelError
	default:
		return nil, fault.New(fault.Invalid, "BadSettings", fault.T("%q is no log level; use debug, info, warn or error.", "%q 不是合法的日志级别，请使用 debug、info、warn 或 error。", level))
	}
	opts := &slog.HandlerOptions{Level: at, ReplaceAttr: redact}
	switch format {
	case "text", "":
		return slog.New(slog.NewTextHandler(w, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	}
	return nil, fault.New(fault.Invalid, "BadSettings", fault.T("%q is no log format; use text or json.", "%q 不是合法的日志格式，请使用 text 或 json。", format))
}

// redact is the last net under a mistake: an attribute called like a secret is never written.
func redact(_ []string, a slog.Attr) slog.Attr {
	switch strings.ToLower(a.Key) {
	case "token", "secret", "password", "authorization":
		return slog.String(a.Key, "***")
	}
	return a
}

// NewRegistry makes a registry with the collectors of the Go runtime, the process and the build.
func NewRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector(),
	)
	return r
}

// BuildInfo is the gauge fermi_build_info: always 1, its labels say which build this is.
func BuildInfo(version, commit string) prometheus.Collector {
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "fermi_build_info", Help: "Always 1; the labels say which build this is.",
		ConstLabels: prometheus.Labels{"version": version, "commit": commit},
	})
	g.Set(1)
	return g
}
