package cgroup

import (
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestGuest: who is inside a group is under it, and neither listed nor killed with it.
func TestGuest(t *testing.T) {
	for name, s := range supports(t) {
		t.Run(name, func(t *testing.T) {
			host := newGroup(t, s, Limits{})
			own := start(t, host, "/bin/sleep", "1000")
			guest, err := host.Guest("guest-1")
			if err != nil {
				t.Fatal(err)
			}
			inside := start(t, guest, "/bin/sleep", "1000")
			if pids, err := host.Pids(); err != nil || !slices.Equal(pids, []int{own}) {
				t.Errorf("the host has %v, %v; want %d", pids, err, own)
			}
			if pids, err := guest.Pids(); err != nil || !slices.Equal(pids, []int{inside}) {
				t.Errorf("the guest has %v, %v; want %d", pids, err, inside)
			}
			dir := t.TempDir()
			if err := guest.Save(dir); err != nil {
				t.Fatal(err)
			}
			if loaded, err := Load(dir); err != nil || !slices.Equal(loaded.Paths, guest.Paths) {
				t.Errorf("%+v, %v", loaded, err)
			}
			end := func(g *Group, pid int) {
				eventually(t, "it was killed", func() bool {
					if err := g.Kill(syscall.SIGKILL); err != nil {
						t.Fatal(err)
					}
					_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
					pids, err := g.Pids()
					return err == nil && len(pids) == 0
				})
			}
			end(host, own)
			if err := unix.Kill(inside, 0); err != nil {
				t.Errorf("the guest was killed with its host: %v", err)
			}
			end(guest, inside)
			if _, err := host.Guest("../x"); err == nil {
				t.Error("a guest left its host")
			}
			if err := host.Remove(); err != nil { // with the guest's folder
				t.Error(err)
			}
			if err := guest.Remove(); err != nil {
				t.Error(err)
			}
			if _, err := host.Guest("late"); err == nil {
				t.Error("a host that is gone took a guest")
			}
		})
	}
}
