package call

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// remembered is what the user chose once for all, by server.
type remembered struct {
	Projects map[string]string `json:"projects,omitempty"`
}

const maxRemembered = 1 << 20

// rememberedFile is in the user's own settings: $XDG_CONFIG_HOME/fermi/cli.json.
func rememberedFile() (string, error) {
	dir, err := os.UserConfigDir()
	return filepath.Join(dir, "fermi", "cli.json"), err
}

// Recall reads it; what can't be read was never chosen.
func Recall() (r remembered) {
	file, err := rememberedFile()
	if err != nil {
		return r
	}
	if info, err := os.Stat(file); err != nil || info.Size() > maxRemembered {
		return r
	}
	if data, err := os.ReadFile(file); err != nil || json.Unmarshal(data, &r) != nil {
		return remembered{}
	}
	return r
}

func (r remembered) Keep() error {
	file, err := rememberedFile()
	if err != nil {
		return fault.From(err)
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fault.From(err)
	}
	return ReplaceFile(file, append(data, '\n'))
}

// ReplaceFile writes a small file of the user's own, whole or not at all.
func ReplaceFile(file string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return BadFile(file, err)
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".new-*")
	if err != nil {
		return BadFile(file, err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return BadFile(file, err)
	}
	return nil
}

// Server is the address asked for.
func (s *Session) Server() string {
	return First(s.Flags.Server, os.Getenv("FERMI_SERVER"), DefaultServer)
}
