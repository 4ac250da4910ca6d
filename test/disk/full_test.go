package disk

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/test/harness"
)

// TestFull: a task that fills the data disk is ended by name and others go on; on a disk that somebody else filled, stop,
// delete and cordon work, what is refused is audited, and a server starts.
func TestFull(t *testing.T) {
	w := newWorld(t, memory(t, "size=600m,mode=0700"))
	w.up()
	w.submit(shell("calm", "sleep 10000"))
	w.submit(shell("second", "sleep 10000"))
	w.phase("calm", api.PhaseRunning)
	w.phase("second", api.PhaseRunning)
	w.submit(shell("runaway", `i=0; while :; do head -c 33554432 /dev/zero > f$i || sleep 0.05; i=$((i+1)); done`))
	failed := w.phase("runaway", api.PhaseFailed)
	if failed.Status.Failure == nil || failed.Status.Failure.Reason != "DiskLimitExceeded" || !strings.Contains(failed.Status.Message.EN, "disk") {
		t.Errorf("%+v", failed.Status)
	}
	harness.Eventually(t, "the disk is well again", func() bool { return strings.Contains(w.ready(), `"code":200`) })
	w.phase("calm", api.PhaseRunning)

	junk := filepath.Join(w.Dir, "junk")
	fill(t, junk)
	harness.Eventually(t, "readyz says so", func() bool { return strings.Contains(w.ready(), `"reason":"DiskFull"`) })
	harness.Eventually(t, "why says so", func() bool {
		why, err := w.api.Why(t.Context(), "default", "calm")
		return err == nil && strings.Contains(fmt.Sprint(why), "almost full")
	})
	if _, err := w.api.Submit(t.Context(), shell("late", "true"), false); err == nil {
		t.Error("a submit on a full disk was taken")
	}
	if err := w.api.Stop(t.Context(), "default", "calm"); err != nil {
		t.Fatal("stop:", err)
	}
	w.phase("calm", api.PhaseStopped)
	nodes, err := w.api.List(t.Context(), api.KindNode, client.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.api.NodeVerb(t.Context(), "cordon", nodes.Items[0].GetMeta().Name, -1); err != nil {
		t.Fatal("cordon:", err)
	}
	if err := w.api.Delete(t.Context(), api.KindTrainingTask, "default", "runaway"); err != nil {
		t.Fatal("delete:", err)
	}
	w.gone("runaway")
	// A server that ends on a full disk starts there, and does what it must.
	if err := w.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := w.Spawn(); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "it starts on a full disk", func() bool { return strings.Contains(w.ready(), `"reason":"DiskFull"`) })
	if err := w.api.Delete(t.Context(), api.KindTrainingTask, "default", "second"); err != nil {
		t.Fatal("delete after a start:", err)
	}
	w.gone("second")
	if err := os.Remove(junk); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the disk is well again", func() bool { return strings.Contains(w.ready(), `"code":200`) })
	harness.Eventually(t, "what was refused is in the audit", func() bool {
		rows, err := w.api.Audit(t.Context(), client.AuditOptions{})
		return err == nil && strings.Contains(fmt.Sprint(rows), "DiskFull")
	})
}

// TestFullHome: an environment that fills the data disk with its home is ended by name, and others go on.
func TestFullHome(t *testing.T) {
	w := newWorld(t, memory(t, "size=600m,mode=0700"))
	w.up()
	w.submit(shell("calm", "sleep 10000"))
	w.phase("calm", api.PhaseRunning)
	if out, err := w.fermi("env", "create", "idle", "--cpu", "100m"); err != nil {
		t.Fatal(out, err)
	}
	if out, err := w.fermi("env", "create", "greedy", "--cpu", "100m", "--", "sh", "-c", `cd; i=0; while :; do head -c 33554432 /dev/zero > f$i || sleep 0.05; i=$((i+1)); done`); err != nil {
		t.Fatal(out, err)
	}
	said := ""
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(said)
		}
	})
	harness.Eventually(t, "it is ended", func() bool {
		said, _ = w.fermi("env", "get", "greedy", "-o", "json")
		return strings.Contains(said, `"phase": "Failed"`) && strings.Contains(said, "DiskLimitExceeded")
	})
	if !strings.Contains(said, "spec.storage") {
		t.Errorf("nothing says what to do: %s", said)
	}
	w.phase("calm", api.PhaseRunning)
	if out, err := w.fermi("env", "stop", "idle"); err != nil {
		t.Error("stop on a full disk:", out, err)
	}
	if out, err := w.fermi("env", "delete", "greedy", "--yes"); err != nil {
		t.Fatal(out, err)
	}
	harness.Eventually(t, "the disk is well again", func() bool { return strings.Contains(w.ready(), `"code":200`) })
}

