// Package flock waits for locks of files, for a given time.
//
// Place: layer 4, below depot and rootfs, whose launchers share folders of a node. Promise: who gives up waiting holds nothing more than before.
// Enemies: a lock that its holder never lets go of.
package flock

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// pause is between two tries: the kernel wakes nobody who can also be told to stop.
const pause = 50 * time.Millisecond

// Take waits for a lock until ctx ends; how is unix.LOCK_SH or unix.LOCK_EX.
func Take(ctx context.Context, file *os.File, how int) error {
	for {
		err := unix.Flock(int(file.Fd()), how|unix.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}
