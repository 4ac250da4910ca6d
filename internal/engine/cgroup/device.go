package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Device is a device file as the kernel knows it: a kind, and numbers. A minor of -1 is every one.
type Device struct {
	Block        bool
	Major, Minor int64
}

// usual are the pseudo devices that every program may expect: null, zero, full, random, urandom, tty,
// ptmx, and terminals of its own. Nothing with hardware behind it, and neither console nor fuse.
var usual = []Device{
	{Major: 1, Minor: 3}, {Major: 1, Minor: 5}, {Major: 1, Minor: 7}, {Major: 1, Minor: 8}, {Major: 1, Minor: 9},
	{Major: 5, Minor: 0}, {Major: 5, Minor: 2}, {Major: 136, Minor: -1},
}

// DevicesOf are the numbers of device files; what is no device file, or not there, is left out.
func DevicesOf(files []string) []Device {
	var out []Device
	for _, file := range files {
		var st unix.Stat_t
		if unix.Stat(file, &st) != nil {
			continue
		}
		kind := st.Mode & unix.S_IFMT
		if kind == unix.S_IFCHR || kind == unix.S_IFBLK {
			out = append(out, Device{kind == unix.S_IFBLK, int64(unix.Major(uint64(st.Rdev))), int64(unix.Minor(uint64(st.Rdev)))})
		}
	}
	return out
}

// String is the device in version 1's words, as "c 195:0".
func (d Device) String() string {
	kind, minor := "c", "*"
	if d.Block {
		kind = "b"
	}
	if d.Minor >= 0 {
		minor = strconv.FormatInt(d.Minor, 10)
	}
	return fmt.Sprintf("%s %d:%s", kind, d.Major, minor)
}

// rule closes every device to the members but the usual ones and these. A device file may be made by
// whoever may otherwise make one (an image's layers have some); to open it is what is refused.
func (g *Group) rule(open []Device) error {
	open = append(append([]Device(nil), usual...), open...)
	if g.Version == 2 {
		return attachRule(g.Paths[0], open)
	}
	for _, p := range g.Paths {
		if _, err := os.Stat(filepath.Join(p, "devices.deny")); err != nil {
			continue
		}
		if err := writeFile(filepath.Join(p, "devices.deny"), "a"); err != nil {
			return err
		}
		lines := []string{"c *:* m", "b *:* m"}
		for _, d := range open {
			lines = append(lines, d.String()+" rw")
		}
		for _, line := range lines {
			// One that is closed to ourselves stays closed to them.
			if err := writeFile(filepath.Join(p, "devices.allow"), line); err != nil && !errors.Is(err, unix.EPERM) {
				return fmt.Errorf("%s: %w", line, err)
			}
		}
		return nil
	}
	return errors.New("no devices controller")
}

// rules says whether a devices rule can be set here, by setting one.
func (s Support) rules() error {
	g, err := s.create(fmt.Sprintf("probe-%d", os.Getpid()), Limits{})
	if err != nil {
		return err
	}
	return errors.Join(g.rule(nil), g.Remove())
}
