package conf

import (
	"strconv"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// Envs are the operator's words about development environments. Times and amounts are as a manifest writes them; who applies them reads them.
type Envs struct {
	IdleAfter, IdleMost      string
	Accelerators, Cores      int
	Memory, Storage          string
	UserRunning, UserDevices int
	UserStorage              string
	Images                   []string // the beginnings of names that images may have; none: any
}

// amount is a text that its user reads.
type amount string

func (a *amount) set(s string) *fault.Text {
	if len(s) > 32 {
		return bad("expected an amount such as 2h or 50Gi", "应为数量，例如 2h 或 50Gi")
	}
	*a = amount(s)
	return nil
}

func (a *amount) yaml() string { return strconv.Quote(string(*a)) }
