package silence

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/test/harness"
)

// wire is the network between launchers and their server. A replica that is cut off hears nothing and nothing of it is heard; no
// connection is closed by that, as on a network that drops what it carries.
type wire struct {
	c  *harness.Cluster
	to string // the server's address

	mu    sync.Mutex
	moved *sync.Cond
	cut   map[string]bool // by replica
	open  map[net.Conn]bool
	over  bool
}

// stretch puts a wire between a far server and all launchers that are to come: they dial where the file of targets says.
func stretch(t *testing.T, c *harness.Cluster) *wire {
	t.Helper()
	file := filepath.Join(c.Dir, "link.remote")
	var address, pin string
	harness.Eventually(t, "the server says where launchers find it", func() bool {
		raw, _ := os.ReadFile(file)
		target, ok := strings.CutPrefix(strings.TrimSpace(string(raw)), "tls://")
		if ok {
			address, pin, ok = strings.Cut(target, "#")
		}
		return ok
	})
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err == nil {
		err = errors.Join(os.WriteFile(file+".wire", fmt.Appendf(nil, "tls://%s#%s\n", l.Addr(), pin), 0o600), os.Rename(file+".wire", file))
	}
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{c: c, to: address, cut: map[string]bool{}, open: map[net.Conn]bool{}}
	w.moved = sync.NewCond(&w.mu)
	var carried sync.WaitGroup
	carried.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			carried.Go(func() { w.carry(conn) })
		}
	})
	t.Cleanup(func() {
		w.mu.Lock()
		w.over = true
		w.moved.Broadcast()
		for conn := range w.open {
			_ = conn.Close()
		}
		w.mu.Unlock()
		_ = l.Close()
		carried.Wait()
	})
	return w
}

// pass waits while a replica is cut off; false: the wire is taken down.
func (w *wire) pass(replica string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.cut[replica] && !w.over {
		w.moved.Wait()
	}
	return !w.over
}

func (w *wire) set(replica string, cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut[replica] = cut
	w.moved.Broadcast()
}

// hold notes a connection, to be closed with the wire; false: it is taken down.
func (w *wire) hold(conn net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open[conn] = true
	return !w.over
}

func (w *wire) drop(conn net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.open, conn)
	_ = conn.Close()
}

// carry carries one connection of a launcher. Whose it is is known before the first byte passes.
func (w *wire) carry(near net.Conn) {
	defer w.drop(near)
	replica := w.whose(near)
	if !w.hold(near) || !w.pass(replica) {
		return
	}
	far, err := net.Dial("tcp", w.to)
	if err != nil {
		return
	}
	defer w.drop(far)
	if !w.hold(far) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { w.pump(far, near, replica) })
	both.Go(func() { w.pump(near, far, replica) })
	both.Wait()
}

