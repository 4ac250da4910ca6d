package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/coder/websocket"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/terminal"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// AddKey registers a public key of a user for SSH.
func AddKey(ctx context.Context, c *Client, user, key, name string) (*terminal.Key, error) {
	p, err := objectPath(api.KindUser, user)
	if err != nil {
		return nil, err
	}
	out := &terminal.Key{}
	return out, c.write(ctx, http.MethodPost, p+"/keys", nil, map[string]string{"key": key, "name": name}, out)
}

// RemoveKey takes back a key, by its id or name; connections made with it end.
func RemoveKey(ctx context.Context, c *Client, user, key string) error {
	p, err := objectPath(api.KindUser, user)
	if err != nil {
		return err
	}
	return c.write(ctx, http.MethodDelete, p+"/keys/"+url.PathEscape(key), nil, nil, nil)
}

// SSHDoor is where SSH is answered, and with which key; its port is 0 where it is not.
type SSHDoor struct {
	Port        int    `json:"port"`
	HostKey     string `json:"hostKey"`
	Fingerprint string `json:"fingerprint"`
}

// SSH asks a server for the door of SSH.
func SSH(ctx context.Context, c *Client) (out SSHDoor, err error) {
	err = c.read(ctx, "/ssh", nil, &out)
	return out, err
}

// Tunnel is a connection to a port in an environment. Read is one goroutine's, Write and CloseWrite another's.
type Tunnel struct {
	ws   *websocket.Conn
	ctx  context.Context //nolint:containedctx // of the connection, as of a net.Conn
	rest []byte
	over error
}

// OpenTunnel connects to a port on which something listens in work of a kind.
func OpenTunnel(ctx context.Context, c *Client, kind api.Kind, project, name string, port int) (*Tunnel, error) {
	path, err := objectPath(kind, name)
	if err != nil {
		return nil, err
	}
	ws, err := dialWebSocket(ctx, c, path+"/ports/"+strconv.Itoa(port)+"/connect", inProject(project))
	if err != nil {
		return nil, err
	}
	ws.SetReadLimit(terminal.MaxMessage)
	return &Tunnel{ws: ws, ctx: ctx}, nil
}

// endOfInput is the text message that says that no more bytes come from this side.
const endOfInput = "end"

// Read gives what comes from there.
func (t *Tunnel) Read(p []byte) (int, error) {
	for len(t.rest) == 0 {
		if t.over != nil {
			return 0, t.over
		}
		kind, data, err := t.ws.Read(t.ctx)
		switch {
		case err != nil && websocket.CloseStatus(err) == websocket.StatusNormalClosure:
			t.over = io.EOF
		case err != nil:
			t.over = io.ErrUnexpectedEOF
		case kind == websocket.MessageText && string(data) == endOfInput:
			t.over = io.EOF
		case kind == websocket.MessageBinary:
			t.rest = data
		}
	}
	n := copy(p, t.rest)
	t.rest = t.rest[n:]
	return n, nil
}

// Write sends bytes there.
func (t *Tunnel) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		part := p[:min(len(p), terminal.MaxMessage/4)]
		if err := t.ws.Write(t.ctx, websocket.MessageBinary, part); err != nil {
			return n, errors.Join(io.ErrClosedPipe, err)
		}
		n, p = n+len(part), p[len(part):]
	}
	return n, nil
}

// CloseWrite says that no more comes; what the other side says is still read.
func (t *Tunnel) CloseWrite() error {
	return t.ws.Write(t.ctx, websocket.MessageText, []byte(endOfInput))
}

// Close ends it.
func (t *Tunnel) Close() error { return t.ws.CloseNow() }

// PortAddress is a port of an environment and where it is reached.
type PortAddress struct {
	Port int    `json:"port"`
	Name string `json:"name"`
	URL  string `json:"url"`  // for browsers; "": this server has no content host
	Path string `json:"path"` // for programs with a token
}

// Ports are those of an environment that have an address.
func Ports(ctx context.Context, c *Client, kind api.Kind, project, name string) ([]PortAddress, error) {
	path, err := objectPath(kind, name)
	if err != nil {
		return nil, err
	}
	var out struct {
		Items []PortAddress `json:"items"`
	}
	err = c.read(ctx, path+"/ports", inProject(project), &out)
	return out.Items, err
}

// OpenPort asks for an address that lets a browser in once, within a minute.
func OpenPort(ctx context.Context, c *Client, kind api.Kind, project, name string, port int) (string, error) {
	path, err := objectPath(kind, name)
	if err != nil {
		return "", err
	}
	var out struct {
		URL string `json:"url"`
	}
	err = c.write(ctx, http.MethodPost, path+"/ports/"+strconv.Itoa(port)+"/open", inProject(project), nil, &out)
	return out.URL, err
}

// SharedPort is a link to a port, by which anybody who has its address reaches it until it ends.
type SharedPort struct {
	ID     string    `json:"id"`
	URL    string    `json:"url"`
	EndsAt time.Time `json:"endsAt"`
}

// SharePort makes a link; lasts is how long it works, "" as long as usual.
func SharePort(ctx context.Context, c *Client, kind api.Kind, project, name string, port int, lasts string) (out SharedPort, err error) {
	path, err := objectPath(kind, name)
	if err != nil {
		return out, err
	}
	q := inProject(project)
	if lasts != "" {
		q.Set("for", lasts)
	}
	err = c.write(ctx, http.MethodPost, path+"/ports/"+strconv.Itoa(port)+"/share", q, nil, &out)
	return out, err
}

// UnsharePort takes a link back.
func UnsharePort(ctx context.Context, c *Client, kind api.Kind, project, name, link string) error {
	path, err := objectPath(kind, name)
	if err != nil {
		return err
	}
	return c.write(ctx, http.MethodDelete, path+"/links/"+url.PathEscape(link), inProject(project), nil, nil)
}

// dialWebSocket opens one at a path of the API.
func dialWebSocket(ctx context.Context, c *Client, path string, query url.Values) (*websocket.Conn, error) {
	at := c.current.Load()
	u := c.bases[at].JoinPath(base + path)
	u.RawQuery = query.Encode()
	header := http.Header{"User-Agent": {c.agent}}
	if c.token != "" {
		header.Set("Authorization", "Bearer "+c.token)
	}
	if c.language != "" {
		header.Set("Accept-Language", c.language)
	}
	ws, resp, err := websocket.Dial(ctx, u.String(), &websocket.DialOptions{HTTPClient: c.http, HTTPHeader: header, CompressionMode: websocket.CompressionDisabled})
	if err == nil {
		return ws, nil
	}
	if resp != nil && resp.StatusCode >= 300 {
		err := c.refused(resp)
		if fault.Is(err, fault.Unavailable) && fault.ReasonOf(err) != "NobodyListens" {
			c.moveOn(at)
		}
		return nil, err
	}
	c.moveOn(at)
	return nil, c.unreachable(ctx, err)
}
