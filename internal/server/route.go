package server

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// prefix is where the API begins.
const prefix = "/api/v1"

// handler does the work of a route. It answers with a reply, a fault, or nothing at all when it
// has written the answer itself.
type handler func(ctx context.Context, c *call) (*reply, error)

// route is one row of the table from which dispatch, checks and the document follow.
type route struct {
	method, path string // path in ServeMux's notation: {name}, {path...}
	id           string // operation id
	summary      string
	tag          string
	open         bool // needs no token
	long         bool // may take longer than a usual request
	kind         api.Kind
	// verb is the audit's; "" is not audited. A look is a read of what tasks left, of which the handler says what was read.
	verb   string
	look   bool
	query  []param
	body   *bodySpec
	data   *huma.Schema // of data in the answer; of one event, where media has events
	media  string       // content types of an answer that is not the usual JSON
	handle handler
}

// changes says that the route is there to change something.
func (rt *route) changes() bool { return rt.verb != "" && !rt.look }

// bodySpec says what a route reads.
type bodySpec struct {
	schema   *huma.Schema
	media    []string
	required bool
	doc      string
	example  map[string]any
	// made is where the answer has the name of the object that was made of the body, in the words of OpenAPI's links;
	// "": none is made.
	made string
}

// mediaEvents is the type of Server-Sent Events.
const mediaEvents = "text/event-stream"

// The types of bodies that routes read.
var (
	manifestMedia = []string{"application/json", "application/yaml"}
	jsonMedia     = []string{"application/json"}
)

// The parameters that several routes have.
var (
	paramProject  = param{name: "project", doc: "The project; for lists all that you see when absent, else default."}
	paramRevision = param{name: "minRevision", form: formInt, doc: "Read at least this revision."}
	paramForce    = param{name: "force", form: formBool, doc: "Of a task that another trains inside: end both."}
	paramDryRun   = param{name: "dryRun", form: formBool, doc: "Only check."}
)

// scopeParams are those of a route about one object of a kind.
func scopeParams(row api.KindInfo) []param {
	if row.Project {
		return []param{paramProject}
	}
	return nil
}
