package inspect

import (
	"bufio"
	"bytes"
	"encoding/json"
	"strings"

	"github.com/fermi-cluster/fermi/internal/launch/steward"
)

// maxFactFile bounds what is read of a file of the system's.
const maxFactFile = 64 << 10

// imageOf is what the ranks' system was made from, as its os-release says: the image and its version
// where it is one, otherwise the distribution's; "": it does not say.
func imageOf(s *steward.Steward) string {
	data, err := s.Text("/etc/os-release", maxFactFile)
	if err != nil {
		return ""
	}
	return imageIn(data)
}

func imageIn(data []byte) string {
	said := map[string]string{}
	lines := bufio.NewScanner(bytes.NewReader(data))
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

// cudaOf is the version of the toolkit; "": there is none. Those that Python packages bring are among packages.
func cudaOf(s *steward.Steward) string {
	data, err := s.Text("/usr/local/cuda/version.json", maxFactFile)
	if err != nil {
		return ""
	}
	return cudaIn(data)
}

func cudaIn(data []byte) string {
	var said struct {
		CUDA struct{ Version string } `json:"cuda"`
	}
	if json.Unmarshal(data, &said) != nil {
		return ""
	}
	return bounded(said.CUDA.Version)
}

// bounded is what a leader takes of a version.
func bounded(v string) string {
	if len(v) > 64 {
		v = strings.ToValidUTF8(v[:64], "")
	}
	return v
}
