package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/test/harness"
)

// probe is one thing that a shell in project A tries against project B and the platform: it
// succeeds where the thing can be reached. So that no probe fails merely because there is nothing
// to reach, each must succeed from where by says: from B itself, from root outside, or from an
// ordinary user outside.
type probe struct{ name, by, sh string }

// The words in the probes: $DIR is the platform's folder, $BDIR B's replica folder, $BPID and $LPID
// B's main process and its launcher as the machine counts them, $FIRST process 1 of A's own
// namespace as the shell at hand counts it. Whatever B has is open to everyone by its mode.
var probes = []probe{
	{"B's output", "b", `cat $BDIR/output/mark`},
	{"B's code", "b", `cat $BDIR/code/mark`},
	{"B's secret file", "b", `cat $BDIR/secrets/t`},
	{"B's home", "b", `cat $BDIR/home/mark`},
	{"B's hyper-parameters", "b", `cat $BDIR/hyperparameters.json`},
	{"B's folder", "b", `ls $BDIR`},
	{"B's /tmp", "b", `cat /tmp/mark`},
	{"B's /var/tmp", "b", `cat /var/tmp/mark`},
	{"B's /dev/shm", "b", `cat /dev/shm/mark`},
	{"B's SysV shared memory", "b", `perl -e 'exit(defined(shmget($ENV{KEY}, 4096, 0)) ? 0 : 1)'`},
	{"B's unix socket", "b", connect(`"$ENV{BDIR}/output/sock"`)},
	{"B's abstract unix socket", "b", connect(`"\0$ENV{ABSTRACT}"`)},
	{"B's TCP port", "b", dial(`$ENV{BADDR} || $ENV{FERMI_ADDRESS}`, victimPort)},
	{"the machine's loopback", "root", dial(`split(":", $ENV{SERVER_ADDRESS})`)},
	{"the machine's own address", "root", dial(`split(":", $ENV{MACHINE})`)},
	{"B's command line in /proc", "b", `cat /proc/[0-9]*/cmdline | grep -a "[3]1415.9265"`},
	{"B's environment in /proc", "b", `cat /proc/[0-9]*/environ | grep -a "plante[d]-for-b"`},
	{"signal to B", "root", `kill -0 $BPID`},
	{"B's root folder by /proc", "root", `ls /proc/$BPID/root/`},
	{"B's descriptors by /proc", "root", `ls /proc/$BPID/fd/`},
	{"trace B", "root", trace("BPID")},
	{"B's records", "root", `cat $BDIR/replica.json`},
	{"B's log on disk", "root", `ls $BDIR/output.log`},
	{"B's launcher's environment", "root", `cat /proc/$LPID/environ`},
	{"link token among B's launcher's descriptors", "root", `ls /proc/$LPID/fd/`},
	{"root folder of process 1", "root", `ls /proc/$FIRST/root/`},
	{"environment of process 1", "root", `cat /proc/$FIRST/environ`},
	{"descriptors of process 1", "root", `ls /proc/$FIRST/fd/`},
	{"signal to process 1", "root", `kill -0 $FIRST`},
	{"trace process 1", "root", trace("FIRST")},
	{"the platform's folder", "root", `ls $DIR/etcd`},
	{"folders of other replicas", "root", `ls -d $DIR/engine/replicas/* | grep -v "^${FERMI_OUTPUT%/*}$"`},
	{"admin.token", "root", `cat $DIR/admin.token`},
	{"key of link tokens", "root", `cat $DIR/link.key`},
	{"key of secrets", "root", `cat $DIR/secret.key`},
	{"blobs", "root", `ls $DIR/blobs`},
	{"history", "root", `ls $DIR/history.db`},
	{"etcd's socket", "root", connect("$ENV{ETCD}")},
	{"link's socket", "root", connect("$ENV{LINK}")},
	{"admin.token by way of the server's /proc", "root", `cat /proc/$SERVER/root$DIR/admin.token`},
	{"mount", "root", `mount -t tmpfs x /mnt`},
	{"a cover taken away", "root", `unshare $ALONE -m sh -c 'umount -l $BDIR/output; umount -l $DIR; umount -l ${DIR%/*}; umount -l /tmp; cat $DIR/admin.token'`},
	{"a set-uid program", "nobody", `test $($SETUID -u) = 0`},
	{"a key in the session keyring that the server was started with", "root", call("keyctl", "6, $ENV{KERNEL_KEY} + 0, 0, 0")},
	{"write /", "root", `touch /fermi-probe && rm /fermi-probe`},
	{"write /etc", "root", `touch /etc/fermi-probe && rm /etc/fermi-probe`},
	{"write /usr/bin", "root", `touch /usr/bin/fermi-probe && rm /usr/bin/fermi-probe`},
	{"leave the cgroup", "root", `for f in /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/memory/cgroup.procs; do test -w $f && exit 0; done; exit 1`},
	{"a kernel setting", "root", `test -w /proc/sys/kernel/core_pattern`},
	{"a disk", "root", `for f in /dev/vd? /dev/sd? /dev/nvme?n? /dev/mem; do test -r $f && exit 0; done; exit 1`},
	{"a descriptor that came along", "self", `for f in /proc/self/fd/*; do n=${f##*/}; test $n -gt 2 && test -e /proc/$$/fd/$n && exit 0; done; exit 1`},
}

