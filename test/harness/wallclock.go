//go:build linux && amd64

package harness

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// WallClock is the wall clock of one running process, which can be set while all of its other clocks go on: what happens to every
// program of a machine whose clock an operator or a time server sets. The kernel's code that reads clocks is mapped into each
// process; it is replaced there by our own, which asks the kernel and adds so many seconds. The program itself is the shipped one.
type WallClock struct {
	pid int
	at  int64 // where the seconds stand in its memory
}

// reader asks the kernel for a clock; to the wall clock (0) it adds the seconds that stand behind it.
var reader = []byte{
	0xb8, 228, 0, 0, 0, // mov eax, clock_gettime
	0x0f, 0x05, // syscall
	0x85, 0xff, // test edi, edi
	0x75, 0x0a, // jne ret
	0x48, 0x8b, 0x0d, 6, 0, 0, 0, // mov rcx, [seconds]
	0x48, 0x01, 0x0e, // add [rsi], rcx
	0xc3,       // ret
	0x90, 0x90, // so that the seconds are aligned
}

// WallClockOf takes over the wall clock of a process. The error says why that can't be done here.
func WallClockOf(pid int) (*WallClock, error) {
	low, high, err := vdsoOf(pid)
	if err != nil {
		return nil, err
	}
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer mem.Close()
	image := make([]byte, high-low)
	if _, err := mem.ReadAt(image, low); err != nil {
		return nil, err
	}
	at, size, err := symbolIn(image, "__vdso_clock_gettime")
	if err != nil || size < uint64(len(reader)+8) {
		return nil, fmt.Errorf("the kernel's clock_gettime has %d bytes: %w", size, err)
	}
	out := &WallClock{pid, low + int64(at) + int64(len(reader))}
	if bytes.HasPrefix(image[at:], reader) {
		return out, nil // it was taken over before
	}
	deadline := time.Now().Add(Patience)
	for {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			return nil, err
		}
		free, err := isOutside(pid, low, high)
		if err == nil && free {
			_, err = mem.WriteAt(append(bytes.Clone(reader), make([]byte, 8)...), low+int64(at))
		}
		if err := errors.Join(err, syscall.Kill(pid, syscall.SIGCONT)); err != nil || free {
			return out, err
		}
		if time.Now().After(deadline) {
			return nil, errors.New("it never stops outside the code that reads clocks")
		}
		time.Sleep(time.Millisecond)
	}
}

// Set moves the wall clock to so much beside the machine's.
func (c *WallClock) Set(off time.Duration) error {
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", c.pid), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer mem.Close()
	_, err = mem.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(int64(off/time.Second))), c.at)
	return err
}

func vdsoOf(pid int) (low, high int64, err error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(raw)) {
		if strings.HasSuffix(strings.TrimSpace(line), "[vdso]") {
			_, err := fmt.Sscanf(line, "%x-%x", &low, &high)
			return low, high, err
		}
	}
	return 0, 0, errors.New("the process has no code of the kernel")
}

func symbolIn(image []byte, name string) (at, size uint64, err error) {
	f, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return 0, 0, err
	}
	list, err := f.DynamicSymbols()
	for _, s := range list {
		if s.Name == name {
			return s.Value, s.Size, nil
		}
	}
	return 0, 0, errors.Join(err, errors.New("no "+name))
}

// isOutside waits until all threads of a process stand still, and says that none does so between these addresses.
func isOutside(pid int, low, high int64) (bool, error) {
	deadline := time.Now().Add(Patience)
	for {
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil {
			return false, err
		}
		stopped, outside := true, true
		for _, task := range tasks {
			dir := fmt.Sprintf("/proc/%d/task/%s/", pid, task.Name())
			stat, err := os.ReadFile(dir + "stat")
			if err != nil {
				continue // it has ended
			}
			_, rest, _ := strings.Cut(string(stat), ") ")
			stopped = stopped && strings.HasPrefix(rest, "T")
			where, err := os.ReadFile(dir + "syscall")
			if err != nil {
				return false, err
			}
			words := strings.Fields(string(where))
			pc, err := strconv.ParseUint(strings.TrimPrefix(words[len(words)-1], "0x"), 16, 64)
			outside = outside && err == nil && (int64(pc) < low || int64(pc) >= high)
		}
		if stopped {
			return outside, nil
		}
		if time.Now().After(deadline) {
			return false, errors.New("it does not stop")
		}
		time.Sleep(time.Millisecond)
	}
}
