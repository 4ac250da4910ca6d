package imagejob

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/google/go-containerregistry/pkg/name"
	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/api/v1/image"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// build makes an image of a Dockerfile in the folder that it is started in, with buildah, and pushes it.
//
// The simple story: `buildah build`, `buildah push`. How the code differs: in there root may mount only in a mount namespace of its own; several
// builds of a project share one cache, one after the other; and what a killed build left is cleared away first.
type build struct {
	file, target, ref string
	args, allowed     []string
	fresh             bool

	builder string // the program
	tmp     string // a private folder, which goes with the replica
	store   string // what stays for the next build
}

const (
	dirStore = "storage"
	fileLock = "lock"
	// mostCache is how much the cache of a project on a node may hold before it begins anew.
	mostCache = 40 << 30
	tag       = "localhost/fermi-build:latest"
)

func (b *build) run(ctx context.Context) (*image.ImageFound, error) {
	to, err := name.NewTag(b.ref)
	if err != nil {
		return nil, fault.New(fault.Invalid, "BadImage", fault.T("%q is not where an image can be pushed.", "%q 不是可推送的镜像名称。", b.ref)).Because(err)
	}
	if b.builder, err = exec.LookPath("buildah"); err != nil {
		return nil, fault.New(fault.Unavailable, "NoBuilder", fault.T("There is no buildah on this node.", "该节点上没有 buildah。")).
			WithHint(fault.T("Ask an operator to install it (apt-get install buildah), or build in a zone whose nodes have it.", "请运维安装（apt-get install buildah），或在节点已安装的可用区构建。"))
	}
	text, err := os.ReadFile(b.file)
	if err != nil {
		return nil, fault.New(fault.Invalid, "NoDockerfile", fault.T("There is no file %s in the code.", "代码中没有文件 %s。", b.file)).Because(err)
	}
	from := bases(text, b.args)
	registries := []name.Registry{to.Context().Registry}
	for _, ref := range from {
		if !image.Allowed(ref.Name(), b.allowed) {
			return nil, image.NotAllowed("FROM", ref.String(), b.allowed)
		}
		registries = append(registries, ref.Context().Registry)
	}
	free, err := b.prepare(ctx, registries)
	if err != nil {
		return nil, err
	}
	defer free()
	argv := []string{"build", "--isolation", "chroot", "--layers", "--pull-always", "--file", b.file, "--tag", tag}
	if b.fresh {
		argv = append(argv, "--no-cache")
	}
	if b.target != "" {
		argv = append(argv, "--target", b.target)
	}
	for _, a := range b.args {
		argv = append(argv, "--build-arg", a)
	}
	if words, err := b.buildah(ctx, append(argv, ".")...); err != nil {
		return nil, buildFault(words, err)
	}
	digest := filepath.Join(b.tmp, "digest")
	if words, err := b.buildah(ctx, "push", "--digestfile", digest, tag, "docker://"+to.Name()); err != nil {
		return nil, pushFault(to, words, err)
	}
	made, err := os.ReadFile(digest)
	if err != nil {
		return nil, err
	}
	found, err := look(ctx, to.Context().Digest(strings.TrimSpace(string(made))).Name())
	if err == nil {
		found.Reference = b.ref
		fmt.Println("pushed", b.ref, found.Digest)
	}
	return found, err
}

// bases are the images that a Dockerfile says it begins from, with these arguments, but for its own stages.
func bases(text []byte, args []string) (out []name.Reference) {
	stages, values := map[string]bool{"scratch": true}, map[string]string{}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) > 1 && strings.EqualFold(words[0], "ARG") && len(stages) == 1 && len(out) == 0 {
			k, v, _ := strings.Cut(words[1], "=")
			values[k] = strings.Trim(v, `"'`)
			for _, a := range args {
				if given, ok := strings.CutPrefix(a, k+"="); ok {
					values[k] = given
				}
			}
		}
		if len(words) < 2 || !strings.EqualFold(words[0], "FROM") {
			continue
		}
		words = strings.Fields(os.Expand(strings.Join(words[1:], " "), func(k string) string { return values[k] }))
		if len(words) == 0 {
			continue
		}
		for len(words) > 1 && strings.HasPrefix(words[0], "--") {
			words = words[1:]
		}
		if ref, err := name.ParseReference(words[0]); err == nil && !stages[strings.ToLower(words[0])] {
			out = append(out, ref)
		}
		if len(words) == 3 && strings.EqualFold(words[1], "AS") {
			stages[strings.ToLower(words[2])] = true
		}
	}
	return out
}