// victimPort is where B listens.
const victimPort = "31416"

// dial connects to host and port, which are Perl.
func dial(at ...string) string {
	return `perl -MIO::Socket -e 'my ($h, $p) = (` + strings.Join(at, ", ") + `); exit(IO::Socket::INET->new(PeerAddr => $h, PeerPort => $p, Timeout => 2) ? 0 : 1)'`
}

func connect(address string) string {
	return `perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0) || exit 2; exit(connect(S, pack_sockaddr_un(` + address + `)) ? 0 : 1)'`
}

// trace is PTRACE_SEIZE, which disturbs nobody.
func trace(pid string) string { return call("ptrace", "0x4206, $ENV{"+pid+"} + 0, 0, 0") }

var callNumbers = map[string]map[string]int{
	"amd64": {"ptrace": 101, "add_key": 248, "keyctl": 250}, "arm64": {"ptrace": 117, "add_key": 217, "keyctl": 219},
}[runtime.GOARCH]

func call(name, args string) string {
	return fmt.Sprintf(`perl -e 'exit(syscall(%d, %s) >= 0 ? 0 : 1)'`, callNumbers[name], args)
}

// keyed wraps a program so that it runs with a session keyring of its own that holds a key, as what
// a login starts does; the key's number is in file.
func keyed(t *testing.T, bin, file string) string {
	t.Helper()
	wrapper := file + ".sh"
	text := fmt.Sprintf("#!/bin/sh\nexec perl -e 'syscall(%d, 1, 0) >= 0 or die; my @a = (\"user\", \"fermi-probe\", \"x\"); my $k = syscall(%d, @a, 1, -3);"+
		" if (!-e \"%[3]s\") { open(F, \">\", \"%[3]s\"); print F $k; close(F) } exec(@ARGV)' %[4]s \"$@\"\n",
		callNumbers["keyctl"], callNumbers["add_key"], file, bin)
	if err := os.WriteFile(wrapper, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return wrapper
}

// script tries the probes that sort takes and prints "probe N status" for each.
func script(take func(probe) bool) string {
	var b strings.Builder
	for i, p := range probes {
		if take(p) {
			fmt.Fprintf(&b, "p%[1]d() { %[2]s\n}\n( p%[1]d ) >/dev/null 2>&1; echo probe %[1]d $?\n", i, p.sh)
		}
	}
	return b.String()
}

// succeeded reads what script printed: by number, whether it succeeded.
func succeeded(t *testing.T, text string) map[int]bool {
	t.Helper()
	got := map[int]bool{}
	for line := range strings.Lines(text) {
		var n, status int
		if i := strings.Index(line, "probe "); i >= 0 {
			if _, err := fmt.Sscanf(line[i:], "probe %d %d", &n, &status); err != nil {
				t.Errorf("%q: %v", line, err)
			}
			got[n] = status == 0
		}
	}
	return got
}

// victim is B's task: it has one of everything, and tries what is its own.
const victim = `umask 0; export BDIR=${FERMI_OUTPUT%/*}
for d in $FERMI_OUTPUT . $HOME /tmp /var/tmp /dev/shm; do echo mark > $d/mark; done
sleep 31415.9265 &
perl -MSocket -e 'defined(shmget($ENV{KEY}, 4096, 01666)) || die;
	my $tcp; socket($tcp, AF_INET, SOCK_STREAM, 0) && bind($tcp, pack_sockaddr_in(` + victimPort + `, INADDR_ANY)) && listen($tcp, 9) || die;
	for ("$ENV{BDIR}/output/sock", "\0$ENV{ABSTRACT}") { my $s; socket($s, AF_UNIX, SOCK_STREAM, 0) && bind($s, pack_sockaddr_un($_)) && listen($s, 9) || die; push @s, $s }
	open(F, ">", "/tmp/up"); close(F); sleep 1000' &
until test -e /tmp/up; do sleep 0.02; done
`

// TestTenants tries everything from a shell inside project A, for three places of the platform's
// folder: in /tmp, behind a closed folder, and in an open one.
func TestTenants(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can keep projects apart")
	}
	for _, place := range []struct {
		name, base string
		mode       os.FileMode
	}{{"tmp", "/tmp", 0o755}, {"closed", "/var", 0o700}, {"open", "/var", 0o755}} {
		t.Run(place.name, func(t *testing.T) { tryTenants(t, place.base, place.mode) })
	}
}

