package app

import (
	"fmt"
	"os"

	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/seal"
)

// The keys of a folder, each in a file that only its owner reads.
const (
	linkKeyFile   = "link.key"   // by which launchers and servers know each other
	secretKeyFile = "secret.key" // by which secrets are sealed
)

// readKey reads a key that somebody kept.
func readKey(path string) ([]byte, error) {
	raw, err := os.ReadFile(path)
	if err == nil && len(raw)%seal.KeyBytes == 0 && len(raw) > 0 && len(raw) <= 2*seal.KeyBytes {
		return raw, nil
	}
	if err == nil {
		err = fmt.Errorf("%d bytes", len(raw))
	}
	return nil, fault.New(fault.Invalid, "BadKey", fault.T("%s is no secret.key of Fermi; nothing was changed.", "%s 不是 Fermi 的 secret.key，未做任何改动。", path)).Because(err)
}
