package client

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/joined"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Identity is who the server takes us for.
type Identity struct {
	User     string       `json:"user"`
	Role     api.UserRole `json:"role"`
	Token    string       `json:"token,omitempty"`
	Projects []string     `json:"projects,omitempty"`
}

// WhoAmI asks who we are to the server.
func (c operation) WhoAmI(ctx context.Context) (Identity, error) {
	var out Identity
	err := c.wire.read(ctx, "/whoami", nil, &out)
	return out, err
}

// ServerVersion is what the server says about itself.
type ServerVersion struct {
	Version string `json:"version"`
}

// Version asks for the server's version.
func (c operation) Version(ctx context.Context) (ServerVersion, error) {
	var out ServerVersion
	err := c.wire.read(ctx, "/version", nil, &out)
	return out, err
}

// Archive is an uploaded bundle of code.
type Archive struct {
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
}

// HasArchive asks whether the server has these bytes already.
func (c operation) HasArchive(ctx context.Context, digest string) (bool, error) {
	var out Archive
	err := c.wire.read(ctx, "/archives/"+url.PathEscape(digest), nil, &out)
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	return err == nil, err
}

// PutArchive uploads size bytes; the same bytes twice are stored once.
func (c operation) PutArchive(ctx context.Context, r io.Reader, size int64) (Archive, error) {
	var out Archive
	resp, err := c.wire.send(ctx, request{
		method: http.MethodPost, path: "/archives", body: r, length: size, typ: "application/octet-stream",
	})
	if err != nil {
		return out, err
	}
	err = c.wire.decode(ctx, resp, &out)
	return out, err
}

// NewToken is a token just made: the only time its secret is seen.
type NewToken struct {
	Object *api.Token `json:"object"`
	Secret string     `json:"secret"`
}

// CreateToken makes a token.
func (c operation) CreateToken(ctx context.Context, token *api.Token, dryRun bool) (NewToken, error) {
	var out NewToken
	err := c.wire.write(ctx, http.MethodPost, "/tokens", dry("", dryRun), token, &out)
	return out, err
}

// SetPassword sets a user's password and ends its sessions; current is needed for one's own.
func (c operation) SetPassword(ctx context.Context, user, password, current string) error {
	p, err := objectPath(api.KindUser, user)
	if err != nil {
		return err
	}
	return c.wire.write(ctx, http.MethodPut, p+"/password", nil, map[string]string{"password": password, "current": current}, nil)
}

// SignOut ends all sessions of a user; your own when user is "".
func (c operation) SignOut(ctx context.Context, user string) error {
	q := url.Values{}
	if user != "" {
		q.Set("user", user)
	}
	return c.wire.write(ctx, http.MethodDelete, "/sessions", q, nil, nil)
}

// SignInCode asks for a one-time code that signs us in with a browser.
func (c operation) SignInCode(ctx context.Context) (string, error) {
	var out struct {
		Code string `json:"code"`
	}
	err := c.wire.write(ctx, http.MethodPost, "/session/code", nil, nil, &out)
	return out.Code, err
}

// NodeVerb is cordon, uncordon or drain, for a node or one of its devices.
func (c operation) NodeVerb(ctx context.Context, verb, node string, device int) (*api.Node, error) {
	p, err := objectPath(api.KindNode, node)
	if err != nil {
		return nil, err
	}
	q := url.Values{}
	if device >= 0 {
		q.Set("device", strconv.Itoa(device))
	}
	out := &api.Node{}
	return out, c.wire.write(ctx, http.MethodPost, p+"/"+verb, q, nil, out)
}

// Backup opens the server's backup, a tar stream; the caller closes it. A stream cut short ends
// with an error other than io.EOF.
func (c operation) Backup(ctx context.Context) (io.ReadCloser, error) {
	resp, err := c.wire.send(ctx, request{method: http.MethodPost, path: "/backup"})
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// Rotated is a key that was replaced.
type Rotated struct {
	Key     string     `json:"key"`
	Message fault.Text `json:"message"`
}

// Rotate replaces keys of the server: secret-key, link-key, tls, admin-token; or all.
func (c operation) Rotate(ctx context.Context, keys ...string) ([]Rotated, error) {
	var out struct {
		Items []Rotated `json:"items"`
	}
	err := c.wire.write(ctx, http.MethodPost, "/rotate", nil, map[string]any{"keys": keys}, &out)
	return out.Items, err
}

// Raw reads the data of any path below /api/v1, for what has no method yet.
func (c operation) Raw(ctx context.Context, path string, query url.Values) (json.RawMessage, error) {
	var out json.RawMessage
	err := c.wire.read(ctx, path, query, &out)
	return out, err
}

// JoinToken lets one machine join, once.
type JoinToken struct {
	Token     string    `json:"token"`
	ExpiresAt time.Time `json:"expiresAt"`
	Zone      string    `json:"zone"`
	Servers   []string  `json:"servers"`
}

// AddNode makes a one-time token with which a machine joins a zone.
func AddNode(ctx context.Context, c *Client, zone string, ttl time.Duration) (*JoinToken, error) {
	in := struct {
		Zone string       `json:"zone,omitempty"`
		TTL  api.Duration `json:"ttl,omitempty"`
	}{zone, api.Duration(ttl)}
	out := &JoinToken{}
	return out, c.write(ctx, http.MethodPost, "/join-tokens", nil, in, out)
}

// UpgradeNode has the agent of a machine that joined replace its program by the servers' own. What becomes of it is in the node's status, under the answer's id.
func UpgradeNode(ctx context.Context, c *Client, node string) (*joined.Upgrade, error) {
	p, err := objectPath(api.KindNode, node)
	if err != nil {
		return nil, err
	}
	out := &joined.Upgrade{}
	return out, c.write(ctx, http.MethodPost, p+"/upgrade", nil, nil, out)
}