func tryTenants(t *testing.T, base string, mode os.FileMode) {
	dir, err := os.MkdirTemp(base, "ft")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, mode); err != nil {
		t.Fatal(err)
	}
	w := upAs(t, nil, func(c *harness.Cluster) {
		_ = os.Remove(filepath.Dir(c.Dir))
		c.Dir = filepath.Join(dir, "d")
		c.Bin = keyed(t, c.Bin, filepath.Join(dir, "key"))
	}, "--demo")
	key, err := os.ReadFile(filepath.Join(dir, "key"))
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"DIR": w.Dir, "KEY": strconv.Itoa(0x46000000 + os.Getpid()), "ABSTRACT": filepath.Base(dir), "SERVER": strconv.Itoa(w.PID()), "KERNEL_KEY": string(key)}
	env["ETCD"], env["LINK"] = sockets(t, w.Dir)
	for _, name := range []string{"a", "b"} {
		w.must("project", "create", name)
	}
	if _, err := w.api.Create(t.Context(), &api.Secret{Meta: api.Meta{Name: "s", Project: "b"}, Spec: api.SecretSpec{Data: map[string]string{"k": "the secret of b"}}}, false); err != nil {
		t.Fatal(err)
	}
	b := shell("victim", 1, victim+script(func(p probe) bool { return p.by == "b" })+"echo ready; wait")
	b.Meta.Project = "b"
	b.Spec.Roles[0].Env = []api.EnvVar{{Name: "PLANTED", Value: "planted-for-b"}, {Name: "KEY", Value: env["KEY"]}, {Name: "ABSTRACT", Value: env["ABSTRACT"]}}
	b.Spec.Roles[0].SecretFiles = []api.SecretFile{{Name: "t", Secret: "s", Key: "k"}}
	w.submit(b)
	control := succeeded(t, w.logUntil("b", "victim", "ready"))
	env["BDIR"], env["BPID"], env["LPID"], _ = w.processes(t, "b", "victim")
	env["SETUID"] = setuid(t)
	env["BADDR"], env["SERVER_ADDRESS"], env["MACHINE"] = addressOf(t, env["BDIR"]), w.Addr, listenEverywhere(t)

	a := shell("spy", 1, script(func(probe) bool { return true })+
		"exec 9< /etc/passwd\n"+strings.ReplaceAll(script(func(p probe) bool { return p.by == "self" }), "echo probe", "echo control")+
		"touch /tmp/from-a; perl -MIO::Socket -e 'exit(IO::Socket::INET->new(substr($ENV{FERMI_SERVER}, 7)) ? 0 : 1)' && echo the API answers; echo ready; sleep 1000")
	a.Meta.Project = "a"
	for k, v := range env {
		a.Spec.Roles[0].Env = append(a.Spec.Roles[0].Env, api.EnvVar{Name: k, Value: v})
	}
	a.Spec.Roles[0].Env = append(a.Spec.Roles[0].Env, api.EnvVar{Name: "FIRST", Value: "1"}, api.EnvVar{Name: "ALONE", Value: "-Ur"})
	w.submit(a)
	log := w.logUntil("a", "spy", "ready")
	contains(t, log, "the API answers")
	reached := succeeded(t, log)
	for n, ok := range succeeded(t, strings.ReplaceAll(log, "control ", "probe ")) {
		if probes[n].by == "self" {
			control[n] = ok
		}
	}
	adir, _, _, first := w.processes(t, "a", "spy")
	env["FIRST"], env["ALONE"] = first, ""
	for n, ok := range outside(t, env, "root", "unshare", "-m") {
		control[n] = ok
	}
	for n, ok := range outside(t, env, "nobody", "setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups") {
		control[n] = ok
	}
	for n, p := range probes {
		got, tried := reached[n]
		if !tried || got {
			t.Errorf("%s: tried %v, reached %v", p.name, tried, got)
		}
		if !control[n] {
			t.Errorf("%s: the same probe fails from %s too", p.name, p.by)
		}
		t.Logf("%-45s out of A's reach: %-5v reached by %s: %v", p.name, tried && !got, p.by, control[n])
	}
	if _, err := os.Stat(filepath.Join(adir, "tmp", "from-a")); err != nil {
		t.Error("the control of A's /tmp:", err)
	}
	if _, err := os.Stat(filepath.Join(env["BDIR"], "tmp", "from-a")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("what A wrote to /tmp is in B's:", err)
	}
	t.Logf("%d probes, each with its control", len(probes))
}

