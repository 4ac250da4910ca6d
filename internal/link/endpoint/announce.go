package endpoint

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"strings"
	"time"

	"github.com/fermi-cluster/fermi/internal/clock"
)

// Announcement makes a listener that serves with ServerTLS known to launchers.
type Announcement struct {
	File string          // of targets
	Own  string          // a file of this server alone: what it announced last, perhaps before it was restarted
	Keys func() [][]byte // as of ServerTLS
}

// lookAgain is how often the key is looked at: who dials with the old pin tries again.
const lookAgain = time.Second

// Run announces an address, and again whenever the key changes, until ctx ends.
func (a Announcement) Run(ctx context.Context, at net.Addr) error {
	var told []byte
	for {
		if key := a.Keys()[0]; !bytes.Equal(told, key) {
			if err := a.announce(at.String(), key); err != nil {
				return err
			}
			told = bytes.Clone(key)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-clock.Real.After(lookAgain):
		}
	}
}

func (a Announcement) announce(address string, key []byte) error {
	target, err := Target(address, key)
	if err != nil {
		return err
	}
	old, err := os.ReadFile(a.Own)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := Add(a.File, strings.TrimSpace(string(old)), target); err != nil {
		return err
	}
	return os.WriteFile(a.Own, []byte(target+"\n"), 0o600)
}
