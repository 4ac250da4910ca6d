package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

const haRounds = 3

// benchHA: how long the API is away when a server or an etcd member is killed, paused or cut off, in the
// same run of test/ha that checks that nothing is lost.
func benchHA(ctx context.Context, r *report) error {
	dir, err := os.MkdirTemp("", "fermi-ha")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "report.json")
	cmd := exec.CommandContext(ctx, "scripts/postgres.sh", "go", "test", "-v", "-count=1", "-timeout", "60m", "-run", "TestHA", "./test/ha")
	cmd.Env = append(os.Environ(), "FERMI_HA_REPORT="+path, fmt.Sprintf("FERMI_HA_ROUNDS=%d", haRounds), "FERMI_HA_SEED=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("test/ha: %w", err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var seconds map[string]float64
	if err := json.Unmarshal(data, &seconds); err != nil {
		return err
	}
	r.atMost("API away, reads [s]", seconds["reads"], 3)
	r.atMost("API away, writes, etcd's election included [s]", seconds["writes"], 3)
	r.atMost("API away on a server that was not hurt [s]", seconds["others"], 3)
	r.atMost("a log line at every server, p99 [s]", seconds["line"], 1)
	r.tell("etcd itself without a leader, worst [s]", seconds["headless"])
	r.tell("fault → a new task's start, worst [s]", seconds["placed"])
	return nil
}