// outside runs the probes of one kind on the machine itself.
func outside(t *testing.T, env map[string]string, by string, wrap ...string) map[int]bool {
	t.Helper()
	cmd := exec.Command(wrap[0], append(wrap[1:], "sh", "-c", script(func(p probe) bool { return p.by == by }))...)
	cmd.Dir, cmd.Env = "/", os.Environ()
	for k, v := range env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", wrap, err, out)
	}
	return succeeded(t, string(out))
}

// setuid makes a copy of id that runs as root, where everyone can start it.
func setuid(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var", "fs")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	raw, err := os.ReadFile("/usr/bin/id")
	file := filepath.Join(dir, "id")
	if err := errors.Join(err, os.WriteFile(file, raw, 0o755), os.Chmod(dir, 0o755), os.Chmod(file, os.ModeSetuid|0o755)); err != nil {
		t.Fatal(err)
	}
	return file
}

// sockets are the paths of etcd's and the link's.
func sockets(t *testing.T, dir string) (etcd, link string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type() == fs.ModeSocket {
			if strings.Contains(path, "etcd") {
				etcd = path
			} else {
				link = path
			}
		}
		return err
	})
	if err != nil || etcd == "" || link == "" {
		t.Fatalf("sockets %q %q: %v", etcd, link, err)
	}
	return etcd, link
}

// processes are a task's replica folder and, as the machine counts them, its main process, its
// launcher, and process 1 of its namespace.
func (w *world) processes(t *testing.T, project, name string) (dir, main, launcher, first string) {
	t.Helper()
	task, err := client.Get[*api.TrainingTask](t.Context(), w.api, project, name)
	if err != nil {
		t.Fatal(err)
	}
	dirs, _ := filepath.Glob(filepath.Join(w.Dir, "engine", "replicas", task.Meta.ID+"*"))
	if len(dirs) != 1 {
		t.Fatal(dirs)
	}
	children := func(pid string) []string {
		var out []string
		threads, _ := filepath.Glob("/proc/" + pid + "/task/*/children") // any of its threads may have forked
		for _, path := range threads {
			raw, _ := os.ReadFile(path)
			out = append(out, strings.Fields(string(raw))...)
		}
		return out
	}
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		raw, _ := os.ReadFile(path)
		if strings.Contains(string(raw), "launch\x00--dir\x00"+dirs[0]+"\x00") {
			launcher = filepath.Base(filepath.Dir(path))
		}
	}
	for _, pid := range children(launcher) { // beside the steward's process
		if raw, _ := os.ReadFile("/proc/" + pid + "/cmdline"); string(raw) == "fermi-inside\x00" {
			first = pid
		}
	}
	if c := children(first); len(c) > 0 {
		main = c[0]
	}
	if main == "" {
		t.Fatalf("launcher %q, process 1 %q, main process %q", launcher, first, main)
	}
	return dirs[0], main, launcher, first
}

