package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// benchWeb: what the console costs a browser at its first load, and when it stands, in the same Chromium as the browser suite's.
func benchWeb(ctx context.Context, r *report) error {
	dir, err := os.MkdirTemp("", "fermi-web")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "report.json")
	cmd := exec.CommandContext(ctx, "npm", "run", "--silent", "bench")
	cmd.Dir, cmd.Env = "web", append(os.Environ(), "FERMI_WEB_REPORT="+path)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("web/e2e: %w", err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var seen struct {
		Bytes float64   `json:"bytes"`
		Times []float64 `json:"times"` // milliseconds
	}
	if err := json.Unmarshal(data, &seen); err != nil {
		return err
	}
	slices.Sort(seen.Times)
	r.Seeds = nil
	r.atMost("first load [kB]", seen.Bytes/1000, 250)
	r.atMost(fmt.Sprintf("interactive, median of %d [ms]", len(seen.Times)), median(seen.Times), 1500).Among(seen.Times)
	return nil
}
