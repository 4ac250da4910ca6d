package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// limit is how long the tests of a package have to find a bug, the build left out.
const limit = 60 * time.Second

func main() {
	only := os.Args[1:]
	if err := run(only); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(only []string) error {
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if len(only) == 0 { // what fails without a bug finds nothing
		if how, err := try(dir, bug{name: "no bug"}); err != nil || how != "" {
			return fmt.Errorf("the tests fail without a bug: %s %w", how, err)
		}
	}
	found, tried := 0, 0
	for _, b := range bugs {
		if len(only) > 0 && !strings.Contains(b.name, only[0]) {
			continue
		}
		tried++
		began := time.Now()
		how, err := try(dir, b)
		if err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
		verdict := "missed"
		if how != "" {
			verdict = "found"
			found++
		}
		fmt.Printf("%-6s %5.1f s  %s: %s\n", verdict, time.Since(began).Seconds(), b.name, how)
	}
	fmt.Printf("%d of %d found\n", found, tried)
	if found < tried || tried == 0 {
		return errors.New("not all planted bugs were found")
	}
	return nil
}

// try builds the tests with a bug and runs them; how is what they said, "" when they passed.
func try(dir string, b bug) (how string, err error) {
	overlay := filepath.Join(dir, "overlay.json")
	replace := map[string]string{}
	if b.file != "" {
		text, err := os.ReadFile(b.file)
		if err != nil {
			return "", err
		}
		if n := strings.Count(string(text), b.old); n != 1 {
			return "", fmt.Errorf("%s has the place %d times: %q", b.file, n, b.old)
		}
		path := filepath.Join(dir, "mutant.go")
		if err := os.WriteFile(path, []byte(strings.Replace(string(text), b.old, b.bug, 1)), 0o600); err != nil {
			return "", err
		}
		from, err := filepath.Abs(b.file)
		if err != nil {
			return "", err
		}
		replace[from] = path
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		return "", err
	}
	for _, s := range suites {
		if how, err = s.look(dir, overlay); how != "" || err != nil {
			return how, err
		}
	}
	return "", nil
}

// suite is a package whose tests look for bugs.
type suite struct{ pkg, run string }

var suites = []suite{
	{"internal/control/placement", "TestWhatIsKnownIsUsed|TestWhatIsKnownIsTold|TestANodeThatFailedIsUsedLast|TestMeasuredDistancesDecide"}, // in a moment
	{"sched/safety", "TestScenarios|TestLeastVictims|TestTheSameVictims|TestBackfillDelaysNobody|TestMigrations"},
	{"sched", "TestGuests|TestMoves"}, // what worlds made by chance seldom come to
}

// look runs the tests of a package with a bug; how is what they said, "" when they passed.
func (s suite) look(dir, overlay string) (how string, err error) {
	binary := filepath.Join(dir, "planted.test")
	if out, err := exec.Command("go", "test", "-overlay", overlay, "-c", "-o", binary, "./"+s.pkg).CombinedOutput(); err != nil {
		return "", fmt.Errorf("it does not compile: %s", out)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "-test.failfast", "-test.run", s.run)
	cmd.Dir = s.pkg
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "", nil
	case ctx.Err() != nil:
		return "", nil // too late is not found
	case !errors.As(err, &exit):
		return "", err
	}
	return firstLine(string(out)), nil
}

// firstLine is the first thing a test said.
func firstLine(out string) string {
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if _, said, ok := strings.Cut(line, "_test.go:"); ok {
			return said[:min(len(said), 150)]
		}
		if strings.HasPrefix(line, "panic:") {
			return line
		}
	}
	return "it failed"
}
