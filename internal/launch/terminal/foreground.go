package terminal

import (
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/launch/inside"
	"github.com/fermi-cluster/fermi/internal/launch/process"
)

// nameOf is the program that a session is for; "": a shell to type at, or one that carries files and rests between them.
func nameOf(what inside.Shell) string {
	if len(what.Args) > 1 && what.Args[len(what.Args)-1] == "sftp-server" && path.Base(what.Args[0]) == "fermi" {
		return ""
	}
	if what.TTY && len(what.Args) > 0 && strings.HasPrefix(what.Args[0], "-") {
		return ""
	}
	return path.Base(what.File)
}

// foreground is the program before the shell; "": the shell itself waits to be typed at, or it has ended.
func (s *session) foreground() string {
	if ended, _, _, _ := s.state(); ended {
		return ""
	}
	if !s.tty {
		return s.name
	}
	raw, err := s.in.SyscallConn()
	if err != nil {
		return ""
	}
	var group, leader int
	err = raw.Control(func(fd uintptr) {
		if group, err = unix.IoctlGetInt(int(fd), unix.TIOCGPGRP); err == nil {
			leader, err = unix.IoctlGetInt(int(fd), unix.TIOCGSID)
		}
	})
	if err != nil || group <= 0 || group == leader {
		return s.name
	}
	name, err := process.ReadProc(group, "comm")
	if name = strings.TrimSpace(name); err != nil || name == "" { // it has ended, and others of its group go on
		return strconv.Itoa(group)
	}
	return name
}

// notice prints a line for whoever looks at the terminal.
func (s *session) notice(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.tty || s.exit != nil || s.closed {
		return
	}
	s.ring.add([]byte("\r\n\a"+strings.ReplaceAll(text, "\n", "\r\n")+"\r\n"), false)
	s.news.Broadcast()
}
