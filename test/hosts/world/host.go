package world

import (
	"bufio"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/engine/network"
)

// Way is a direction of a host's packets.
type Way int

// The directions.
const (
	In   Way = 1 << iota // what others send does not reach it
	Out                  // what it sends does not reach others
	Both = In | Out
)

// Host is a machine of a world.
type Host struct {
	w      *World
	name   string
	zone   *zone
	number int // in its zone

	mu      sync.Mutex
	boots   int
	bootID  string
	machine string // its id
	life    *life  // nil: it is off
	frozen  bool
}

// life is a host from its boot to its end.
type life struct {
	init     *exec.Cmd
	held     *os.File // the host ends when its first process can't read from the other end any more
	space    *network.Space
	others   []*os.File // the other namespaces, in the order of entering
	tree     groups
	port     string
	commands []*Cmd
}

// Name is as in its zone: b2.
func (h *Host) Name() string { return h.name }

// Zone is the name of its zone.
func (h *Host) Zone() string { return h.zone.name }

// Addr is where others reach it.
func (h *Host) Addr() netip.Addr { return addressOf(h.w.number, h.zone.index+1, 11+h.number) }

// At is its address with a port.
func (h *Host) At(port int) string { return netip.AddrPortFrom(h.Addr(), uint16(port)).String() }

// BootID is that of its last boot.
func (h *Host) BootID() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bootID
}

// MachineID is what its disk says.
func (h *Host) MachineID() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.machine
}

// SetMachineID writes another machine id on its disk, as a cloned disk has. It holds at once.
func (h *Host) SetMachineID(machine string) {
	h.w.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.machine = machine
	h.w.must("write the machine id of "+h.name, h.writeEtc("machine-id", machine+"\n"))
}

// Disk is a folder of its own that outlives a power cut. It has the same path on the host and outside.
func (h *Host) Disk() string { return filepath.Join(h.dir(), "disk") }

func (h *Host) dir() string { return filepath.Join(h.w.dir, h.name) }

// layers are the folders of the machine on which each host writes for itself. What it writes there is on its disk.
var layers = []string{"/etc", "/var"}

func (h *Host) upper(layer string) string { return filepath.Join(h.dir(), "own", layer) }
func (h *Host) spare(layer string) string { return filepath.Join(h.dir(), "work", layer) }

// furnish prepares its disk.
func (h *Host) furnish() error {
	dirs := []string{h.Disk()}
	for _, layer := range layers {
		dirs = append(dirs, h.upper(layer), h.spare(layer))
	}
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	h.machine = strings.ReplaceAll(newUUID(), "-", "")
	return errors.Join(h.writeEtc("machine-id", h.machine+"\n"), h.writeEtc("hostname", h.name+"\n"), h.writeEtc("hosts", h.w.names()))
}

// writeEtc writes as the host would: in place, because a folder whose layers were mounted does not show a replaced file.
func (h *Host) writeEtc(name, text string) error {
	return os.WriteFile(filepath.Join(h.upper("/etc"), name), []byte(text), 0o644)
}

func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	s := hex.EncodeToString(b[:])
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

// Boot switches it on: another boot id, empty memory, the same disk.
func (h *Host) Boot() {
	h.w.t.Helper()
	h.w.must("boot "+h.name, h.boot())
}

func (h *Host) boot() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.life != nil {
		return errors.New("it is on")
	}
	h.boots++
	h.bootID = newUUID()
	boot := filepath.Join(h.dir(), "boot_id")
	if err := os.WriteFile(boot, []byte(h.bootID+"\n"), 0o644); err != nil {
		return err
	}
	l := &life{tree: h.w.tree.of(h.name), port: "h-" + h.name}
	h.life = l
	err := h.begin(l, boot)
	if err != nil {
		err = errors.Join(err, h.end())
	}
	return err
}

