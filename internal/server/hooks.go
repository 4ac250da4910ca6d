package server

import (
	"context"
	"fmt"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store"
)

// hooks are what a kind has of its own. The handlers (list, get, watch, create, update, delete) know no kind by name:
// whatever differs between kinds is here, one row for each kind of api.Kinds, in a file of its own. A new kind needs
//
//   - its row in api.Kinds, which gives it routes, schemas and a place in the store;
//   - a function that gives its hooks, in its own file, and that function in the list of the package server.
//
// kind and access must be there; of what users may make, fresh and change too; of what has phases, filter. All else
// may be nil: then nothing is special about it. A server with a kind whose row is missing or lacks one of these is not
// built.
type hooks struct {
	kind   api.Kind
	access kindAccess
	// called is the name of what people call otherwise in a path.
	called func(ctx context.Context, text string) (string, error)
	read   reading
	// fresh refuses or clears what a new object must not carry, and fills in what follows from who makes it.
	fresh func(o api.Object, who *caller) error
	// references refuses what an object names and is not there; all of it at once.
	references func(ctx context.Context, c *call, o api.Object) error
	// admit checks a new object against others and settles what the server decides. It runs again when what it looked
	// at has moved before the commit. dry: nothing must be reserved or written.
	admit func(ctx context.Context, c *call, b *birth, dry bool) error
	// serial says that new ones are counted and written one at a time.
	serial bool
	born   bearing
	// change takes over into the next state what may change of an object. What it returns, if any, is called once that
	// state is prepared and valid, and refuses what does not fit to the other objects.
	change func(ctx context.Context, c *call, a *alteration) (check func() error)
	// keep writes down what a change or the end (next is nil) of an object would make forgotten, before the commit.
	keep    func(ctx context.Context, current, next api.Object) error
	filter  *filtering
	present presenting
	remove  removing
}

// reading is how the body of a create becomes an object.
type reading struct {
	// instead answers a body that asks for something else than an object as it stands there. A nil reply without an
	// error: the body is taken the usual way.
	instead func(ctx context.Context, c *call, data []byte) (*reply, error)
	// decode reads further forms beside the manifest.
	decode func(data []byte) (api.Object, error)
	// foreign says that a body is in such a form.
	foreign func(data []byte) bool
	// settle puts the names of other objects in the place of what people call them.
	settle func(ctx context.Context, o api.Object) error
	// example is the manifest that the document shows.
	example map[string]any
	// schema is that of the body; nil: the object's.
	schema func(reg *schemas) *huma.Schema
}

// bearing is how a create is answered.
type bearing struct {
	message fault.Text // zero: Created
	// data is what a create answers with; nil: the object. secret is what admit has put into the birth.
	data   func(o api.Object, secret string) any
	schema func(reg *schemas) *huma.Schema
	// at is where data has the object's name: "/name"; "": "/metadata/name".
	at string
}

// filtering is what lists and watches of a kind with phases choose by.
type filtering struct {
	phases []string
	// by is in which queue an object is, and its phase.
	by func(o api.Object) (queue, phase string)
}

// presenting is what people see of an object.
type presenting struct {
	// hide removes what nobody may see, without touching the shared object.
	hide func(o api.Object) api.Object
	// fill gives a function that fills in what is computed on read, in the place of hide.
	fill func(ctx context.Context) (func(o api.Object) api.Object, error)
	// detail fills in what only who asks for this one object gets.
	detail func(ctx context.Context, o api.Object) (api.Object, error)
}

// removing is how an object is deleted.
type removing struct {
	// params are those of the route beside the project.
	params []param
	// mark has a controller end an object; nil: it goes at once, unless it is used.
	mark func(ctx context.Context, c *call, o api.Object) (*reply, error)
	// unused refuses with InUse when something refers to the object, as of rev; the operations must hold at the commit.
	unused func(ctx context.Context, o api.Object, rev int64) ([]store.Op, error)
	// bytes deletes what an archived object left; forgotten hears that nothing is left of it.
	bytes     func(ctx context.Context, id string) error
	forgotten func(id string)
}

// birth is everything a create writes and answers.
type birth struct {
	object api.Object
	ops    []store.Op // guards beside the create
	undo   func()     // gives back what admission reserved
	secret string
}

// alteration is a change that somebody asks for.
type alteration struct {
	current, given, next api.Object
	guards               []store.Op // must hold at the commit
}

// kinds is the table of hooks.
type kinds struct {
	by    map[api.Kind]*hooks
	rules *rules
}

func newKinds(r *rules) *kinds { return &kinds{by: map[api.Kind]*hooks{}, rules: r} }

// add takes rows in; the server is not built before all are there.
func (k *kinds) add(rows ...*hooks) error {
	for _, h := range rows {
		info, ok := api.InfoOf(h.kind)
		switch {
		case !ok:
			return fmt.Errorf("server: %q is no kind of the API", h.kind)
		case k.by[h.kind] != nil:
			return fmt.Errorf("server: the kind %s has two rows of hooks", h.kind)
		case info.Users && (h.fresh == nil || h.change == nil):
			return fmt.Errorf("server: users may make a %s, but its hooks do not say what is fresh and what may change", h.kind)
		case info.Phased && h.filter == nil:
			return fmt.Errorf("server: a %s has phases, but its hooks do not say how to filter by them", h.kind)
		}
		k.by[h.kind] = h
		k.rules.add(info, h.access)
	}
	return nil
}

// complete refuses a table in which a kind of the API has no row.
func (k *kinds) complete() error {
	for _, info := range api.Kinds {
		if k.by[info.Kind] == nil {
			return fmt.Errorf("server: the kind %s has no row of hooks", info.Kind)
		}
	}
	return nil
}

// hide removes what nobody may see, without touching the shared object.
func (k *kinds) hide(o api.Object) api.Object {
	if h := k.by[o.Kind()]; h != nil && h.present.hide != nil {
		return h.present.hide(o)
	}
	return o
}

// presenter shows objects of a kind: secrets hidden, and what is computed on read filled in.
func (k *kinds) presenter(ctx context.Context, kind api.Kind) (func(api.Object) api.Object, error) {
	if fill := k.by[kind].present.fill; fill != nil {
		return fill(ctx)
	}
	return k.hide, nil
}

// phased are the kinds whose objects end.
func (k *kinds) phased() []api.Kind {
	var out []api.Kind
	for _, info := range api.Kinds {
		if info.Phased {
			out = append(out, info.Kind)
		}
	}
	return slices.Clip(out)
}
