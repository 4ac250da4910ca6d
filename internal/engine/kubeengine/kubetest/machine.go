package kubetest

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Machine is a real node: containerd, runc and a kubelet on this machine, in namespaces of mounts and processes of their own, so that nothing is
// left of them when they are killed. Pods are on a bridge of this machine, which reaches them at their addresses.
type Machine struct {
	Node    string
	Address string // of this machine, as pods reach it

	s      *Server
	dir    string
	bridge string
	groups []string
	node   *program
}

// pause is the image that holds a pod's namespaces.
const pause = "registry.example.com/pause:1"

// StartMachine runs one until the test is over. images are archives as Archive writes them; one is pause's.
func (s *Server) StartMachine(t testing.TB, node string, images ...string) *Machine {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root runs a kubelet")
	}
	address, err := outside()
	if err != nil {
		t.Fatal(err)
	}
	m := &Machine{Node: node, Address: address, s: s, dir: filepath.Join(s.Dir, "m"), bridge: fmt.Sprintf("fk%d", os.Getpid())}
	t.Cleanup(func() { m.close(t) })
	if err := m.start(images); err != nil {
		t.Fatalf("%v\n%s", err, m.log())
	}
	return m
}

// outside is an address of this machine that isn't the loopback's.
func outside() (string, error) {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return "", err
	}
	for _, a := range list {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.IsGlobalUnicast() && ip.IP.To4() != nil {
			return ip.IP.String(), nil
		}
	}
	return "", errors.New("this machine has no address but the loopback's")
}

func (m *Machine) start(images []string) error {
	kubelet, err := Program("kubelet")
	if err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	if err := m.group(); err != nil {
		return err
	}
	config, err := json.Marshal(Object{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "address": "127.0.0.1", "port": port, "healthzPort": 0,
		"authentication": Object{"anonymous": Object{"enabled": true}, "webhook": Object{"enabled": false}}, "authorization": Object{"mode": "AlwaysAllow"},
		"cgroupDriver": "cgroupfs", "cgroupRoot": "/" + m.bridge, "failCgroupV1": false, "failSwapOn": false,
		"containerRuntimeEndpoint": "unix://" + m.file("c.sock"), "podLogsDir": m.file("logs"), "nodeStatusUpdateFrequency": "2s", "syncFrequency": "5s",
		"evictionHard":                Object{"nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%", "imagefs.inodesFree": "0%", "memory.available": "1Mi"},
		"imageGCHighThresholdPercent": 100, "registerNode": true,
	})
	if err != nil {
		return err
	}
	for name, text := range map[string]string{
		"kubelet.json": string(config),
		"containerd.toml": fmt.Sprintf(`version = 2
root = %q
state = %q
oom_score = 0
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.devmapper"]
[grpc]
  address = %q
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %q
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = %q
`, m.file("root"), m.file("state"), m.file("c.sock"), pause, m.file("cni")),
		"cni/10-bridge.conflist": fmt.Sprintf(`{"cniVersion": "0.4.0", "name": "fermi", "plugins": [{"type": "bridge", "bridge": %q, "isGateway": true,
"ipam": {"type": "host-local", "dataDir": %q, "ranges": [[{"subnet": "10.213.%d.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}`, m.bridge, m.file("ipam"), os.Getpid()%250),
		"node.sh": fmt.Sprintf(`set -e
for d in /run/netns /run/containerd /var/lib/cni /var/lib/kubelet; do mkdir -p $d; mount -t tmpfs tmpfs $d; done
containerd -c containerd.toml >containerd.log 2>&1 &
until ctr -a c.sock version >/dev/null 2>&1; do sleep 0.1; done
for image; do ctr -a c.sock -n k8s.io images import "$image" >>import.log 2>&1; done
exec %s --config kubelet.json --kubeconfig admin --hostname-override %s --root-dir %s --cert-dir %s --node-ip %s >kubelet.log 2>&1
`, kubelet, m.Node, m.file("kubelet"), m.file("certs"), m.Address),
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(m.file(name)), 0o700), os.WriteFile(m.file(name), []byte(text), 0o600)); err != nil {
			return err
		}
	}
	if err := WriteKubeconfig(m.file("admin"), m.s.URL, Admin); err != nil {
		return err
	}
	if m.node, err = m.s.run("node", "/usr/bin/env", append([]string{"-C", m.dir, "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "node.sh"}, images...)...); err != nil {
		return err
	}
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end) && !m.node.over(); time.Sleep(200 * time.Millisecond) {
		if m.ready() {
			// A new node is tainted until a controller has seen that it is ready; there is none here.
			return m.s.Ask("PATCH", "/api/v1/nodes/"+m.Node, Object{"spec": Object{"taints": nil}}, nil)
		}
	}
	return errors.New("the node is not ready")
}

func (m *Machine) file(name string) string { return filepath.Join(m.dir, name) }

