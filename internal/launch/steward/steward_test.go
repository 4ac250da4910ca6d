package steward

import (
	"encoding/binary"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/launch/deed"
)

// hostile is a helper that the tenant has taken over: it agrees to a second lane and then says what the test wants.
func hostile(t *testing.T, say func(c *net.UnixConn)) (*Steward, *atomic.Int32) {
	t.Helper()
	var starts atomic.Int32
	s := New(func() (*Helper, error) {
		starts.Add(1)
		ours, theirs, err := Pair()
		if err != nil {
			return nil, err
		}
		conn, err := net.FileConn(theirs)
		theirs.Close()
		if err != nil {
			return nil, err
		}
		far := conn.(*net.UnixConn)
		go func() {
			buf, oob := make([]byte, 64<<10), make([]byte, deed.OOB)
			_, oobn, _, _, err := far.ReadMsgUnix(buf, oob)
			if err != nil {
				return
			}
			lane, _ := deed.Files(oob[:oobn])
			frame, _ := deed.Frame(deed.Answer{})
			_, _ = far.Write(frame)
			for _, f := range lane {
				conn, err := net.FileConn(f)
				f.Close()
				if err != nil {
					return
				}
				c := conn.(*net.UnixConn)
				go func() {
					for {
						if _, _, _, _, err := c.ReadMsgUnix(buf, oob); err != nil {
							return
						}
						say(c)
					}
				}()
			}
		}()
		return &Helper{Conn: ours, Kill: func() { far.Close() }}, nil
	})
	s.patience = 2 * time.Second // a busy machine takes its time to agree to a lane
	t.Cleanup(s.Close)
	return s, &starts
}

func answer(c *net.UnixConn, a deed.Answer, descriptors ...int) {
	frame, _ := deed.Frame(a)
	var oob []byte
	if len(descriptors) > 0 {
		oob = syscall.UnixRights(descriptors...)
	}
	_, _, _ = c.WriteMsgUnix(frame, oob, nil)
}

// TestHostileAnswers: what comes from a process of the tenant's uid is bounded and checked; none of it is believed.
func TestHostileAnswers(t *testing.T) {
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	fifo, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer fifo.Close()
	long := strings.Repeat("x", deed.MaxPath+1)
	aFolder, aPipe := int(dir.Fd()), int(fifo.Fd()) // asked for here: who answers may outlive its test
	for name, say := range map[string]func(c *net.UnixConn){
		"a folder for a file": func(c *net.UnixConn) { answer(c, deed.Answer{Errnos: []syscall.Errno{0}}, aFolder) },
		"a pipe for a file":   func(c *net.UnixConn) { answer(c, deed.Answer{Errnos: []syscall.Errno{0}}, aPipe) },
		"no file":             func(c *net.UnixConn) { answer(c, deed.Answer{Errnos: []syscall.Errno{0}}) },
		"too many files":      func(c *net.UnixConn) { answer(c, deed.Answer{Errnos: []syscall.Errno{0}}, aFolder, aFolder, aFolder) },
		"no word of it":       func(c *net.UnixConn) { answer(c, deed.Answer{}) },
		"words of others":     func(c *net.UnixConn) { answer(c, deed.Answer{Errnos: []syscall.Errno{2, 2, 2}}) },
		"a name too long": func(c *net.UnixConn) {
			answer(c, deed.Answer{Entry: &deed.Entry{Name: []byte(long)}, Errnos: []syscall.Errno{2}})
		},
		"parts unasked": func(c *net.UnixConn) { answer(c, deed.Answer{More: true}) },
		"no JSON": func(c *net.UnixConn) {
			_, _ = c.Write([]byte("\x04\x00\x00\x00null"))
			_, _ = c.Write([]byte("\x02\x00\x00\x00{]"))
		},
		"a frame too long": func(c *net.UnixConn) { _, _ = c.Write(binary.LittleEndian.AppendUint32(nil, deed.MaxFrame+1)) },
		"the end":          func(c *net.UnixConn) { _ = c.Close() },
		"nothing":          func(*net.UnixConn) {},
	} {
		t.Run(name, func(t *testing.T) {
			s, starts := hostile(t, say)
			f, err := s.In("/somewhere").Open("file")
			if err == nil || f != nil {
				t.Fatal(f, err)
			}
			if name == "nothing" && !errors.Is(err, ErrStuck) {
				t.Error(err)
			}
			if n := starts.Load(); n > 2 {
				t.Errorf("started %d times", n)
			}
		})
	}
	s, _ := hostile(t, func(c *net.UnixConn) { // a walk without end
		for answerOK := true; answerOK; {
			frame, _ := deed.Frame(deed.Answer{More: true, Entries: []deed.Entry{{Name: []byte("x")}}})
			_, err := c.Write(frame)
			answerOK = err == nil
		}
	})
	if _, err := s.In("/somewhere").Walk(100, func(string, os.FileInfo) {}); err == nil {
		t.Error("a walk without end has one")
	}
}

// TestOwn: without a tenant the same is done by ourselves.
func TestOwn(t *testing.T) {
	s, dir := New(nil), t.TempDir()
	in := s.In(dir)
	f, err := in.OpenFile("a/b/c", os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString("text")
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	if err := in.Rename("a/b/c", "d"); err != nil {
		t.Fatal(err)
	}
	if data, err := s.Text(filepath.Join(dir, "d"), 3); err != nil || string(data) != "tex" {
		t.Errorf("%q %v", data, err)
	}
	if list, err := in.List(".", 10); err != nil || len(list) != 2 {
		t.Error(list, err)
	}
	if i, err := in.Lstat("d"); err != nil || i.Size() != 4 || i.Name() != "d" {
		t.Error(i, err)
	}
	if err := in.Below("x/y").Make(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(in.Remove("d", "none"), in.RemoveAll("a"), in.RemoveAll("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Open("d"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
