package door

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/rest"
)

// Secure sets the headers every answer has. A page that needs more (the console) sets its own
// policy over this one, which lets a document do nothing.
func Secure(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

var ErrBadHost = fault.New(fault.Forbidden, "BadHost", fault.T(
	"This server is not known by the name in the Host header.", "Host 头中的名称不是该服务器的名称。")).WithHint(fault.T(
	"Use its address, localhost, or a name given with --hosts.", "请使用其 IP 地址、localhost，或用 --hosts 配置的名称。"))

// KnownHost refuses names that are not ours (in lower case): with DNS rebinding a stranger's page makes its own
// name resolve to us, and the browser then takes us for it. An address cannot be rebound.
func KnownHost(host string, ours []string) bool {
	if len(host) == 0 || len(host) > 300 {
		return false
	}
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	} else if h, ok := strings.CutPrefix(host, "["); ok {
		name = strings.TrimSuffix(h, "]")
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	return name == "localhost" || slices.Contains(ours, name)
}

func LowerAll(names []string) []string {
	out := make([]string, 0, len(names))
	for _, n := range names {
		if n = strings.ToLower(strings.TrimSuffix(n, ".")); n != "" {
			out = append(out, n)
		}
	}
	return out
}

var errBadOrigin = fault.New(fault.Forbidden, "BadOrigin", fault.T(
	"The request comes from a page of another origin.", "请求来自其他来源的页面。")).WithHint(fault.T(
	"Programs use a token: Authorization: Bearer <token>.", "程序请使用令牌：Authorization: Bearer <令牌>。"))

// sameOrigin refuses what another origin's page made a browser send. Whatever carries a cookie
// and changes something must say where it comes from: browsers always do.
func sameOrigin(r *http.Request, mustSay bool) error {
	origin, site := r.Header.Get("Origin"), r.Header.Get("Sec-Fetch-Site")
	if site != "" && site != "same-origin" && site != "none" {
		return errBadOrigin
	}
	if origin == "" {
		if mustSay && site == "" {
			return errBadOrigin
		}
		return nil
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host) {
		return errBadOrigin
	}
	// In front of plain HTTP there may be a proxy that speaks HTTPS; behind our own TLS nothing else is us.
	if u.Scheme != "https" && (u.Scheme != "http" || r.TLS != nil) {
		return errBadOrigin
	}
	return nil
}

func reads(method string) bool { return method == http.MethodGet || method == http.MethodHead }

// cookieName: __Host- makes browsers take it over HTTPS only, for this very host, for all paths.
func cookieName(r *http.Request) string {
	if r.TLS != nil {
		return "__Host-fermi_session"
	}
	return "fermi_session"
}

// setCookie has the browser keep a session, or forget it.
func setCookie(c *rest.Call, secret string, seconds int) {
	http.SetCookie(c.W, &http.Cookie{
		Name: cookieName(c.R), Value: secret, Path: "/", MaxAge: seconds,
		HttpOnly: true, Secure: c.R.TLS != nil, SameSite: http.SameSiteStrictMode,
	})
}

func cookieOf(r *http.Request) string {
	if cookie, err := r.Cookie(cookieName(r)); err == nil {
		return cookie.Value
	}
	return ""
}