func (m *Machine) ready() bool {
	code, out, err := m.s.Do(Admin, http.MethodGet, "/api/v1/nodes/"+m.Node, "", nil)
	var n corev1.Node
	if err != nil || code != http.StatusOK || json.Unmarshal(out, &n) != nil {
		return false
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// group makes the cgroup that all pods are in, in each hierarchy where there are several.
func (m *Machine) group() error {
	const top = "/sys/fs/cgroup"
	if _, err := os.Stat(top + "/cgroup.controllers"); err == nil {
		m.groups = []string{filepath.Join(top, m.bridge)}
		return os.Mkdir(m.groups[0], 0o755)
	}
	list, err := filepath.Glob(top + "/*")
	if err != nil {
		return err
	}
	for _, h := range list {
		at := filepath.Join(h, m.bridge)
		if os.Mkdir(at, 0o755) != nil {
			continue // no hierarchy
		}
		m.groups = append(m.groups, at)
		for _, f := range []string{"cpuset.cpus", "cpuset.mems"} {
			if raw, err := os.ReadFile(filepath.Join(h, f)); err == nil {
				if err := os.WriteFile(filepath.Join(at, f), raw, 0o600); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Kill ends a process in a pod by SIGKILL: the newest whose command line has these words.
func (m *Machine) Kill(pod *corev1.Pod, words string) error {
	name := "pod" + string(pod.UID)
	var pid string
	err := filepath.WalkDir(m.groups[0], func(path string, d os.DirEntry, err error) error {
		if err != nil || d.Name() != "cgroup.procs" || !strings.Contains(path, name) {
			return nil //nolint:nilerr // what is gone has no process
		}
		raw, _ := os.ReadFile(path)
		for _, p := range strings.Fields(string(raw)) {
			if line, _ := os.ReadFile("/proc/" + p + "/cmdline"); strings.Contains(strings.ReplaceAll(string(line), "\x00", " "), words) {
				pid = p
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if pid == "" {
		return fmt.Errorf("no process of pod %s has %q in its command line", pod.Name, words)
	}
	return exec.Command("kill", "-KILL", pid).Run()
}

// log is what the node said last.
func (m *Machine) log() string {
	var b strings.Builder
	for _, name := range []string{"kubelet.log", "containerd.log", "import.log", "../node.log"} {
		raw, _ := os.ReadFile(m.file(name))
		fmt.Fprintf(&b, "== %s\n%s\n", name, raw[max(0, len(raw)-2500):])
	}
	return b.String()
}

func (m *Machine) close(t testing.TB) {
	if t.Failed() {
		t.Log(m.log())
	}
	end(m.node) // and with it all that is in its namespaces
	for _, g := range m.groups {
		for range 600 { // the kernel takes a moment, and more on a busy machine, to let go of what was killed
			if m.sweep(g) {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	_ = exec.Command("ip", "link", "delete", m.bridge).Run()
	_, _, _ = m.s.Do(Admin, http.MethodDelete, "/api/v1/nodes/"+m.Node, "", nil)
}

// sweep takes a cgroup away, those in it first; true: it is gone.
func (m *Machine) sweep(group string) bool {
	list, _ := os.ReadDir(group)
	for _, d := range list {
		if d.IsDir() {
			m.sweep(filepath.Join(group, d.Name()))
		}
	}
	err := os.Remove(group)
	return err == nil || errors.Is(err, os.ErrNotExist)
}

// Image is one to be made.
type Image struct {
	Name  string
	Layer string            // an archive of the whole root; "": Files
	Files map[string]string // place → file of this machine
	Env   []string
	Start []string // its entry point
	User  string   // that it runs as; "": root
}

// Pause is the image of pods' namespaces, whose program does nothing for ever.
func Pause(busybox string) Image {
	return Image{Name: pause, Files: map[string]string{"/bin/sleep": busybox}, Start: []string{"/bin/sleep", "1000000000"}}
}

// Archive writes an image as `ctr images import` takes it.
func (i Image) Archive(to string) error {
	layer := i.Layer
	if layer == "" {
		layer = to + ".layer"
		defer os.Remove(layer)
		if err := i.layer(layer); err != nil {
			return err
		}
	}
	data, err := os.Open(layer)
	if err != nil {
		return err
	}
	defer data.Close()
	sum := sha256.New()
	size, err := io.Copy(sum, data)
	if err != nil {
		return err
	}
	config, err := json.Marshal(Object{
		"architecture": runtime.GOARCH, "os": "linux", "config": Object{"Env": i.Env, "Entrypoint": i.Start, "User": i.User},
		"rootfs": Object{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(sum.Sum(nil))}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]Object{{"Config": "config.json", "RepoTags": []string{i.Name}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return err
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer out.Close()
	w := tar.NewWriter(out)
	if _, err := data.Seek(0, io.SeekStart); err != nil {
		return err
	}
	for _, f := range []struct {
		name string
		size int64
		from io.Reader
	}{{"manifest.json", int64(len(manifest)), bytes.NewReader(manifest)}, {"config.json", int64(len(config)), bytes.NewReader(config)}, {"layer.tar", size, data}} {
		if err := w.WriteHeader(&tar.Header{Name: f.name, Size: f.size, Mode: 0o644, Typeflag: tar.TypeReg}); err != nil {
			return err
		}
		if _, err := io.Copy(w, f.from); err != nil {
			return err
		}
	}
	return errors.Join(w.Close(), out.Close())
}

// layer writes Files as one archive.
func (i Image) layer(to string) error {
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer out.Close()
	w := tar.NewWriter(out)
	for at, file := range i.Files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: strings.TrimPrefix(at, "/"), Mode: 0o755, Size: int64(len(raw)), Typeflag: tar.TypeReg}); err != nil {
			return err
		}
		if _, err := w.Write(raw); err != nil {
			return err
		}
	}
	return w.Close()
}
