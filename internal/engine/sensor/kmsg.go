package sensor

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/api/v1/card"
	"github.com/fermi-cluster/fermi/internal/pattern"
)

// xidLine is "NVRM: Xid (PCI:0000:3b:00): 79, pid=…, GPU has fallen off the bus." as drivers have written it for ten years.
var xidLine = pattern.New(`^NVRM: Xid \((PCI:)?([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.[0-7])?\): ([0-9]{1,4})(?:,|$)(.*)$`)

// record is one of the kernel's log.
type record struct {
	sequence uint64
	since    time.Duration // since the kernel started
	text     string
}

// parseRecord reads "6,339,5140900,-;text". false: it is none, or not the kernel's own: what programs write into the log
// has another facility, and they can't choose the kernel's.
func parseRecord(line []byte) (record, bool) {
	head, text, ok := bytes.Cut(line, []byte{';'})
	fields := strings.Split(string(head), ",")
	if !ok || len(fields) < 3 {
		return record{}, false
	}
	priority, err1 := strconv.ParseUint(fields[0], 10, 16)
	sequence, err2 := strconv.ParseUint(fields[1], 10, 64)
	micros, err3 := strconv.ParseUint(fields[2], 10, 53)
	if err1 != nil || err2 != nil || err3 != nil || priority>>3 != 0 {
		return record{}, false
	}
	return record{sequence, time.Duration(micros) * time.Microsecond, string(text[:min(len(text), 2048)])}, true
}

// parseXid reads the record of a device's fault.
func parseXid(r record) (bus string, code int, text string, ok bool) {
	m := xidLine.FindStringSubmatch(r.text)
	if m == nil {
		return "", 0, "", false
	}
	code, err := strconv.Atoi(m[3])
	if err != nil || code == 0 {
		return "", 0, "", false
	}
	return strings.ToLower(m[2]), code, clean(m[4]), true
}

// Follow tells every line of the kernel's log about a device, from the oldest that there is on, until ctx ends. It returns
// nil where the log can't be read: then nothing is known from it.
func (s *Sensor) Follow(ctx context.Context, take func(card.KernelLine)) error {
	f, err := os.OpenFile(s.cfg.Kmsg, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		s.cfg.Log.Info("the kernel's log can't be read: device faults in it are not seen", "error", err)
		<-ctx.Done()
		return nil
	}
	defer f.Close()
	stop := context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	started := s.started()
	buffer := make([]byte, 16<<10) // a record is at most 8 KiB
	for ctx.Err() == nil {
		n, err := f.Read(buffer)
		switch {
		case errors.Is(err, unix.EPIPE): // records were overwritten before we came: the next read goes on after them
			continue
		case errors.Is(err, unix.EINVAL):
			continue
		case err != nil && ctx.Err() == nil:
			s.cfg.Log.Warn("the kernel's log can't be read any more: device faults in it are not seen", "error", err)
			<-ctx.Done()
			return nil
		}
		for line := range bytes.Lines(buffer[:max(n, 0)]) {
			r, ok := parseRecord(bytes.TrimRight(line, "\n"))
			if !ok {
				continue
			}
			if bus, code, text, ok := parseXid(r); ok {
				take(card.KernelLine{Boot: s.cfg.Boot, Sequence: r.sequence, At: started.Add(r.since).UTC(), Bus: bus, Xid: code, Text: text})
			}
		}
	}
	return nil
}

// started is when the kernel's clock began.
func (s *Sensor) started() time.Time {
	var up unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &up) != nil {
		return s.cfg.Clock.Now()
	}
	return s.cfg.Clock.Now().Add(-time.Duration(up.Nano()))
}