// TestNames: a task that makes files until there are no names left is ended, and stop and delete work meanwhile.
func TestNames(t *testing.T) {
	w := newWorld(t, memory(t, "size=600m,mode=0700,nr_inodes=8000"))
	w.up()
	w.submit(shell("calm", "sleep 10000"))
	w.phase("calm", api.PhaseRunning)
	w.submit(shell("many", `i=0; while :; do true > f$i || sleep 0.05; i=$((i+1)); done`))
	failed := w.phase("many", api.PhaseFailed)
	if failed.Status.Failure == nil || failed.Status.Failure.Reason != "DiskLimitExceeded" {
		t.Errorf("%+v", failed.Status)
	}
	harness.Eventually(t, "there are names again", func() bool { return strings.Contains(w.ready(), `"code":200`) })
	names := filepath.Join(w.Dir, "names")
	if err := os.Mkdir(names, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := 0; os.WriteFile(filepath.Join(names, fmt.Sprint(i)), nil, 0o600) == nil; i++ {
	}
	harness.Eventually(t, "readyz says so", func() bool { return strings.Contains(w.ready(), `"reason":"NamesExhausted"`) })
	if err := w.api.Stop(t.Context(), "default", "calm"); err != nil {
		t.Fatal("stop:", err)
	}
	w.phase("calm", api.PhaseStopped)
	if err := w.api.Delete(t.Context(), api.KindTrainingTask, "default", "many"); err != nil {
		t.Fatal("delete:", err)
	}
	w.gone("many")
}

// TestFailing: an I/O error is named, whether the server still stands or ends of it, and nothing acknowledged is lost.
func TestFailing(t *testing.T) {
	var disk string
	w := newWorld(t, func(dir string) {
		disk = dir
		image := dir + ".img"
		f, err := os.Create(image)
		if err == nil {
			err = f.Truncate(512 << 20)
			f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, cmd := range [][]string{{"mkfs.ext4", "-q", "-F", image}, {"mount", "-o", "loop", image, dir}} {
			if out, err := exec.Command(cmd[0], cmd[1:]...).CombinedOutput(); err != nil {
				t.Skipf("%v: %v %s", cmd, err, out)
			}
		}
	})
	w.up()
	w.submit(shell("kept", "echo done > $FERMI_OUTPUT/f"))
	w.phase("kept", api.PhaseCompleted)
	f, err := os.Open(disk)
	if err != nil {
		t.Fatal(err)
	}
	const shutdown = 0x8004587d // FS_IOC_SHUTDOWN: from now on everything is EIO, as after an error of the disk
	if err := unix.IoctlSetPointerInt(int(f.Fd()), shutdown, 1); err != nil {
		t.Skip("this kernel does not shut a file system down:", err)
	}
	f.Close()
	said := func() bool {
		return strings.Contains(w.ready(), `"reason":"DiskFailing"`) || strings.Contains(w.LogTail(), "DiskFailing") || strings.Contains(w.LogTail(), "reports errors")
	}
	harness.Eventually(t, "the error has a name", said)
	w.Kill()
	harness.KillMarked(w.Dir) // a launcher that still ends holds the disk in its own namespace
	harness.Eventually(t, "the disk is let go", func() bool { return syscall.Unmount(disk, 0) == nil })
	harness.Eventually(t, "it is mounted anew", func() bool {
		if exec.Command("mount", "-o", "loop", disk+".img", disk).Run() != nil {
			return false
		}
		if os.WriteFile(filepath.Join(disk, "works"), nil, 0o600) == nil {
			return true
		}
		_ = syscall.Unmount(disk, 0) // still the one that was shut down
		return false
	})
	w.up()
	w.phase("kept", api.PhaseCompleted)
	if got, err := w.output(t.Context(), "kept", "worker-0/f"); err != nil || string(got) != "done\n" {
		t.Errorf("%q %v", got, err)
	}
}
