package inventory

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine/cgroup"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/fault"
)

const (
	localZone   = "local"
	localNumber = 1
	// driverPatience is how long a graphics driver may think. A broken one may never answer.
	driverPatience = 10 * time.Second
	// tenancy is how projects are kept apart here: not yet.
	tenancy = "single-tenant"
)

// LocalZone is the zone of plain `fermi up`: this machine.
func LocalZone() api.Zone {
	z := api.Zone{
		Meta: api.Meta{Name: localZone, DisplayName: "本机 local"},
		Spec: api.ZoneSpec{Region: localZone},
	}
	z.Default()
	return z
}

// Local is this machine as it is: what this process may use of it.
func Local(ctx context.Context) (api.Node, error) {
	if err := ctx.Err(); err != nil {
		return api.Node{}, err
	}
	memory, err := Memory()
	if err != nil {
		return api.Node{}, fmt.Errorf("ask how much memory there is: %w", err)
	}
	boot, err := record.BootID()
	if err != nil {
		return api.Node{}, fmt.Errorf("read the boot id: %w", err)
	}
	var disk unix.Statfs_t
	if err := unix.Statfs("/", &disk); err != nil {
		return api.Node{}, fmt.Errorf("ask how large the disk is: %w", err)
	}
	host, _ := os.Hostname()
	n := api.Node{
		Meta: api.Meta{Name: nodeName(host), DisplayName: displayName(host)},
		Spec: api.NodeSpec{
			Number: localNumber, Zone: localZone, CPU: cores(), Memory: memory,
			Disk: api.Bytes(disk.Blocks) * api.Bytes(disk.Bsize),
		},
		Status: api.NodeStatus{Ready: true, BootID: boot, OS: system(), Tenancy: tenancy},
	}
	limits := cgroup.Detect()
	n.Status.Limits, n.Status.Message = limits.String(), limits.Reason
	devices, problem := nvidia(ctx)
	n.Spec.Devices = devices
	if !problem.IsZero() {
		n.Status.Message = join(n.Status.Message, problem)
	}
	return n, nil
}

// nvidia asks the driver, but not for ever. A problem is a driver that is there and does not work;
// no driver is no problem.
func nvidia(ctx context.Context) ([]api.Device, fault.Text) {
	type answer struct {
		devices []api.Device
		err     error
	}
	out := make(chan answer, 1)
	go func() {
		d, err := nvmlDevices()
		out <- answer{d, err}
	}()
	select {
	case a := <-out:
		if a.err != nil && len(a.devices) > 0 {
			return a.devices, fault.T("A device does not answer: %v. The others are used.", "有加速卡无应答：%v，其余加速卡照常使用。", a.err)
		}
		if n := unseenError(0); errors.As(a.err, &n) {
			return nil, fault.T("This machine has %d NVIDIA [card|cards], but this fermi was built without cgo and can't ask NVIDIA's driver: [it is|they are] not used. Run a fermi that was built with cgo (CGO_ENABLED=1).",
				"本机有 %d 块 NVIDIA 加速卡，但此 fermi 未启用 cgo 构建，无法访问 NVIDIA 驱动，这些加速卡不会被使用。请改用启用 cgo（CGO_ENABLED=1）构建的 fermi。", int(n))
		}
		if a.err != nil && !errors.Is(a.err, errNoDriver) {
			return nil, fault.T("The NVIDIA driver does not work: %v. Its devices are not used.",
				"NVIDIA 驱动异常：%v，其设备不会被使用。", a.err)
		}
		return a.devices, fault.Text{}
	case <-time.After(driverPatience):
	case <-ctx.Done():
	}
	return nil, fault.T("The NVIDIA driver does not answer. Its devices are not used.", "NVIDIA 驱动无响应，其设备不会被使用。")
}

// errNoDriver says that this machine has no NVIDIA driver.
var errNoDriver = errors.New("no NVIDIA driver")

// unseenError is how many NVIDIA cards there are that this build of the program can't use.
type unseenError int

func (n unseenError) Error() string {
	return strconv.Itoa(int(n)) + " NVIDIA cards that need a build with cgo"
}

// unseen counts the cards that a driver tells of in its folder, for a program that can't ask it.
func unseen(folder string) error {
	cards, _ := filepath.Glob(filepath.Join(folder, "*", "information"))
	if len(cards) == 0 {
		return errNoDriver
	}
	return unseenError(len(cards))
}

func join(a, b fault.Text) fault.Text {
	if a.IsZero() {
		return b
	}
	return fault.Text{EN: a.EN + " " + b.EN, ZH: a.ZH + b.ZH}
}

// cores are the processors we may run on, less what a limit on us takes away.
func cores() api.MilliCPU {
	n := api.MilliCPU(runtime.NumCPU()) * 1000
	if own := cgroup.Own().CPU; own > 0 && own < n {
		return own
	}
	return n
}

// Memory is how much memory this process and its launchers may use together.
func Memory() (api.Bytes, error) {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	total, err := memTotal(f)
	if err != nil {
		return 0, err
	}
	if own := cgroup.Own().Memory; own > 0 && own < total {
		return own, nil
	}
	return total, nil
}

// memTotal finds "MemTotal: 1234 kB".
func memTotal(r io.Reader) (api.Bytes, error) {
	lines := bufio.NewScanner(io.LimitReader(r, 1<<16))
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) == 3 && f[0] == "MemTotal:" && f[2] == "kB" {
			kb, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil || kb <= 0 || kb > 1<<50 {
				return 0, fmt.Errorf("meminfo says %q", lines.Text())
			}
			return api.Bytes(kb) << 10, nil
		}
	}
	return 0, errors.Join(errors.New("meminfo has no MemTotal"), lines.Err())
}

// system is "Debian GNU/Linux 12 (bookworm), Linux 6.1.0, amd64".
func system() string {
	name := "Linux"
	if f, err := os.Open("/etc/os-release"); err == nil {
		if s := prettyName(f); s != "" {
			name = s + ", Linux"
		}
		_ = f.Close()
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		name += " " + unix.ByteSliceToString(u.Release[:])
	}
	return name + ", " + runtime.GOARCH
}

func prettyName(r io.Reader) string {
	lines := bufio.NewScanner(io.LimitReader(r, 1<<16))
	for lines.Scan() {
		if v, ok := strings.CutPrefix(lines.Text(), "PRETTY_NAME="); ok {
			return strings.Trim(v, `"'`)
		}
	}
	return ""
}

// nodeName makes a DNS label of a host name.
func nodeName(host string) string {
	host, _, _ = strings.Cut(strings.ToLower(host), ".")
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, host)
	name = strings.Trim(name[:min(len(name), 63)], "-")
	if name == "" {
		return localZone
	}
	return name
}

func displayName(host string) string {
	if strings.Trim(host, " ") == "" || len(host) > 64 || strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nodeName(host)
	}
	return host
}
