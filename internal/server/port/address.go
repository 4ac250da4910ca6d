package port

import (
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
)

// A content host is PORT--ENVIRONMENT--PROJECT, or PORT--ID where that is too long for a label or not clear, below localhost or the domain
// of the settings. The path of programs is /env/PROJECT/ENVIRONMENT/PORT/.

const (
	local      = "localhost"
	separator  = "--"
	maxLabel   = 63
	pathPrefix = "/env/"
)

// Target is what an address means.
type Target struct {
	Port          int
	ID            string // of the environment; "": Project and Name
	Project, Name string
}

// label is the first part of an environment's content host.
func label(e *devenv.DevEnvironment, port int) string {
	l := strconv.Itoa(port) + separator + e.Meta.Name + separator + e.Meta.Project
	if len(l) > maxLabel || strings.Count(l, separator) != 2 || strings.Contains(l, "---") {
		l = strconv.Itoa(port) + separator + e.Meta.ID
	}
	return l
}

// nameOf is the name in a Host header, in lower case, and its port with the colon.
func nameOf(host string) (name, port string) {
	name = host
	if h, p, err := net.SplitHostPort(host); err == nil {
		name, port = h, ":"+p
	}
	return strings.ToLower(strings.TrimSuffix(name, ".")), port
}

// OfHost reads a content host; false: it is none.
func (p *Ports) OfHost(host string) (Target, bool) {
	if len(host) > 300 {
		return Target{}, false
	}
	name, _ := nameOf(host)
	for _, domain := range []string{local, p.Domain} {
		if l, ok := strings.CutSuffix(name, "."+domain); ok && domain != "" {
			return ofLabel(l)
		}
	}
	return Target{}, false
}

func ofLabel(l string) (Target, bool) {
	number, rest, ok := strings.Cut(l, separator)
	port, err := strconv.Atoi(number)
	if !ok || err != nil || port < 1 || port > 65535 || strings.Contains(l, ".") {
		return Target{}, false
	}
	name, project, two := strings.Cut(rest, separator)
	switch {
	case two && api.IsName(name) && api.IsName(project) && !strings.Contains(project, separator):
		return Target{Port: port, Project: project, Name: name}, true
	case !two && api.IsName(rest):
		return Target{Port: port, ID: rest}, true
	}
	return Target{}, false
}

// ofPath reads the path of programs: what it means, and what is left of it.
func ofPath(path string) (t Target, rest string, ok bool) {
	parts := strings.SplitN(strings.TrimPrefix(path, pathPrefix), "/", 4)
	if !strings.HasPrefix(path, pathPrefix) || len(parts) < 4 {
		return Target{}, "", false
	}
	port, err := strconv.Atoi(parts[2])
	if err != nil || port < 1 || port > 65535 || !api.IsName(parts[0]) || !api.IsName(parts[1]) {
		return Target{}, "", false
	}
	return Target{Port: port, Project: parts[0], Name: parts[1]}, "/" + parts[3], true
}

// Has says that a path is one of programs.
func (*Ports) Has(path string) bool { return strings.HasPrefix(path, pathPrefix) }

func pathOf(e *devenv.DevEnvironment, port int) string {
	return pathPrefix + e.Meta.Project + "/" + e.Meta.Name + "/" + strconv.Itoa(port) + "/"
}

// urlOf is where browsers find a port, seen by who asked with this request; "": there is no host for it.
func (p *Ports) urlOf(r *http.Request, e *devenv.DevEnvironment, port int) string {
	name, at := nameOf(r.Host)
	scheme := "http://"
	if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" {
		scheme = "https://"
	}
	domain := p.Domain
	if domain == "" && isLocal(name) {
		domain = local
	}
	if domain == "" {
		return ""
	}
	return scheme + label(e, port) + "." + domain + at + "/"
}

// isLocal says that a browser that uses this name is on this machine, where names below localhost lead to us, too.
func isLocal(name string) bool {
	a, err := netip.ParseAddr(strings.Trim(name, "[]"))
	return name == local || err == nil && a.IsLoopback()
}