// pump passes on what is read, and the end of it, while the replica is not cut off.
func (w *wire) pump(to, from net.Conn, replica string) {
	defer to.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if !w.pass(replica) {
			return
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				_ = from.Close()
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// whose finds the launcher at the other end of a connection; "": it has gone.
func (w *wire) whose(near net.Conn) string {
	at := near.RemoteAddr().(*net.TCPAddr)
	for _, s := range sockets("/proc/net/tcp") {
		if s.port != at.Port || s.state != established {
			continue
		}
		files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, file := range files {
			raw, _ := os.ReadFile(file)
			args := strings.Split(string(raw), "\x00")
			i := slices.Index(args, "--replica")
			if i < 0 || i+1 >= len(args) || !bytes.Contains(raw, []byte(w.c.Dir+"/")) {
				continue
			}
			if slices.Contains(inodes(filepath.Dir(file)), s.inode) {
				return args[i+1]
			}
		}
	}
	return ""
}

// socket is a line of the kernel's table.
type socket struct {
	port  int
	state string
	inode string
}

// The states.
const (
	established = "01"
	listening   = "0A"
)

func sockets(table string) (out []socket) {
	raw, _ := os.ReadFile(table)
	for line := range strings.Lines(string(raw)) {
		f := strings.Fields(line)
		if len(f) < 10 {
			continue
		}
		_, hex, _ := strings.Cut(f[1], ":")
		if port, err := strconv.ParseUint(hex, 16, 16); err == nil {
			out = append(out, socket{int(port), f[3], f[9]})
		}
	}
	return out
}

// inodes are those of a process's sockets.
func inodes(proc string) (out []string) {
	entries, _ := os.ReadDir(filepath.Join(proc, "fd"))
	for _, e := range entries {
		to, _ := os.Readlink(filepath.Join(proc, "fd", e.Name()))
		if inode, ok := strings.CutPrefix(to, "socket:["); ok {
			out = append(out, strings.TrimSuffix(inode, "]"))
		}
	}
	return out
}

// ports are those of a launcher on the machine's network: where its peers find it, and whence it speaks to them.
func ports(pid int) (out []uint16) {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	own := inodes(proc)
	for _, table := range []string{"tcp", "tcp6"} {
		for _, s := range sockets(filepath.Join(proc, "net", table)) {
			if (s.state == listening || s.state == established) && slices.Contains(own, s.inode) && !slices.Contains(out, uint16(s.port)) {
				out = append(out, uint16(s.port))
			}
		}
	}
	return out
}

// cutOff takes a replica off the network, alive as it is: its launcher's link, what launchers say to each other, and its interface.
func (w *world) cutOff(name string) {
	w.t.Helper()
	if w.wire == nil {
		w.t.Fatal("launchers of this world have no link that could be cut")
	}
	var ends record.Link
	raw, err := os.ReadFile(filepath.Join(w.c.Dir, "engine", "replicas", name, record.FileEndpoint))
	if err == nil {
		err = json.Unmarshal(raw, &ends)
	}
	if err == nil && ends.Network.Link == "" {
		err = errors.New("it has no interface of its own")
	}
	if err == nil {
		err = drop(tableOf(name), ends.Network.Link, ports(w.launcher(name)))
	}
	if err != nil {
		w.t.Fatalf("cut %s off: %v", name, err)
	}
	w.wire.set(name, true)
	w.t.Cleanup(func() { w.join(name) })
}

// join puts it back.
func (w *world) join(name string) {
	if w.wire == nil {
		return
	}
	for _, family := range []nftables.TableFamily{nftables.TableFamilyNetdev, nftables.TableFamilyINet} {
		if c, err := nftables.New(); err == nil {
			c.DelTable(&nftables.Table{Name: tableOf(name), Family: family})
			_ = c.Flush() // it is not there the second time
		}
	}
	w.wire.set(name, false)
}

func tableOf(replica string) string { return "cut-" + replica }

// drop has the kernel drop everything that comes over an interface, and what goes to or from ports of the machine itself.
func drop(table, device string, ports []uint16) error {
	c, err := nftables.New()
	if err != nil {
		return err
	}
	no := nftables.ChainPolicyDrop
	first := nftables.ChainPriorityRef(-500)
	t := c.AddTable(&nftables.Table{Name: table, Family: nftables.TableFamilyNetdev})
	c.AddChain(&nftables.Chain{Name: "in", Table: t, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookIngress, Priority: first, Device: device, Policy: &no})
	t = c.AddTable(&nftables.Table{Name: table, Family: nftables.TableFamilyINet})
	chain := c.AddChain(&nftables.Chain{Name: "out", Table: t, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookOutput, Priority: first})
	for _, port := range ports {
		for _, offset := range []uint32{0, 2} { // from it, and to it
			c.AddRule(&nftables.Rule{Table: t, Chain: chain, Exprs: []expr.Any{
				&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
				&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_TCP}},
				&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: 2},
				&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binary.BigEndian.AppendUint16(nil, port)},
				&expr.Verdict{Kind: expr.VerdictDrop},
			}})
		}
	}
	return c.Flush()
}
