package harness

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
)

// Patience is how long tests wait for what must come.
const Patience = 5 * time.Minute

// Up is a test's own `fermi up`, ready, and its administrator's client. Everything ends with the test; what the server
// printed last is shown if it failed.
func Up(t testing.TB, args ...string) (*Cluster, *client.Client) {
	t.Helper()
	bin, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(bin, "up", args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.LogTail())
		}
		c.Cleanup()
	})
	Ready(t, c)
	cl, err := c.Client()
	if err == nil {
		err = Share(t.Context(), cl)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c, cl
}

// Ready starts the server, the first time or again.
func Ready(t testing.TB, c *Cluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
}

// Task is a training task of the default project.
func Task(t testing.TB, cl *client.Client, name string) *api.TrainingTask {
	t.Helper()
	o, err := cl.Get(t.Context(), api.KindTrainingTask, "default", name)
	if err != nil {
		t.Fatal(err)
	}
	return o.(*api.TrainingTask)
}

// Eventually waits for a condition.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(Patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// EnvInt is a number that the caller of a suite may set.
func EnvInt(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// Processes are the living ones whose environment has all the marks, each NAME=value whole.
func Processes(marks ...string) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		raw, _ := os.ReadFile(file)
		env := strings.Split(string(raw), "\x00")
		if slices.ContainsFunc(marks, func(m string) bool { return !slices.Contains(env, m) }) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// PlaceOf is where a task of the default project stands.
func PlaceOf(ctx context.Context, cl *client.Client, task string) (*api.Placement, error) {
	t, err := client.Get[*api.TrainingTask](ctx, cl, api.DefaultProject, task)
	if err != nil {
		return nil, err
	}
	return client.Get[*api.Placement](ctx, cl, api.DefaultProject, t.Meta.ID)
}
