package usage

import (
	"errors"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Faults collects what is wrong with flags, so that all of it is said at once.
type Faults []fault.Field

func (f *Faults) Add(flag string, message fault.Text) {
	*f = append(*f, fault.Field{Path: flag, Message: message})
}

// Check notes an error of one of api's parsers, which speak both languages.
func (f *Faults) Check(flag string, err error) {
	var value *api.ValueError
	switch {
	case err == nil:
	case errors.As(err, &value):
		f.Add(flag, value.Text)
	default:
		f.Add(flag, fault.Text{EN: err.Error()})
	}
}

// Pairs reads K=V flags in order.
func (f *Faults) Pairs(flag string, list []string, each func(k, v string)) {
	for _, kv := range list {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			f.Add(flag, fault.T("%q is not of the form K=V.", "%q 不是 K=V 的形式。", kv))
			continue
		}
		each(k, v)
	}
}
