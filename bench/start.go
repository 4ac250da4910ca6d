package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/fermi-cluster/fermi/test/harness"
)

// benchStart: exec → /readyz on a fresh folder, ten times; then memory after 30 idle seconds.
func benchStart(ctx context.Context, r *report) error {
	bin, err := harness.Binary()
	if err != nil {
		return err
	}
	info, err := os.Stat(bin)
	if err != nil {
		return err
	}
	var ready sample
	for range 10 {
		d, err := timeStart(ctx, bin)
		if err != nil {
			return err
		}
		ready = append(ready, d)
	}
	fmt.Println("exec → ready, fresh folder:", ready)
	c, err := harness.New(bin, "up")
	if err != nil {
		return err
	}
	defer c.Cleanup()
	if err := c.Start(ctx); err != nil {
		return err
	}
	fmt.Println("idling for 30 s …")
	time.Sleep(30 * time.Second)
	rss, err := rssMB(c.PID())
	if err != nil {
		return err
	}
	r.atMost("ready after exec, worst of 10 [s]", ready.quantile(1).Seconds(), 1).Among(ready.seconds())
	r.atMost("VmRSS after 30 s idle [MB]", rss, 120)
	r.atMost("stripped binary [MB]", float64(info.Size())/1e6, 100)
	return nil
}

func timeStart(ctx context.Context, bin string) (time.Duration, error) {
	c, err := harness.New(bin, "up")
	if err != nil {
		return 0, err
	}
	defer c.Cleanup()
	begin := time.Now()
	if err := c.Start(ctx); err != nil {
		return 0, err
	}
	return time.Since(begin), nil
}

func rssMB(pid int) (float64, error) { return statusMB(pid, "VmRSS") }

// statusMB is an amount in a process's status.
func statusMB(pid int, name string) (float64, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(raw)) {
		var kb float64
		if n, _ := fmt.Sscanf(line, name+": %f kB", &kb); n == 1 {
			return kb * 1024 / 1e6, nil
		}
	}
	return 0, fmt.Errorf("no %s of %d", name, pid)
}
