package launch

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
)

// maxFactFile bounds what is read of a file of the system's.
const maxFactFile = 64 << 10

// imageOf is what the system below root was made from, as its os-release says: the image and its version
// where it is one, otherwise the distribution's; "": it does not say.
func imageOf(root string) string {
	f, err := os.Open(filepath.Join(root, "etc/os-release"))
	if err != nil {
		return ""
	}
	defer f.Close()
	said := map[string]string{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxFactFile)
	for n := 0; n < 256 && lines.Scan(); n++ {
		if name, value, ok := strings.Cut(lines.Text(), "="); ok {
			said[name] = strings.Trim(strings.TrimSpace(value), `"'`)
		}
	}
	words := []string{said["IMAGE_ID"], said["IMAGE_VERSION"]}
	if words[0] == "" {
		words = []string{said["ID"], said["VERSION_ID"], said["BUILD_ID"]}
	}
	return bounded(strings.Join(strings.Fields(strings.Join(words, " ")), " "))
}

// cudaOf is the version of the toolkit below root; "": there is none. Those that Python packages bring are among packages.
func cudaOf(root string) string {
	data, err := readSome(filepath.Join(root, "usr/local/cuda/version.json"))
	if err != nil {
		return ""
	}
	var said struct {
		CUDA struct{ Version string } `json:"cuda"`
	}
	if json.Unmarshal(data, &said) != nil {
		return ""
	}
	return bounded(said.CUDA.Version)
}

func readSome(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data := make([]byte, maxFactFile)
	n, err := f.Read(data)
	return data[:n], err
}

// bounded is what a leader takes of a version.
func bounded(v string) string {
	if len(v) > 64 {
		v = strings.ToValidUTF8(v[:64], "")
	}
	return v
}
