package launch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/launch/inside"
	"github.com/fermi-cluster/fermi/internal/preflight"
	"github.com/fermi-cluster/fermi/internal/recipe"
)

// packages are those whose versions must agree between processes that talk to each other.
var packages = []string{
	"torch", "nvidia-cuda-runtime-cu11", "nvidia-cuda-runtime-cu12", "nvidia-cuda-runtime", "tensorflow", "jax", "jaxlib", "deepspeed", "horovod", "megatron-core", "paddlepaddle", "mxnet", "mpi4py", "ray", "numpy",
}

// maxEntries bounds the look into one folder of packages.
const maxEntries = 20_000

var (
	minor      = regexp.MustCompile(`^python(\d+\.\d+)$`)
	driverLine = regexp.MustCompile(`Kernel Module\s+(?:for \S+\s+)?(\d[\d.]*)`)
)

// factsOf looks at what the ranks will find below root, without running anything: env is theirs.
func factsOf(root string, command, env []string, dir string) *preflight.Facts {
	f := &preflight.Facts{Versions: map[string]string{}, FreeDisk: freeBytes(dir), SharedMemory: freeBytes("/dev/shm")}
	python := pythonOf(root, command, env, dir)
	version, folders := "", filepath.SplitList(lookupIn(env, "PYTHONPATH"))
	if python != "" {
		var more []string
		version, more = interpreter(root, python)
		folders = append(folders, more...)
	}
	if version != "" {
		f.Versions["python"] = version
	}
	for _, folder := range folders {
		if filepath.IsAbs(folder) {
			installed(within(root, folder), f.Versions)
		}
	}
	if v := imageOf(root); v != "" {
		f.Versions["image"] = v
	}
	if v := cudaOf(root); v != "" {
		f.Versions["cuda"] = v
	}
	if data, err := os.ReadFile("/proc/driver/nvidia/version"); err == nil {
		if m := driverLine.FindSubmatch(data); m != nil {
			f.Versions["driver"] = string(m[1])
		}
	}
	return f
}

// facts are the launcher's, where they are wanted.
func (l *launcher) facts() *preflight.Facts {
	if !l.replica.Preflight {
		return nil
	}
	f := factsOf(l.root(), l.replica.Command, environ(l.replica, l.dir, nil, credentials{}, l.base(), l.place), l.dir)
	if l.image != nil {
		f.Versions["image"] = l.image.Digest[:min(len(l.image.Digest), 39)]
	}
	return f
}

// freeBytes is the room on a folder's disk; 0 where it can't be asked.
func freeBytes(dir string) int64 {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0
	}
	return int64(st.Bavail) * st.Bsize
}

// pythonOf is the interpreter below root that the command names, or that PATH would give it; "": none.
func pythonOf(root string, command, env []string, dir string) string {
	name := "python3"
	if recipe.Python(command) {
		name = command[0]
	}
	if root != "/" {
		return findWithin(root, name, lookupIn(env, "PATH"))
	}
	file, err := inside.Find(name, dir, lookupIn(env, "PATH"))
	if err != nil {
		return ""
	}
	return file
}

// interpreter is its version, as its name or its environment's file says, and where it finds packages.
func interpreter(root, file string) (version string, folders []string) {
	home := filepath.Dir(filepath.Dir(file)) // of bin/python
	real, err := filepath.EvalSymlinks(within(root, file))
	if err != nil {
		return "", nil
	}
	if root != "/" {
		real = strings.TrimPrefix(real, root)
	}
	if m := minor.FindStringSubmatch(filepath.Base(real)); m != nil {
		version = m[1]
	}
	places := []string{home}
	if base := filepath.Dir(filepath.Dir(real)); base != home {
		if _, err := os.Stat(within(root, filepath.Join(home, "pyvenv.cfg"))); err != nil { // a link, no environment of its own
			places = append(places, base)
		}
	}
	for _, place := range places {
		folders = append(folders, filepath.Join(place, "lib", "python"+version, "site-packages"))
		if place == "/usr" {
			folders = append(folders, "/usr/local/lib/python"+version+"/dist-packages", "/usr/lib/python3/dist-packages")
		}
	}
	return version, folders
}

// installed adds the versions that a folder of packages tells by the names of its metadata; what an
// earlier folder had wins, as it does when it is imported.
func installed(folder string, versions map[string]string) {
	f, err := os.Open(folder)
	if err != nil {
		return
	}
	defer f.Close()
	names, _ := f.Readdirnames(maxEntries)
	found := map[string]string{}
	for _, name := range names {
		base, ok := strings.CutSuffix(name, ".dist-info")
		if !ok {
			if base, ok = strings.CutSuffix(name, ".egg-info"); !ok {
				continue
			}
		}
		parts := strings.Split(base, "-") // name-version, or name-version-py3.11
		if len(parts) < 2 || len(parts[1]) > 64 {
			continue
		}
		found[strings.ToLower(strings.ReplaceAll(parts[0], "_", "-"))] = parts[1]
	}
	for _, name := range packages {
		if v, ok := found[name]; ok && versions[name] == "" {
			versions[name] = v
		}
	}
}
