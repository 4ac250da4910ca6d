package inspect

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/launch/process"
	"github.com/fermi-cluster/fermi/internal/launch/steward"
	"github.com/fermi-cluster/fermi/internal/pattern"
	"github.com/fermi-cluster/fermi/internal/preflight"
	"github.com/fermi-cluster/fermi/internal/recipe"
)

// packages are those whose versions must agree between processes that talk to each other.
var packages = []string{
	"torch", "nvidia-cuda-runtime-cu11", "nvidia-cuda-runtime-cu12", "nvidia-cuda-runtime", "tensorflow", "jax", "jaxlib", "deepspeed", "horovod", "megatron-core", "paddlepaddle", "mxnet", "mpi4py", "ray", "numpy",
}

// Bounds of the look at folders of packages: entries of one, and how many.
const (
	maxEntries = 20_000
	maxFolders = 64
)

var (
	minor      = pattern.New(`^python(\d+\.\d+)$`)
	driverLine = pattern.New(`Kernel Module\s+(?:for \S+\s+)?(\d[\d.]*)`)
)

// FactsOf looks at what the ranks will find, without running anything: env is theirs. The steward looks, with their rights and
// at the same system as they.
func FactsOf(s *steward.Steward, command, env []string, dir string) *preflight.Facts {
	f := &preflight.Facts{Versions: map[string]string{}, FreeDisk: freeBytes(dir), SharedMemory: freeBytes("/dev/shm")}
	python := PythonOf(s, command, env, dir)
	version, folders := "", filepath.SplitList(process.Lookup(env, "PYTHONPATH"))
	if python != "" {
		var more []string
		version, more = interpreter(s, python)
		folders = append(folders, more...)
	}
	if version != "" {
		f.Versions["python"] = version
	}
	for _, folder := range folders[:min(len(folders), maxFolders)] {
		if filepath.IsAbs(folder) {
			installed(s, folder, f.Versions)
		}
	}
	if v := imageOf(s); v != "" {
		f.Versions["image"] = v
	}
	if v := cudaOf(s); v != "" {
		f.Versions["cuda"] = v
	}
	if v := driverOf(); v != "" {
		f.Versions["driver"] = v
	}
	return f
}

// driverOf is the version of the kernel's module; "": there is none.
func driverOf() string {
	data, err := os.ReadFile("/proc/driver/nvidia/version")
	if err != nil {
		return ""
	}
	m := driverLine.FindSubmatch(data)
	if m == nil {
		return ""
	}
	return string(m[1])
}

// freeBytes is the room on a folder's disk; 0 where it can't be asked.
func freeBytes(dir string) int64 {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0
	}
	return int64(st.Bavail) * st.Bsize
}

// PythonOf is the interpreter that the command names, or that PATH would give it; "": none.
func PythonOf(s *steward.Steward, command, env []string, dir string) string {
	name := "python3"
	if recipe.Python(command) {
		name = command[0]
	}
	file, err := s.Find(name, dir, process.Lookup(env, "PATH"))
	if err != nil {
		return ""
	}
	return file
}

// interpreter is its version, as its name or its environment's file says, and where it finds packages.
func interpreter(s *steward.Steward, file string) (version string, folders []string) {
	home := filepath.Dir(filepath.Dir(file)) // of bin/python
	real, _, err := s.Real(file)
	if err != nil {
		return "", nil
	}
	if m := minor.FindStringSubmatch(filepath.Base(real)); m != nil {
		version = m[1]
	}
	places := []string{home}
	if base := filepath.Dir(filepath.Dir(real)); base != home {
		if _, _, err := s.Real(filepath.Join(home, "pyvenv.cfg")); err != nil { // a link, no environment of its own
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
func installed(s *steward.Steward, folder string, versions map[string]string) {
	names, _ := s.Names(folder, maxEntries)
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