// begin starts the first process and waits until the host is furnished.
func (h *Host) begin(l *life, boot string) (err error) {
	if err := l.tree.make(); err != nil {
		return err
	}
	if l.space, err = network.New(); err != nil {
		return err
	}
	if err := h.zone.plug(l.port, l.space, h.Addr()); err != nil {
		return err
	}
	lifeline, held, err := os.Pipe()
	if err != nil {
		return err
	}
	defer lifeline.Close()
	l.held = held
	report, say, err := os.Pipe()
	if err != nil {
		return err
	}
	defer report.Close()
	defer say.Close()
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	order := orders{Name: h.name, Exe: exe, Boot: boot, Groups: l.tree}
	for _, layer := range layers {
		order.Layers = append(order.Layers, overlay{layer, h.upper(layer), h.spare(layer)})
	}
	text, err := json.Marshal(order)
	if err != nil {
		return err
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), envHost+"="+string(text))
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.ExtraFiles = []*os.File{lifeline, say}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC}
	if err := l.space.Do(cmd.Start); err != nil {
		return err
	}
	l.init = cmd
	say.Close()
	answer, err := bufio.NewReader(report).ReadString('\n')
	if err != nil {
		return fmt.Errorf("its first process ended early: %w", err)
	}
	if answer != wordReady+"\n" {
		return errors.New(strings.TrimSpace(answer))
	}
	for _, kind := range []string{"cgroup", "ipc", "uts", "pid", "mnt"} {
		f, err := os.Open(filepath.Join("/proc", strconv.Itoa(cmd.Process.Pid), "ns", kind))
		if err != nil {
			return err
		}
		l.others = append(l.others, f)
	}
	return nil
}

// PowerOff ends the host as a power cut does: its network goes silent first, so that nobody learns that its connections are closed; then all
// processes are killed, and what was in memory (/dev/shm, /run) is gone. Its disk stays.
func (h *Host) PowerOff() {
	h.w.t.Helper()
	h.w.must("power off "+h.name, h.off())
}

func (h *Host) off() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.life == nil {
		return nil
	}
	return h.end()
}

// end is locked.
func (h *Host) end() error {
	l := h.life
	h.life, h.frozen = nil, false
	errs := []error{h.zone.unplug(l.port)}
	if l.init != nil {
		_ = l.init.Process.Kill() // with it the kernel kills all others
		for _, g := range l.tree {
			thaw(g.Base)
		}
		for _, c := range l.commands { // the first process ends after all others were reaped
			_ = c.Wait()
		}
		_ = l.init.Wait()
	}
	if l.held != nil {
		l.held.Close()
	}
	for _, f := range l.others {
		f.Close()
	}
	return errors.Join(append(errs, l.space.Close(), l.tree.remove())...)
}

// IsOn says that it is not powered off.
func (h *Host) IsOn() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.life != nil
}

// Freeze stops all its processes where they are. Its kernel still answers for them: connections stay open and fill up.
func (h *Host) Freeze() {
	h.w.t.Helper()
	h.w.must("freeze "+h.name, h.freeze(true))
}

// Thaw lets them go on.
func (h *Host) Thaw() {
	h.w.t.Helper()
	h.w.must("thaw "+h.name, h.freeze(false))
}

func (h *Host) freeze(freeze bool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.life == nil {
		return errOff
	}
	if err := h.life.tree.freeze(freeze); err != nil {
		return err
	}
	h.frozen = freeze
	return nil
}

// Cut drops its packets, one way or both ways, and lets those of the other way pass. It sees no broken link. It holds until Heal or the next boot.
func (h *Host) Cut(which Way) {
	h.w.t.Helper()
	h.w.must("cut off "+h.name, h.cut(which))
}

// Heal ends a cut.
func (h *Host) Heal() {
	h.w.t.Helper()
	h.w.must("heal "+h.name, h.cut(0))
}

func (h *Host) cut(which Way) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.life == nil {
		return errOff
	}
	return h.zone.cut(h.life.port, which)
}

// Unplug pulls its network cable, which it sees; Plug puts it back.
func (h *Host) Unplug() {
	h.w.t.Helper()
	h.w.must("unplug "+h.name, h.plug(false))
}

// Plug puts the cable back.
func (h *Host) Plug() {
	h.w.t.Helper()
	h.w.must("plug in "+h.name, h.plug(true))
}

func (h *Host) plug(on bool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.life == nil {
		return errOff
	}
	return h.zone.switchPort(h.life.port, on)
}

var errOff = errors.New("it is powered off")

// Do runs f in its network: sockets that f opens are the host's for ever, though this process holds them. f must not leave them to
// goroutines that it starts.
func (h *Host) Do(f func() error) error {
	h.mu.Lock()
	l := h.life
	h.mu.Unlock()
	if l == nil {
		return errOff
	}
	return l.space.Do(f)
}

// Processes are the ids, on this machine, of all that run on the host, its first process too.
func (h *Host) Processes() []int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.life == nil {
		return nil
	}
	return processes(h.life.tree[0].Base)
}

// ReadFile reads a file as the host sees it.
func (h *Host) ReadFile(path string) (string, error) {
	cmd := h.Command("cat", path)
	out, err := cmd.Output()
	return string(out), err
}
