package refuse

import (
	"slices"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// MaxGathered bounds what one answer says.
const MaxGathered = 100

// Gathered collects refused fields of several checks, so that a person is told all of them at once.
type Gathered struct {
	fields []fault.Field
	first  error // the only one keeps its own words
	many   bool
	other  error // what is no fault of a field ends the check
}

// Take keeps what a check found; nil is nothing.
func (g *Gathered) Take(err error) {
	if err == nil {
		return
	}
	e := fault.From(err)
	if e.Code != fault.Invalid || len(e.Fields) == 0 {
		if g.other == nil {
			g.other = err
		}
		return
	}
	g.many = g.first != nil
	if g.first == nil {
		g.first = err
	}
	for _, f := range e.Fields {
		if len(g.fields) < MaxGathered && !slices.ContainsFunc(g.fields, func(have fault.Field) bool { return have.Path == f.Path }) {
			g.fields = append(g.fields, f)
		}
	}
}

func (g *Gathered) Err() error {
	switch {
	case g.other != nil:
		return g.other
	case !g.many:
		return g.first
	}
	return fault.New(fault.Invalid, "InvalidField", fault.T(
		"%d fields have values that cannot be used.", "%d 个字段的值无法使用。", len(g.fields))).WithFields(g.fields...)
}
