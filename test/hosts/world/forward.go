package world

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// way is one direction between two zones. Packets for the other zone come out of a TUN device of this one, wait here as long as the link says,
// and go into the other's.
//
// This kernel's way to do it, netem, may be missing, and would not be asked by packets within one zone's bridge alone.
type way struct {
	from, to *zone
	device   string
	file     *os.File
	now      atomic.Pointer[Link]
	shaped   atomic.Bool // the kernel bounds the rate
	watcher  atomic.Pointer[func(packet []byte)]
	done     sync.WaitGroup
}

const (
	mostWaiting = 1 << 14 // packets
	mostPacket  = 1 << 16
	queueFor    = 50 * time.Millisecond // what waits longer for a bounded rate is dropped
	leastBurst  = 64 << 10              // bytes
)

func connect(from, to *zone, l Link) (*way, error) {
	w := &way{from: from, to: to, device: "to-" + to.name}
	if err := from.space.Do(func() (err error) {
		if w.file, err = openTUN(w.device); err != nil {
			return err
		}
		dev, err := netlink.LinkByName(w.device)
		if err != nil {
			return err
		}
		if err := netlink.LinkSetUp(dev); err != nil {
			return err
		}
		return route(w.device, to.network(), netip.Addr{})
	}); err != nil {
		return nil, err
	}
	return w, w.set(l)
}

// openTUN makes a device in this thread's namespace. It is there as long as the file is open.
func openTUN(name string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("open /dev/net/tun", err)
	}
	req, err := unix.NewIfreq(name)
	if err == nil {
		req.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, req)
	}
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), name), nil // it can be polled, so Close wakes a reader
}

// set changes the link for packets that come from now on.
func (w *way) set(l Link) error {
	err := w.from.space.Do(func() error {
		dev, err := netlink.LinkByName(w.device)
		if err != nil {
			return err
		}
		root := netlink.QdiscAttrs{LinkIndex: dev.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT}
		if w.shaped.Load() {
			if err := netlink.QdiscDel(&netlink.Tbf{QdiscAttrs: root}); err != nil {
				return err
			}
			w.shaped.Store(false)
		}
		if l.Rate == 0 {
			return nil
		}
		burst := uint32(max(leastBurst, l.Rate/100))
		err = netlink.QdiscAdd(&netlink.Tbf{
			QdiscAttrs: root, Rate: uint64(l.Rate), Buffer: netlink.Xmittime(uint64(l.Rate), burst),
			Limit: burst + uint32(float64(l.Rate)*queueFor.Seconds()),
		})
		w.shaped.Store(err == nil)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) {
			return nil // a kernel without it: the forwarder does it
		}
		return err
	})
	w.now.Store(&l)
	return err
}

type packet struct {
	due  time.Time
	data []byte
}

// run forwards to the other zone's device until the way is closed.
func (w *way) run(to *os.File) {
	queue := make(chan packet, mostWaiting)
	w.done.Go(func() {
		defer close(queue)
		w.read(queue)
	})
	w.done.Go(func() { deliver(queue, to) })
}

// read says when each packet is due. A full queue drops, as a router's does.
func (w *way) read(queue chan<- packet) {
	buf := make([]byte, mostPacket)
	var last, free time.Time // when the packet before is due, and when the line is free again
	for {
		n, err := w.file.Read(buf)
		if err != nil {
			return
		}
		if watch := w.watcher.Load(); watch != nil {
			(*watch)(buf[:n])
		}
		l, now := w.now.Load(), time.Now()
		if l.Loss > 0 && rand.Float64() < l.Loss {
			continue
		}
		due := now
		if l.Rate > 0 && !w.shaped.Load() {
			if free.Sub(now) > queueFor {
				continue
			}
			if free.Before(now) {
				free = now
			}
			free = free.Add(time.Duration(float64(n) / float64(l.Rate) * float64(time.Second)))
			due = free
		}
		due = due.Add(l.RTT/2 + time.Duration((rand.Float64()-0.5)*float64(l.Jitter)))
		if due.Before(last) {
			due = last
		}
		last = due
		select {
		case queue <- packet{due, append([]byte(nil), buf[:n]...)}:
		default:
		}
	}
}

// deliver hands over each packet when it is due. It has a thread of its own and lets the kernel wake it: timers of the runtime come up to a
// millisecond late.
func deliver(queue <-chan packet, to *os.File) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for p := range queue {
		for left := time.Until(p.due); left > 0; left = time.Until(p.due) {
			wait := unix.NsecToTimespec(left.Nanoseconds())
			_ = unix.Nanosleep(&wait, nil) // an interrupted sleep goes on in the next round
		}
		if _, err := to.Write(p.data); errors.Is(err, os.ErrClosed) {
			for range queue { // nobody is there any more
			}
			return
		}
	}
}

func (w *way) close() {
	w.file.Close()
	w.done.Wait()
}
