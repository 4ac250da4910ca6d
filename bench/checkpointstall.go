package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"

	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/sdk/python"
)

//go:embed checkpoint/stall.py
var stallScript []byte

// benchStall: what a save costs training, and a restore from memory, beside plain copies and torch.save.
func benchStall(ctx context.Context, r *report, mib, rounds int) error {
	shm, err := os.MkdirTemp("/dev/shm", "fermi-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(shm)
	var out struct {
		Torch, Python string
		Seconds       map[string][]float64
	}
	err = runPython(ctx, stallScript, &out, []string{"FERMI_SHM=" + shm}, strconv.Itoa(mib), strconv.Itoa(rounds))
	if err != nil {
		return err
	}
	fmt.Printf("%d MiB of float32 with the SDK, PyTorch %s, Python %s, %d rounds, seconds\n", mib, out.Torch, out.Python, rounds)
	printSpreads(out.Seconds)
	middle := map[string]float64{}
	for name, list := range out.Seconds {
		middle[name] = median(list)
	}
	// The quicker of the two ways to copy, so that neither flatters.
	r.atMost("stall of a save, of a copy into warm memory", middle["save"]/min(middle["copy"], middle["memmove"]), 1.2)
	r.atMost("stall of a save, of torch.save with fsync", middle["save"]/middle["torch.save"], 1.0/6)
	r.atLeast("rate of a checked restore, of a copy", middle["copy out"]/middle["restore"], 0.5)
	r.atLeast("the same into new memory", middle["copy out, new memory"]/middle["restore, new memory"], 0.5)
	return nil
}

// runPython runs a script with the SDK and Debian's PyTorch; its last argument is a folder on this disk. The last line that it
// prints is JSON; one "check SLOT STEP" before asks for what a launcher does before a rank goes on from a slot.
func runPython(ctx context.Context, script []byte, out any, env []string, args ...string) error {
	dir, err := scratch()
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	sdk, name := filepath.Join(dir, "sdk"), filepath.Join(dir, "bench.py")
	if err := python.Write(sdk); err != nil {
		return err
	}
	if err := os.WriteFile(name, script, 0o600); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, debianPython, append(append([]string{name}, args...), dir)...)
	cmd.Env = append(append(os.Environ(), "PYTHONPATH="+sdk), env...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	lines, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	err = answerChecks(lines, in, out)
	if werr := cmd.Wait(); werr != nil { // it is the better reason
		err = werr
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func answerChecks(lines io.Reader, in io.Writer, out any) error {
	r := bufio.NewReader(lines)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return err
		}
		var slot string
		var step uint64
		if n, _ := fmt.Sscanf(string(line), "check %s %d", &slot, &step); n != 2 {
			return json.Unmarshal(line, out)
		}
		answer := "ok\n"
		if err := ckpt.CheckSlot(slot, step, runtime.NumCPU()); err != nil {
			answer = err.Error() + "\n"
		}
		if _, err := io.WriteString(in, answer); err != nil {
			return err
		}
	}
}
