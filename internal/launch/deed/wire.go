package deed

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"syscall"
)

// A frame is four bytes of length, the least first, and so many bytes of JSON; descriptors come with its first byte.
const (
	frameHead = 4
	// MaxFrame bounds a frame: a folder of MaxEntries with usual names.
	MaxFrame = 64 << 20
)

// Frame is a value as it goes over the wire.
func Frame(v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	if len(body) > MaxFrame {
		return nil, errors.New("too long for a frame")
	}
	n := len(body)
	return append([]byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)}, body...), nil
}

// Length is what the head of a frame says.
func Length(head []byte) (int, error) {
	n := int(head[0]) | int(head[1])<<8 | int(head[2])<<16 | int(head[3])<<24
	if n < 0 || n > MaxFrame {
		return 0, errors.New("a frame that is too long")
	}
	return n, nil
}

// OOB is the room that the descriptors of a frame take.
var OOB = syscall.CmsgSpace(4 * MaxNames)

// Files are the descriptors of a control message.
func Files(oob []byte) ([]*os.File, error) {
	messages, err := syscall.ParseSocketControlMessage(oob)
	var files []*os.File
	for i := range messages {
		fds, e := syscall.ParseUnixRights(&messages[i])
		if e != nil && err == nil {
			err = e
		}
		for _, fd := range fds {
			syscall.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "deed"))
		}
	}
	return files, err
}

// argv0 of the process that serves.
const Argv0 = "fermi-steward"

// The process that has become the tenant. See doc.go for why this is in an init.
func init() {
	if len(os.Args) == 1 && os.Args[0] == Argv0 {
		harden()
		serve(0)
		syscall.Exit(0) // not os.Exit, which waits a second under the race detector
	}
}

// harden keeps others of the same uid out of this process: no tracing, no core.
func harden() {
	const prSetDumpable = 4
	syscall.RawSyscall(syscall.SYS_PRCTL, prSetDumpable, 0, 0)
	_ = syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{})
}

// serve answers on a socket until its other end is closed.
func serve(fd int) {
	defer syscall.Close(fd)
	for {
		var r Request
		files, err := receive(fd, &r)
		if err != nil {
			return
		}
		if r.Op == OpLane && len(files) == 1 {
			lane, err := syscall.Dup(int(files[0].Fd()))
			if err == nil {
				syscall.CloseOnExec(lane)
				_ = syscall.SetNonblock(lane, false)
				go serve(lane)
			}
			closeAll(files)
			if send(fd, Answer{Errno: errnoOf(err)}, nil) != nil {
				return
			}
			continue
		}
		closeAll(files)
		a, out := Do(r, func(part Answer) error { return send(fd, part, nil) })
		err = send(fd, a, out)
		closeAll(out)
		if err != nil {
			return
		}
	}
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

func receive(fd int, v any) ([]*os.File, error) {
	const msgCloexec = 0x40000000 // MSG_CMSG_CLOEXEC
	head, oob := make([]byte, frameHead), make([]byte, OOB)
	var n, oobn int
	for {
		var err error
		if n, oobn, _, _, err = syscall.Recvmsg(fd, head, oob, msgCloexec); errors.Is(err, syscall.EINTR) {
			continue
		} else if err != nil {
			return nil, err
		}
		break
	}
	if n == 0 {
		return nil, io.EOF
	}
	files, err := Files(oob[:oobn])
	if err == nil {
		err = readFull(fd, head[n:])
	}
	var length int
	if err == nil {
		length, err = Length(head)
	}
	if err == nil {
		body := make([]byte, length)
		if err = readFull(fd, body); err == nil {
			err = json.Unmarshal(body, v)
		}
	}
	if err != nil {
		closeAll(files)
		return nil, err
	}
	return files, nil
}

func readFull(fd int, p []byte) error {
	for len(p) > 0 {
		n, err := syscall.Read(fd, p)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return err
		case n == 0:
			return io.ErrUnexpectedEOF
		}
		p = p[n:]
	}
	return nil
}

func send(fd int, v any, files []*os.File) error {
	frame, err := Frame(v)
	if err != nil {
		return err
	}
	var oob []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		oob = syscall.UnixRights(fds...)
	}
	for len(frame) > 0 {
		n, err := syscall.SendmsgN(fd, frame, oob, nil, syscall.MSG_NOSIGNAL)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return err
		}
		frame, oob = frame[n:], nil
	}
	return nil
}