// prepare takes the cache of the project, alone, and says how registries are reached; free lets go of it.
func (b *build) prepare(ctx context.Context, registries []name.Registry) (free func(), err error) {
	home := os.Getenv("HOME")
	b.store = filepath.Join(home, dirStore)
	lock, err := os.OpenFile(filepath.Join(home, fileLock), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if errors.Is(unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK) {
		fmt.Println("another build of this project runs on the node; waiting for it")
		if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
			return nil, errors.Join(err, lock.Close())
		}
	}
	free = func() { _ = lock.Close() }
	if b.tmp, err = os.MkdirTemp("", "build-"); err == nil {
		err = b.configure(registries)
	}
	if err == nil && sizeOf(b.store) > mostCache {
		fmt.Println("the cache has grown too large; it begins anew")
		_, err = b.quietly(ctx, "rmi", "--all", "--force")
	} else if err == nil {
		_, err = b.quietly(ctx, "rm", "--all") // of builds that were killed
	}
	if err != nil {
		free()
		return nil, fmt.Errorf("prepare the cache: %w", err)
	}
	return free, nil
}

// configure writes what buildah reads. A registry is spoken to in the clear only where its name says that everybody does.
func (b *build) configure(registries []name.Registry) error {
	conf := fmt.Sprintf("unqualified-search-registries = [%q]\nshort-name-mode = \"disabled\"\n", strings.TrimPrefix(name.DefaultRegistry, "index."))
	seen := map[string]bool{}
	for _, r := range registries {
		if host := r.RegistryStr(); r.Scheme() == "http" && !seen[host] {
			seen[host] = true
			conf += fmt.Sprintf("[[registry]]\nlocation = %q\ninsecure = true\n", host)
		}
	}
	return errors.Join(
		os.WriteFile(filepath.Join(b.tmp, "registries.conf"), []byte(conf), 0o600),
		os.WriteFile(filepath.Join(b.tmp, "policy.json"), policy(b.allowed), 0o600),
		os.MkdirAll(filepath.Join(b.tmp, "run"), 0o700),
	)
}

// policy is what buildah takes images from: registries, and where an operator named the beginnings of names, those alone. What bases finds is refused
// first, and in plain words; this holds whatever a Dockerfile says, and however.
func policy(allowed []string) []byte {
	type rules []map[string]string
	accept, reject := rules{{"type": "insecureAcceptAnything"}}, rules{{"type": "reject"}}
	registries := map[string]rules{}
	for _, scope := range image.Scopes(allowed) {
		registries[scope] = accept
	}
	if len(allowed) == 0 {
		registries[""] = accept
	}
	text, err := json.Marshal(map[string]any{"default": reject, "transports": map[string]any{"docker": registries, "containers-storage": map[string]rules{"": accept}}})
	if err != nil {
		panic(err) // texts only
	}
	return text
}

// buildah runs it with what it prints in the log, and gives the last of that.
func (b *build) buildah(ctx context.Context, args ...string) (string, error) {
	return b.exec(ctx, os.Stdout, os.Stderr, args...)
}

func (b *build) quietly(ctx context.Context, args ...string) (string, error) {
	said, err := b.exec(ctx, io.Discard, io.Discard, args...)
	if err != nil {
		err = fmt.Errorf("%w: %s", err, said)
	}
	return said, err
}

func (b *build) exec(ctx context.Context, out, errs io.Writer, args ...string) (string, error) {
	global := []string{
		"--root", b.store, "--runroot", filepath.Join(b.tmp, "run"), "--storage-driver", "vfs",
		"--registries-conf", filepath.Join(b.tmp, "registries.conf"), "--registries-conf-dir", filepath.Join(b.tmp, "none"),
	}
	verb := args[0]
	if verb == "build" || verb == "push" {
		args = append([]string{verb, "--signature-policy", filepath.Join(b.tmp, "policy.json")}, args[1:]...)
	}
	last := &tail{}
	cmd := exec.CommandContext(ctx, b.builder, append(global, args...)...)
	cmd.Env = append(os.Environ(), "_CONTAINERS_USERNS_CONFIGURED=done", "XDG_RUNTIME_DIR="+filepath.Join(b.tmp, "run"), "CONTAINERS_STORAGE_CONF=/dev/null", "BUILDAH_ISOLATION=chroot")
	cmd.Stdout, cmd.Stderr = out, io.MultiWriter(errs, last)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	err := cmd.Run()
	return last.String(), err
}

// tail keeps the last of what is written.
type tail struct{ text []byte }

const maxTail = 8 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if over := len(t.text) - maxTail; over > 0 {
		t.text = bytes.Clone(t.text[over:])
	}
	return len(p), nil
}

func (t *tail) String() string { return string(t.text) }

// sizeOf is what a folder holds.
func sizeOf(dir string) (sum int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := d.Info(); err == nil {
			sum += info.Size()
		}
		return nil
	})
	return sum
}
