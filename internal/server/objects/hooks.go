package objects

import (
	"context"
	"fmt"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Hooks are what a kind has of its own. The handlers (list, get, watch, create, update, delete) know no kind by name:
// whatever differs between kinds is here, one row for each kind of api.Kinds, in a file of its own. A new kind needs
//
//   - its row in api.Kinds, which gives it routes, schemas and a place in the store;
//   - a function that gives its hooks, in its own file, and that function in the list of the package server.
//
// kind and access must be there; of what users may make, fresh and change too; of what has phases, filter. All else
// may be nil: then nothing is special about it. A server with a kind whose row is missing or lacks one of these is not
// built.
type Hooks struct {
	Kind   api.Kind
	Access access.Kind
	// Called is the name of what people call otherwise in a path.
	Called func(ctx context.Context, text string) (string, error)
	Read   Reading
	// Fresh refuses or clears what a new object must not carry, and fills in what follows from who makes it.
	Fresh func(o api.Object, who *access.Caller) error
	// References refuses what an object names and is not there; all of it at once.
	References func(ctx context.Context, c *rest.Call, o api.Object) error
	// Admit checks a new object against others and settles what the server decides. It runs again when what it looked
	// at has moved before the commit. dry: nothing must be reserved or written.
	Admit func(ctx context.Context, c *rest.Call, b *Birth, dry bool) error
	// Serial says that new ones are counted and written one at a time.
	Serial bool
	Born   Bearing
	// Change takes over into the next state what may change of an object. What it returns, if any, is called once that
	// state is prepared and valid, and refuses what does not fit to the other objects.
	Change func(ctx context.Context, c *rest.Call, a *Alteration) (check func() error)
	// Keep writes down what a change or the end (next is nil) of an object would make forgotten, before the commit.
	Keep    func(ctx context.Context, current, next api.Object) error
	Filter  *Filtering
	Present Presenting
	Remove  Removing
}

// Reading is how the body of a create becomes an object.
type Reading struct {
	// Instead answers a body that asks for something else than an object as it stands there. A nil reply without an
	// error: the body is taken the usual way.
	Instead func(ctx context.Context, c *rest.Call, data []byte) (*rest.Reply, error)
	// Decode reads further forms beside the manifest.
	Decode func(data []byte) (api.Object, error)
	// Foreign says that a body is in such a form.
	Foreign func(data []byte) bool
	// Settle puts the names of other objects in the place of what people call them.
	Settle func(ctx context.Context, o api.Object) error
	// Example is the manifest that the document shows.
	Example map[string]any
	// Schema is that of the body; nil: the object's.
	Schema func(reg *rest.Schemas) *huma.Schema
}

// Bearing is how a create is answered.
type Bearing struct {
	Message fault.Text // zero: Created
	// Data is what a create answers with; nil: the object. secret is what admit has put into the birth.
	Data   func(o api.Object, secret string) any
	Schema func(reg *rest.Schemas) *huma.Schema
	// At is where data has the object's name: "/name"; "": "/metadata/name".
	At string
}

// Filtering is what lists and watches of a kind with phases choose by.
type Filtering struct {
	Phases []string
	// By is in which queue an object is, and its phase.
	By func(o api.Object) (queue, phase string)
}

// Presenting is what people see of an object.
type Presenting struct {
	// Hide removes what nobody may see, without touching the shared object.
	Hide func(o api.Object) api.Object
	// Fill gives a function that fills in what is computed on read, in the place of hide.
	Fill func(ctx context.Context) (func(o api.Object) api.Object, error)
	// Detail fills in what only who asks for this one object gets.
	Detail func(ctx context.Context, o api.Object) (api.Object, error)
}

// Removing is how an object is deleted.
type Removing struct {
	// Params are those of the route beside the project.
	Params []rest.Param
	// Mark has a controller end an object; nil: it goes at once, unless it is used.
	Mark func(ctx context.Context, c *rest.Call, o api.Object) (*rest.Reply, error)
	// Unused refuses with InUse when something refers to the object, as of rev; the operations must hold at the commit.
	Unused func(ctx context.Context, o api.Object, rev int64) ([]store.Op, error)
	// Bytes deletes what an archived object left; forgotten hears that nothing is left of it.
	Bytes     func(ctx context.Context, id string) error
	Forgotten func(id string)
}

// Birth is everything a create writes and answers.
type Birth struct {
	Object api.Object
	Ops    []store.Op // guards beside the create
	Undo   func()     // gives back what admission reserved
	Secret string
}

// Alteration is a change that somebody asks for.
type Alteration struct {
	Current, Given, Next api.Object
	Guards               []store.Op // must hold at the commit
}

// Kinds is the table of hooks.
type Kinds struct {
	by    map[api.Kind]*Hooks
	rules *access.Rules
}

func NewKinds(r *access.Rules) *Kinds { return &Kinds{by: map[api.Kind]*Hooks{}, rules: r} }

// Add takes rows in; the server is not built before all are there.
func (k *Kinds) Add(rows ...*Hooks) error {
	for _, h := range rows {
		info, ok := api.InfoOf(h.Kind)
		switch {
		case !ok:
			return fmt.Errorf("server: %q is no kind of the API", h.Kind)
		case k.by[h.Kind] != nil:
			return fmt.Errorf("server: the kind %s has two rows of hooks", h.Kind)
		case info.Users && (h.Fresh == nil || h.Change == nil):
			return fmt.Errorf("server: users may make a %s, but its hooks do not say what is fresh and what may change", h.Kind)
		case info.Phased && h.Filter == nil:
			return fmt.Errorf("server: a %s has phases, but its hooks do not say how to filter by them", h.Kind)
		}
		k.by[h.Kind] = h
		k.rules.Add(info, h.Access)
	}
	return nil
}

// Complete refuses a table in which a kind of the API has no row.
func (k *Kinds) Complete() error {
	for _, info := range api.Kinds {
		if k.by[info.Kind] == nil {
			return fmt.Errorf("server: the kind %s has no row of hooks", info.Kind)
		}
	}
	return nil
}

// Of is the row of a kind; nil where there is none.
func (k *Kinds) Of(kind api.Kind) *Hooks { return k.by[kind] }

// Hide removes what nobody may see, without touching the shared object.
func (k *Kinds) Hide(o api.Object) api.Object {
	if h := k.by[o.Kind()]; h != nil && h.Present.Hide != nil {
		return h.Present.Hide(o)
	}
	return o
}

// presenter shows objects of a kind: secrets hidden, and what is computed on read filled in.
func (k *Kinds) presenter(ctx context.Context, kind api.Kind) (func(api.Object) api.Object, error) {
	if fill := k.by[kind].Present.Fill; fill != nil {
		return fill(ctx)
	}
	return k.Hide, nil
}

// phased are the kinds whose objects end.
func (k *Kinds) phased() []api.Kind {
	var out []api.Kind
	for _, info := range api.Kinds {
		if info.Phased {
			out = append(out, info.Kind)
		}
	}
	return slices.Clip(out)
}
