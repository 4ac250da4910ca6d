package process

import (
	"io"
	"net"
	"os"
	"os/exec"
	"testing"
)

// TestSever: both ends see their connection end; the port it listens on stays open.
func TestSever(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ours, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	theirs, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sleep", "1000")
	cmd.ExtraFiles = []*os.File{fileOf(t, theirs), fileOf(t, listener)}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	if err := theirs.Close(); err != nil { // it is the process's alone
		t.Fatal(err)
	}
	if n, err := Sever(cmd.Process.Pid); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	if n, err := ours.Read(make([]byte, 1)); err != io.EOF {
		t.Error(n, err)
	}
	again, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if n, err := Sever(cmd.Process.Pid); err != nil || n != 0 {
		t.Error("a connection was cut twice", n, err)
	}
	if _, err := Sever(os.Getpid() + 1<<22); err == nil {
		t.Error("a process that is not there was cut off")
	}
}

// fileOf gives a socket to another process; it is closed here with the test.
func fileOf(t *testing.T, of any) *os.File {
	t.Helper()
	f, err := of.(interface{ File() (*os.File, error) }).File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}
