package rest

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// Prefix is where the API begins.
const Prefix = "/api/v1"

// Handler does the work of a route. It answers with a reply, a fault, or nothing at all when it
// has written the answer itself.
type Handler func(ctx context.Context, c *Call) (*Reply, error)

// Route is one row of the table from which dispatch, checks and the document follow.
type Route struct {
	Method, Path string // path in ServeMux's notation: {name}, {path...}
	ID           string // operation id
	Summary      string
	Tag          string
	Open         bool // needs no token
	Long         bool // may take longer than a usual request
	Kind         api.Kind
	// Verb is the audit's; "" is not audited. A look is a read of what tasks left, of which the handler says what was read.
	Verb   string
	Look   bool
	Query  []Param
	Body   *BodySpec
	Data   *huma.Schema // of data in the answer; of one event, where media has events
	Media  string       // content types of an answer that is not the usual JSON
	Handle Handler
}

// Changes says that the route is there to change something.
func (rt *Route) Changes() bool { return rt.Verb != "" && !rt.Look }

// BodySpec says what a route reads.
type BodySpec struct {
	Schema   *huma.Schema
	Media    []string
	Required bool
	Doc      string
	Example  map[string]any
	// Made is where the answer has the name of the object that was made of the body, in the words of OpenAPI's links;
	// "": none is made.
	Made string
}

// MediaEvents is the type of Server-Sent Events.
const MediaEvents = "text/event-stream"

// The types of bodies that routes read.
var (
	ManifestMedia = []string{"application/json", "application/yaml"}
	JsonMedia     = []string{"application/json"}
)

// The parameters that several routes have.
var (
	ParamProject  = Param{Name: "project", Doc: "The project; for lists all that you see when absent, else default."}
	ParamRevision = Param{Name: "minRevision", Form: FormInt, Doc: "Read at least this revision."}
	ParamForce    = Param{Name: "force", Form: FormBool, Doc: "Of what another trains inside: end both."}
	ParamDryRun   = Param{Name: "dryRun", Form: FormBool, Doc: "Only check."}
)

// ScopeParams are those of a route about one object of a kind.
func ScopeParams(row api.KindInfo) []Param {
	if row.Project {
		return []Param{ParamProject}
	}
	return nil
}
