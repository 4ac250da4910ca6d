package client

import (
	"context"
	"io"
	"net/http"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// Ask asks a service through the gateway, at a path of the server with its query: "/inference/NAME/…", "/v1/chat/completions".
// The caller closes the answer's body, which may be a stream; a status of 300 and above is a *fault.Error. It is tried once.
func Ask(ctx context.Context, c *Client, method, path string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.Server()+path, body)
	if err != nil {
		return nil, fault.From(err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if c.language != "" {
		req.Header.Set("Accept-Language", c.language)
	}
	req.Header.Set("User-Agent", c.agent)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if resp.StatusCode >= 300 {
		defer resp.Body.Close()
		return nil, c.refused(resp)
	}
	return resp, nil
}
