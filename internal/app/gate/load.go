package gate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/serving"
)

const (
	// socketName is where a server takes reports of gateways beside it: in its data folder, which only its user can open.
	socketName = "load.sock"
	maxReport  = 8 << 20
	tellFor    = 2 * time.Second
)

// Hear takes what gateways of this machine report until ctx ends. A folder whose path is too long for a socket hears nobody.
func Hear(ctx context.Context, data string, take func(context.Context, *serving.LoadReport) (*serving.LoadReply, error)) error {
	at := filepath.Join(data, socketName)
	_ = os.Remove(at) // of a server that was killed
	l, err := net.Listen("unix", at)
	if err != nil {
		<-ctx.Done() // without figures services stay as large as they are
		return nil
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /report", func(w http.ResponseWriter, r *http.Request) {
		var report serving.LoadReport
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxReport)).Decode(&report); err != nil || report.Gateway == "" {
			http.Error(w, "no report", http.StatusBadRequest)
			return
		}
		reply, err := take(r.Context(), &report)
		if err != nil {
			http.Error(w, "not taken", http.StatusServiceUnavailable)
			return
		}
		_ = json.NewEncoder(w).Encode(reply)
	})
	srv := &http.Server{Handler: mux, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, MaxHeaderBytes: 8 << 10}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(l); ctx.Err() == nil {
		return fmt.Errorf("hear gateways: %w", err)
	}
	return nil
}

// teller reports to the server whose data folder it is.
func teller(data string) func(context.Context, *serving.LoadReport) (*serving.LoadReply, error) {
	c := &http.Client{Timeout: tellFor, Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(data, socketName))
	}}}
	return func(ctx context.Context, r *serving.LoadReport) (*serving.LoadReply, error) {
		body, err := json.Marshal(r)
		if err != nil {
			return nil, err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://server/report", bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		resp, err := c.Do(req)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		if resp.StatusCode/100 != 2 {
			return nil, fmt.Errorf("the server answers %s", resp.Status)
		}
		var reply serving.LoadReply
		return &reply, json.NewDecoder(io.LimitReader(resp.Body, maxReport)).Decode(&reply)
	}
}
