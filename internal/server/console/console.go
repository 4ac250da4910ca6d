package console

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"html"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"

	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/rest"
)

// consolePolicy lets the console's pages run only the scripts they came with and speak only to the
// server they came from. Its component library writes style elements, hence the one exception.
const consolePolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
	"font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Console serves the pages for browsers. Every file is read and compressed once.
type Console struct {
	files fs.FS
	built bool
	mu    sync.Mutex
	kept  map[string]*sent
}

// sent is a file as browsers get it.
type sent struct {
	media         string
	plain, packed []byte
}

func New(files fs.FS) *Console {
	if files == nil {
		return nil
	}
	_, err := fs.Stat(files, "index.html")
	return &Console{files: files, built: err == nil, kept: map[string]*sent{}}
}

// Serve says whether the path is the console's. Its own paths are decided in the browser, so any
// page a person navigates to is index.html; whoever does not ask for HTML is told the truth.
func (c *Console) Serve(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead || reserved(r.URL.Path) {
		return false
	}
	name := strings.Trim(path.Clean(r.URL.Path), "/")
	wantsPage := name == "" || strings.Contains(r.Header.Get("Accept"), "text/html")
	switch {
	case !c.built:
		if wantsPage {
			c.absent(w, r)
		}
		return wantsPage
	case name == "index.html" || path.Ext(name) == "" || !fs.ValidPath(name):
		if wantsPage || name == "index.html" {
			return c.send(w, r, "index.html")
		}
		return false
	}
	return c.send(w, r, name)
}

// reserved are the paths of the API and of machines; a page never hides a wrong one.
func reserved(p string) bool {
	return strings.HasPrefix(p, "/api/") || p == "/api" || p == "/metrics" || p == "/healthz" || p == "/readyz"
}

func (c *Console) send(w http.ResponseWriter, r *http.Request, name string) bool {
	f, err := c.file(name)
	if err != nil {
		return false
	}
	h := w.Header()
	consoleHeaders(h, f.media)
	h.Add("Vary", "Accept-Encoding")
	if strings.HasPrefix(name, "assets/") { // named by their content
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	body := f.plain
	if f.packed != nil && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		body = f.packed
		h.Set("Content-Encoding", "gzip")
	}
	write(w, r, http.StatusOK, body)
	return true
}

func consoleHeaders(h http.Header, media string) {
	h.Set("Content-Type", media)
	h.Set("Content-Security-Policy", consolePolicy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

func write(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body)
	}
}

func (c *Console) file(name string) (*sent, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.kept[name]; f != nil {
		return f, nil
	}
	data, err := fs.ReadFile(c.files, name)
	if err != nil {
		return nil, err
	}
	f := &sent{media: mediaOf(name), plain: data}
	if !strings.HasPrefix(f.media, "image/png") && !strings.HasPrefix(f.media, "font/") {
		var b bytes.Buffer
		z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
		if err != nil {
			return nil, err
		}
		if _, err := z.Write(data); err != nil {
			return nil, err
		}
		if err := z.Close(); err != nil {
			return nil, err
		}
		f.packed = b.Bytes()
	}
	c.kept[name] = f
	return f, nil
}

// mediaOf does not depend on what the machine believes about endings.
func mediaOf(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	case ".woff2":
		return "font/woff2"
	}
	if media := mime.TypeByExtension(path.Ext(name)); media != "" {
		return media
	}
	return "application/octet-stream"
}

var consoleAbsent = fault.T(
	"The console is not in this binary: it was built without Node. Install Node 20 or later with npm and run \"make build\"; until then use the command line or the API.",
	"此程序未包含控制台：构建时没有 Node。请安装 Node 20 及以上版本与 npm，然后执行 \"make build\"；在此之前可使用命令行或 API。")

// absent says in both languages that there is no console, the caller's first.
func (c *Console) absent(w http.ResponseWriter, r *http.Request) {
	lang, first, second := "en", consoleAbsent.EN, consoleAbsent.ZH
	if rest.Language(r.Header.Get("Accept-Language")) == "zh" {
		lang, first, second = "zh", second, first
	}
	consoleHeaders(w.Header(), "text/html; charset=utf-8")
	write(w, r, http.StatusOK, fmt.Appendf(nil,
		"<!doctype html><html lang=%q><meta charset=\"utf-8\"><title>Fermi</title><h1>Fermi</h1><p>%s</p><p>%s</p></html>\n",
		lang, html.EscapeString(first), html.EscapeString(second)))
}
