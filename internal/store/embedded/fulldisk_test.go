package embedded

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
)

const fillEnv = "FERMI_TEST_FILL"

func TestMain(m *testing.M) {
	if dir := os.Getenv(fillEnv); dir != "" {
		fill(dir)
		return
	}
	os.Exit(m.Run())
}

// fill is a process of its own, because what etcd leaves behind when it dies ends only with the
// process. It writes until etcd dies and prints every acknowledged key.
func fill(dir string) {
	s, err := Start(context.Background(), Config{Dir: dir})
	if err != nil {
		fmt.Println("start", err)
		return
	}
	go func() {
		value := strings.Repeat("x", 64<<10)
		for i := 0; ; i++ {
			key := fmt.Sprintf("/k/%06d", i)
			if _, err := s.Client().Put(context.Background(), key, value); err == nil {
				fmt.Println("acknowledged", key)
			}
		}
	}()
	err = <-s.Err()
	fmt.Println("died", fault.ReasonOf(err), fault.CodeOf(err))
	s.Close() // must return although nothing can be closed any more
	fmt.Println("closed")
}

func TestFullDiskLosesNothing(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("a small file system can only be mounted as root; the store's own check of free space is tested with the store")
	}
	mount, err := os.MkdirTemp("/tmp", "f")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(mount) })
	if err := syscall.Mount("tmpfs", mount, "tmpfs", 0, "size=80m"); err != nil {
		t.Skipf("no mount here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(mount, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	dir := filepath.Join(mount, "e")
	acknowledged, died := runFill(t, dir)
	if died != "died DiskFull Full" {
		t.Fatalf("the end was %q after %d writes", died, len(acknowledged))
	}
	if len(acknowledged) == 0 {
		t.Fatal("nothing was written")
	}
	if err := syscall.Mount("tmpfs", mount, "tmpfs", syscall.MS_REMOUNT, "size=256m"); err != nil {
		t.Fatal(err)
	}
	s := begin(t, dir)
	got := all(t, s.Client())
	for _, key := range acknowledged {
		if _, ok := got[key]; !ok {
			t.Errorf("%s was acknowledged and is gone", key)
		}
	}
	put(t, s.Client(), "/after", "works")
	t.Logf("%d acknowledged, %d found", len(acknowledged), len(got))
}

func runFill(t *testing.T, dir string) (acknowledged []string, died string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), fillEnv+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	closed := false
	for sc := bufio.NewScanner(out); sc.Scan(); {
		line := sc.Text()
		switch key, ok := strings.CutPrefix(line, "acknowledged "); {
		case ok:
			acknowledged = append(acknowledged, key)
		case line == "closed":
			closed = true
		default:
			died = line
		}
	}
	if err := cmd.Wait(); err != nil || !closed {
		t.Fatalf("the filling process: %v, closed %v, last word %q", err, closed, died)
	}
	return acknowledged, died
}