// logUntil waits until a task has printed a line.
func (w *world) logUntil(project, name, line string) string {
	w.t.Helper()
	deadline := time.Now().Add(harness.Patience)
	for {
		if r := w.fermi("logs", name, "--project", project); r.code == 0 && strings.Contains(r.out, line) {
			return r.out
		} else if time.Now().After(deadline) {
			w.t.Fatalf("%s never printed %q:\n%s\n%s\n%s", name, line, r.out, r.err, w.must("describe", "task", name, "--project", project))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// TestProjectsKeepTheirUID: over restarts, and nobody gets it after them.
func TestProjectsKeepTheirUID(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can keep projects apart")
	}
	w := up(t, "--demo", "--tenants-uids", "210000-210003")
	uid := func(project string) string {
		t.Helper()
		task := shell("", 1, `echo "I am $(id -u)."`)
		task.Meta.DisplayName, task.Meta.Project = "who", project
		sub, err := w.api.Submit(t.Context(), task, false)
		if err != nil {
			t.Fatal(err)
		}
		log := w.logUntil(project, sub.Name, "I am")
		_, id, _ := strings.Cut(log, "I am ")
		w.must("delete", "task", sub.Name, "--project", project)
		return strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(id), "."))
	}
	w.must("project", "create", "one")
	w.must("project", "create", "two")
	one, two := uid("one"), uid("two")
	if one != "210000" || two != "210001" {
		t.Fatal(one, two)
	}
	contains(t, w.must("describe", "project", "two"), "uid: 210001")
	w.Kill()
	w.start()
	if again := uid("two"); again != two {
		t.Error("after a restart:", again)
	}
	for deadline := time.Now().Add(harness.Patience); w.fermi("delete", "project", "two").code != 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("project two is in use for ever")
		}
	}
	w.must("project", "create", "two")
	if again := uid("two"); again != "210002" {
		t.Error("a new project with an old name:", again)
	}
}

// TestSingleTenant: as an ordinary user, and as a root that may make no namespaces (as in most
// containers), only the owner may start processes.
func TestSingleTenant(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become somebody else")
	}
	t.Run("nobody", func(t *testing.T) {
		singleTenant(t, &syscall.Credential{Uid: 65534, Gid: 65534}, "", "does not run as root")
	})
	t.Run("root without CAP_SYS_ADMIN", func(t *testing.T) {
		singleTenant(t, nil, "setpriv --bounding-set -sys_admin --inh-caps -sys_admin", "operation not permitted")
	})
}

func singleTenant(t *testing.T, who *syscall.Credential, wrap, why string) {
	w := upAs(t, who, func(c *harness.Cluster) {
		dir := filepath.Dir(c.Dir)
		bin, wrapper := filepath.Join(dir, "fermi"), filepath.Join(dir, "fermi.sh")
		raw, err := os.ReadFile(c.Bin)
		err = errors.Join(err, os.WriteFile(bin, raw, 0o755), os.WriteFile(wrapper, []byte("#!/bin/sh\nexec "+wrap+" "+bin+" \"$@\"\n"), 0o755))
		if who != nil {
			err = errors.Join(err, os.Chown(dir, int(who.Uid), int(who.Gid)))
		}
		if err != nil {
			t.Fatal(err)
		}
		c.Bin = wrapper
	}, "--demo")
	contains(t, w.must("describe", "node", "beijing-1-n01"), "single-tenant", why)
	w.must("train", "run", "--name", "mine", "--no-code", "--", "true")
	w.must("user", "create", "ann", "--role", "member")
	w.must("project", "create", "lab", "--member", "ann")
	token := strings.TrimSpace(w.must("token", "create", "bot", "--user", "ann"))
	for lang, want := range map[string]string{"en": "can't keep projects apart", "zh": "无法隔离项目"} {
		r := w.fermiIn(t.TempDir(), []string{"FERMI_TOKEN=" + token, "FERMI_LANG=" + lang}, "train", "run", "--detach", "--no-code", "--project", "lab", "--", "true")
		if r.code != 4 || !strings.Contains(r.err, want) {
			t.Errorf("%s: %+v", lang, r)
		}
	}
}
