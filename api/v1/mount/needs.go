package mount

import (
	"path"
	"strings"

	"github.com/fermi-cluster/fermi/internal/pattern"
)

// Needs are what a workload's processes find beside its code: datasets and models read-only, each at its path, repositories in its home, and folders
// of the machines.
type Needs struct {
	Lists
	Clones  []Clone
	Volumes []Volume
	// Home is the version of a dataset, a snapshot of a home, that its home begins with; nil: it begins empty.
	Home *AssetRef
}

// Clone is a repository that a home has from a start on.
type Clone struct {
	URL        string `json:"url"`
	Revision   string `json:"revision,omitempty"`
	Submodules bool   `json:"submodules,omitempty"`
	Secret     string `json:"secret,omitempty"`
	Folder     string `json:"folder"`          // in the home; one that is there is left as it is
	Links      bool   `json:"links,omitempty"` // what begins with a dot in it is linked into the home
	Field      string `json:"field"`           // that names it
}

var folderName = pattern.New(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)

// FolderName is what git would call the folder of a repository at this address.
func FolderName(url string) string {
	name := strings.TrimSuffix(path.Base(strings.ReplaceAll(strings.TrimRight(url, "/"), ":", "/")), ".git")
	if !folderName.MatchString(name) {
		return "repository"
	}
	return name
}
