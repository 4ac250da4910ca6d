package endpoint

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	maxTargets = 64
	maxFile    = 64 << 10
)

// Place is where a server is.
type Place struct {
	Network, Address string            // as net.Dial wants them
	pin              ed25519.PublicKey // nil: it is no TLS
}

// Split reads a target: "unix:///run/link.sock", "tls://10.0.0.7:7072#PIN", or "10.0.0.7:7072" for who dials by himself.
func Split(text string) (Place, error) {
	if p, ok := strings.CutPrefix(text, "unix://"); ok && strings.HasPrefix(p, "/") {
		return Place{Network: "unix", Address: p}, nil
	}
	t := Place{Network: "tcp", Address: text}
	if rest, ok := strings.CutPrefix(text, "tls://"); ok {
		address, pin, _ := strings.Cut(rest, "#")
		raw, err := base64.RawURLEncoding.DecodeString(pin)
		if err != nil || len(raw) != ed25519.PublicKeySize {
			return Place{}, fmt.Errorf("%q does not say whose key to expect", text)
		}
		t.Address, t.pin = address, raw
	}
	host, port, ok := strings.Cut(t.Address, ":")
	if i := strings.LastIndexByte(t.Address, ':'); ok && strings.HasPrefix(t.Address, "[") {
		host, port = t.Address[:i], t.Address[i+1:]
	}
	if !ok || host == "" || strings.ContainsAny(t.Address, "/ \t#") {
		return Place{}, fmt.Errorf("%q is no target", text)
	}
	if n, err := strconv.ParseUint(port, 10, 31); err != nil || strconv.FormatUint(n, 10) != port {
		return Place{}, fmt.Errorf("%q has no port", text)
	}
	return t, nil
}

// Parse reads one target a line, as Split does; blank lines and those that begin with # are skipped, as is whatever is no target.
func Parse(data []byte) []string {
	var list []string
	for line := range bytes.Lines(data) {
		s := strings.TrimSpace(string(line))
		if s == "" || s[0] == '#' {
			continue
		}
		if _, err := Split(s); err == nil && len(list) < maxTargets {
			list = append(list, s)
		}
	}
	return list
}

// Read reads the file of targets; a server that comes or goes rewrites it.
func Read(file string) ([]string, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile))
	return Parse(data), err
}

// Set has the file hold these targets and no others. For a file that one server alone writes.
func Set(file string, targets []string) error { return write(file, targets) }

func write(file string, lines []string) error {
	tmp := file + ".new"
	if err := os.WriteFile(tmp, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, file)
}

// Add puts a target into the file once, in the place of an old one, "" for none; other servers of this machine do the same.
func Add(file, old, target string) error {
	lock, err := os.OpenFile(file+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return err
	}
	had, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	lines := strings.Fields(string(had))
	if old == target || old == "" {
		if slices.Contains(lines, target) {
			return nil
		}
	} else {
		lines = slices.DeleteFunc(lines, func(l string) bool { return l == old || l == target })
	}
	return write(file, append(lines, target))
}
