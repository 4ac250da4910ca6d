package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"

	api "github.com/fermi-cluster/fermi/api/v1"
)

const hostRounds = 7

// benchHosts: what a failure over several hosts costs and what a distance between zones costs, in the same run of test/hosts that checks that training goes on.
func benchHosts(ctx context.Context, r *report) error {
	dir, err := os.MkdirTemp("", "fermi-hosts")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "report.json")
	cmd := exec.CommandContext(ctx, "go", "test", "-v", "-count=1", "-timeout", "30m", "-run", "TestFigures", "./test/hosts")
	cmd.Env = append(os.Environ(), "FERMI_HOSTS_FIGURES="+path, fmt.Sprintf("FERMI_HOSTS_ROUNDS=%d", hostRounds))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("test/hosts: %w", err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var f struct {
		Kills                   []float64
		Lost                    []map[string]float64
		Alone, Untaught, Taught float64
		Apart                   []float64
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return err
	}
	r.atMost("SIGKILL of a rank on one of four hosts → next step of all, median [s]", median(f.Kills), 1).Among(f.Kills)
	whole := make([]float64, len(f.Lost))
	for _, phase := range api.RecoveryPhases {
		var took []float64
		for i, one := range f.Lost {
			took, whole[i] = append(took, one[string(phase)]), whole[i]+one[string(phase)]
		}
		r.tell(fmt.Sprintf("a host without power, %s, median [s]", phase), median(took)).Among(took)
	}
	r.tell("a host without power, all phases, median [s]", median(whole)).Among(whole)
	measured := 100 * f.Apart[1] / f.Alone
	r.tell("DDP over two zones 12 ms apart, measured efficiency [%]", measured)
	r.tell("the preview's estimate before the first run [%]", f.Untaught)
	r.tell("the preview's estimate after it [%]", f.Taught)
	r.atMost("estimate after it, off by [points]", math.Abs(f.Taught-measured), 10)
	r.Notes = append(r.Notes, "DDP's step is 60 ms of waiting, in the place of a device, and a real all-reduce by gloo.")
	return nil
}
