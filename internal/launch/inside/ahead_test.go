package inside

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestReady: a process 1 that waits is taken; one that died while it waited, or that is old, is replaced; none is left.
func TestReady(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("walls are root's to build")
	}
	run := func(r *Ready) string {
		t.Helper()
		out, give, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		null, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		defer null.Close()
		tmp := t.TempDir()
		tree, err := Start(r, Wall{UID: 65534, GID: 65534, Tmp: tmp, VarTmp: tmp}, Command{
			Args: []string{"echo", "here"}, File: "/bin/echo", Each: [][]string{nil, nil}, Dir: "/",
		}, null.Fd(), []Pipes{{give.Fd(), give.Fd()}, {give.Fd(), give.Fd()}})
		_ = give.Close()
		if err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		for buf := make([]byte, 64); ; {
			n, err := out.Read(buf)
			said.Write(buf[:n])
			if err != nil {
				break
			}
		}
		if _, err := syscall.Wait4(tree.PID, nil, 0, nil); err != nil {
			t.Error(err)
		}
		return said.String()
	}
	const want = "here\nhere\n"
	r := GetReady(3, "mark", "")
	<-r.made
	first, second := r.list[0].pid, r.list[1].pid
	if got := run(r); got != want || len(r.list) != 2 {
		t.Errorf("%q, %d wait", got, len(r.list))
	}
	if err := syscall.Kill(second, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if got := run(r); got != want || len(r.list) != 1 {
		t.Errorf("after its death: %q, %d wait", got, len(r.list))
	}
	third := r.list[0].pid
	r.fresh = time.Now().Add(-time.Second)
	if got := run(r); got != want || len(r.list) != 0 {
		t.Errorf("when it is old: %q, %d wait", got, len(r.list))
	}
	r.Drop()
	for _, pid := range []int{first, second, third} {
		if err := syscall.Kill(pid, 0); err == nil {
			t.Errorf("process %d is left", pid)
		}
	}
}

// TestManyFiles: more descriptors than one message takes.
func TestManyFiles(t *testing.T) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(pair[0])
	defer syscall.Close(pair[1])
	files := make([]int, 2*filesAtOnce+1)
	if err := sendFiles(pair[0], files); err != nil {
		t.Fatal(err)
	}
	got, err := receiveFiles(pair[1])
	for _, fd := range got {
		_ = syscall.Close(fd)
	}
	if err != nil || len(got) != len(files) {
		t.Error(len(got), err)
	}
	_ = syscall.Shutdown(pair[0], syscall.SHUT_WR)
	if _, err := receiveFiles(pair[1]); err == nil {
		t.Error("an end was taken for files")
	}
}
