package server

import (
	"context"
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// maxGathered bounds what one answer says.
const maxGathered = 100

// gathered collects refused fields of several checks, so that a person is told all of them at once.
type gathered struct {
	fields []fault.Field
	first  error // the only one keeps its own words
	many   bool
	other  error // what is no fault of a field ends the check
}

// take keeps what a check found; nil is nothing.
func (g *gathered) take(err error) {
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
		if len(g.fields) < maxGathered && !slices.ContainsFunc(g.fields, func(have fault.Field) bool { return have.Path == f.Path }) {
			g.fields = append(g.fields, f)
		}
	}
}

func (g *gathered) err() error {
	switch {
	case g.other != nil:
		return g.other
	case !g.many:
		return g.first
	}
	return fault.New(fault.Invalid, "InvalidField", fault.T(
		"%d fields have values that cannot be used.", "%d 个字段的值无法使用。", len(g.fields))).WithFields(g.fields...)
}

// alsoWrong adds to why a manifest can't be read what is wrong with the rest of it. What it names is looked up only in
// a project that the caller may write to.
func (s *Server) alsoWrong(ctx context.Context, c *call, row api.KindInfo, data []byte, err error) error {
	e := fault.From(err)
	if row.Kind != api.KindTrainingTask || e.Code != fault.Invalid || len(e.Fields) == 0 || len(e.Fields) >= maxGathered {
		return err
	}
	if _, flat := flatFields(data); flat {
		return err
	}
	rest, also := api.AlsoWrong(row.Kind, data, e.Fields)
	var all gathered
	all.take(err)
	if len(also) > 0 {
		all.take(fault.New(fault.Invalid, "InvalidField", fault.Text{}).WithFields(also...))
	}
	if t, ok := rest.(*api.TrainingTask); ok && s.mayWrite(ctx, c.who, t) == nil {
		if missing := s.references(ctx, c, t); fault.Is(missing, fault.Invalid) && len(fault.From(missing).Fields) > 0 {
			all.take(missing)
		}
	}
	return all.err()
}

// alsoMissing adds to why a new task is refused what it names that is not there.
func (s *Server) alsoMissing(ctx context.Context, c *call, o api.Object, err error) error {
	t, ok := o.(*api.TrainingTask)
	if !ok || !fault.Is(err, fault.Invalid) || len(fault.From(err).Fields) == 0 {
		return err
	}
	var all gathered
	all.take(err)
	if missing := s.references(ctx, c, t); fault.Is(missing, fault.Invalid) && len(fault.From(missing).Fields) > 0 {
		all.take(missing)
	}
	return all.err()
}
