package tunnel

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"

	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/ipc"
	"golang.zx2c4.com/wireguard/tun"
)

// CommandName is the one below `fermi agent` that calls Serve.
const CommandName = "tunnel"

// mostLines bounds the log of a process that lives as long as its machine.
const mostLines = 1000

// Serve is WireGuard where the kernel has none: it makes the interface and works until that is taken away or ctx ends. Agents configure it as they would the kernel's.
func Serve(ctx context.Context, log *slog.Logger) error {
	dev, err := tun.CreateTUN(Interface, mtu)
	if err != nil {
		return fmt.Errorf("make %s: %w", Interface, err)
	}
	socket, err := ipc.UAPIOpen(Interface)
	if err != nil {
		_ = dev.Close()
		return err
	}
	var lines atomic.Int64
	wg := device.NewDevice(dev, conn.NewDefaultBind(), &device.Logger{
		Verbosef: func(string, ...any) {},
		Errorf: func(format string, args ...any) {
			if lines.Add(1) <= mostLines {
				log.Warn("wireguard", "said", fmt.Sprintf(format, args...))
			}
		},
	})
	defer wg.Close()
	door, err := ipc.UAPIListen(Interface, socket)
	if err != nil {
		return err
	}
	defer door.Close()
	failed := make(chan error, 1)
	go func() { // ends with the door
		for {
			c, err := door.Accept()
			if err != nil {
				failed <- err
				return
			}
			go wg.IpcHandle(c)
		}
	}()
	select {
	case <-ctx.Done():
		return nil
	case <-wg.Wait():
		return nil
	case err := <-failed:
		return err
	}
}
