package rest

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/spot"
	"github.com/fermi-cluster/fermi/api/v1/where"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// The document is made from the Go types. What their JSON form hides from reflection is told
// here: quantities are strings with a pattern, some strings are one of a set.

const (
	patternBytes    = `^[0-9]+(\.[0-9]+)?([eE][0-9]+|Ki|Mi|Gi|Ti|Pi|Ei|m|k|M|G|T|P|E)?$`
	patternCPU      = `^[0-9]+(\.[0-9]+)?([eE][0-9]+|m|k|M)?$`
	patternSpan     = `^([0-9]+|[0-9]+\.\.[0-9]*|\.\.[0-9]+)$`
	patternName     = `^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`
	patternDigest   = `^sha256:[0-9a-f]{64}$`
	patternDuration = `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
)

type bytesSchema struct{}

func (bytesSchema) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Pattern: patternBytes, Description: "Bytes as a quantity, such as 16Gi.", Examples: []any{"16Gi"}}
}

type cpuSchema struct{}

func (cpuSchema) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Pattern: patternCPU, Description: "Cores as a quantity, such as 500m or 64.", Examples: []any{"500m"}}
}

type durationSchema struct{}

func (durationSchema) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Pattern: patternDuration, Description: "A time span with its unit, such as 90s or 1h30m.", Examples: []any{"1h30m"}}
}

type slotsSchema struct{}

func (slotsSchema) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, ContentEncoding: "base64", Description: "12 bytes a replica: the node's number and a mask of its devices, big-endian."}
}

type frameworkSchema struct{}

func (frameworkSchema) Schema(huma.Registry) *huma.Schema {
	return oneOf("Launch recipe.", api.Frameworks...)
}

type phaseSchema struct{}

func (phaseSchema) Schema(huma.Registry) *huma.Schema {
	return oneOf("Where the task stands.", TaskPhases...)
}

type roleSchema struct{}

func (roleSchema) Schema(huma.Registry) *huma.Schema {
	return oneOf("What the user may do.", api.RoleAdmin, api.RoleOperator, api.RoleMember, api.RoleViewer)
}

type scopeSchema struct{}

func (scopeSchema) Schema(huma.Registry) *huma.Schema {
	return oneOf("How much of its user's power a token carries.", api.ScopeRead, api.ScopeTasks, api.ScopeAdmin)
}

type useSchema struct{}

func (useSchema) Schema(huma.Registry) *huma.Schema {
	return oneOf("Which door a token opens; absent for programs.", api.UseSession, api.UseCode, api.TokenUse("join"))
}

type healthSchema struct{}

func (healthSchema) Schema(huma.Registry) *huma.Schema {
	return oneOf("The state of the zone.", api.ZoneHealthy, api.ZoneDegraded)
}

type shareSchema struct{}

func (shareSchema) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Pattern: patternCPU, Description: "Part of one device as a quantity, such as 500m; a number such as 0.5 is read too.", Examples: []any{"500m"}}
}

type topologySchema struct{}

func (topologySchema) Schema(huma.Registry) *huma.Schema {
	low := 1.0
	return &huma.Schema{Description: "How the gang lies in racks.", OneOf: []*huma.Schema{
		oneOf("In few racks, or in many.", api.TopologyPack, api.TopologySpread),
		Object([]string{"maxPerRack"}, map[string]*huma.Schema{"maxPerRack": {Type: huma.TypeInteger, Minimum: &low, Description: "Replicas in one rack, at most."}}),
	}}
}

type spanSchema struct{}

func (spanSchema) Schema(huma.Registry) *huma.Schema {
	low := 1.0
	return &huma.Schema{Description: "How many replicas stand in a zone.", OneOf: []*huma.Schema{
		{Type: huma.TypeInteger, Minimum: &low, Description: "So many."},
		{Type: huma.TypeString, Pattern: patternSpan, Description: "At least and at most, such as 2..6 or 2.. for two or more.", Examples: []any{"2..6"}},
	}}
}

type regionSchema struct{}

func (regionSchema) Schema(huma.Registry) *huma.Schema {
	return oneOf("How much the gang insists on one region.", api.RegionPrefer, api.RegionRequire)
}

type spotSchema struct{}

func (spotSchema) Schema(huma.Registry) *huma.Schema {
	return oneOf("Whether the gang may stand on nodes that may be taken away at short notice.", spot.Never, spot.Prefer, spot.Only)
}

type deferralSchema struct{}

func (deferralSchema) Schema(huma.Registry) *huma.Schema {
	return oneOf("Which hours before its deadline the task waits for.", api.DeferCheap, api.DeferGreen)
}

var TaskPhases = []api.Phase{
	api.PhasePending, api.PhaseInitializing, api.PhaseRunning, api.PhaseRecovering,
	api.PhaseCompleted, api.PhaseFailed, api.PhaseStopped,
}

func oneOf[S ~string](doc string, words ...S) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString, Description: doc}
	for _, w := range words {
		s.Enum = append(s.Enum, string(w))
	}
	return s
}

// Schemas makes and keeps the schemas of the document.
type Schemas struct{ reg huma.Registry }

func NewSchemas(reg huma.Registry) *Schemas {
	alias := func(t, as reflect.Type) { reg.RegisterTypeAlias(t, as) }
	alias(reflect.TypeFor[api.Bytes](), reflect.TypeFor[bytesSchema]())
	alias(reflect.TypeFor[api.MilliCPU](), reflect.TypeFor[cpuSchema]())
	alias(reflect.TypeFor[api.Duration](), reflect.TypeFor[durationSchema]())
	alias(reflect.TypeFor[api.Slots](), reflect.TypeFor[slotsSchema]())
	alias(reflect.TypeFor[api.Framework](), reflect.TypeFor[frameworkSchema]())
	alias(reflect.TypeFor[api.Phase](), reflect.TypeFor[phaseSchema]())
	alias(reflect.TypeFor[api.UserRole](), reflect.TypeFor[roleSchema]())
	alias(reflect.TypeFor[api.TokenScope](), reflect.TypeFor[scopeSchema]())
	alias(reflect.TypeFor[api.TokenUse](), reflect.TypeFor[useSchema]())
	alias(reflect.TypeFor[api.ZoneHealth](), reflect.TypeFor[healthSchema]())
	alias(reflect.TypeFor[api.Share](), reflect.TypeFor[shareSchema]())
	alias(reflect.TypeFor[where.Span](), reflect.TypeFor[spanSchema]())
	alias(reflect.TypeFor[api.Topology](), reflect.TypeFor[topologySchema]())
	alias(reflect.TypeFor[api.RegionRule](), reflect.TypeFor[regionSchema]())
	alias(reflect.TypeFor[spot.Rule](), reflect.TypeFor[spotSchema]())
	alias(reflect.TypeFor[api.Deferral](), reflect.TypeFor[deferralSchema]())
	s := &Schemas{reg: reg}
	s.Of(reflect.TypeFor[fault.Text]())
	return s
}

func (s *Schemas) Of(t reflect.Type) *huma.Schema { return s.reg.Schema(t, true, t.Name()) }

func SchemaOf[T any](s *Schemas) *huma.Schema { return s.Of(reflect.TypeFor[T]()) }

// Kind is the schema of a kind's objects.
func (s *Schemas) Kind(row api.KindInfo) *huma.Schema {
	return s.Of(reflect.TypeOf(row.New()).Elem())
}

// Object has these properties and no others.
func Object(required []string, properties map[string]*huma.Schema) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, Properties: properties, Required: required, AdditionalProperties: false}
}

func ListOf(item *huma.Schema) *huma.Schema { return &huma.Schema{Type: huma.TypeArray, Items: item} }

func TextSchema(doc string) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Description: doc}
}

func NumberSchema(doc string) *huma.Schema {
	return &huma.Schema{Type: huma.TypeInteger, Format: "int64", Description: doc}
}

// Page is the data of a list.
func Page(item *huma.Schema) *huma.Schema {
	return Object([]string{"items"}, map[string]*huma.Schema{
		"items":    ListOf(item),
		"next":     TextSchema("Give it as cursor for the next page; absent on the last."),
		"revision": NumberSchema("Of the live part."),
	})
}

// EventSchema is one Server-Sent Event whose data is JSON.
func EventSchema(data *huma.Schema, names ...string) *huma.Schema {
	return Object([]string{"data", "event"}, map[string]*huma.Schema{
		"event": oneOf("message where there is no such line.", names...),
		"id":    TextSchema("Give it as Last-Event-ID to go on from here."),
		"data": {Type: huma.TypeString, Extensions: map[string]any{
			"contentMediaType": "application/json", "contentSchema": data,
		}},
	})
}

// RefusedName is the one answer of all refusals, whatever their status.
const RefusedName = "Refused"

func NewDocument(version string) *huma.OpenAPI {
	if version == "" {
		version = "dev"
	}
	return &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title: "Fermi", Version: version,
			Description: "AI work on clusters of accelerators. Every answer is {code, message, data}; every refusal carries a machine-readable reason. Write answers carry the header Fermi-Revision; a read with minRevision sees that write. Fields of metadata that the server makes (id, owner, revision, times) and status are never taken from users. In a manifest null counts as absent.",
		},
		Components: &huma.Components{
			Schemas: huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer),
			SecuritySchemes: map[string]*huma.SecurityScheme{
				"session": {Type: "apiKey", In: "cookie", Name: "fermi_session", Description: "For browsers; __Host-fermi_session over HTTPS. Whatever changes something must come from the same origin."},
				"token":   {Type: "http", Scheme: "bearer", BearerFormat: "fermi_<name>_<secret>"},
			},
		},
	}
}

// Operation is the route's place in the document.
func (rt *Route) Operation() *huma.Operation {
	op := &huma.Operation{
		Method: rt.Method, Path: rt.Path, OperationID: rt.ID, Summary: rt.Summary,
		SkipValidateParams: true, SkipValidateBody: true,
		Responses: map[string]*huma.Response{},
	}
	if rt.Tag != "" {
		op.Tags = []string{rt.Tag}
	}
	if !rt.Open {
		op.Security = []map[string][]string{{"token": {}}, {"session": {}}}
	}
	for segment := range strings.SplitSeq(rt.Path, "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			name = strings.TrimSuffix(strings.TrimSuffix(name, "}"), "...")
			op.Parameters = append(op.Parameters, &huma.Param{Name: name, In: "path", Required: true, Schema: pathSchema(name)})
		}
	}
	for _, p := range rt.Query {
		op.Parameters = append(op.Parameters, p.document())
	}
	if rt.Body != nil {
		op.RequestBody = &huma.RequestBody{Description: rt.Body.Doc, Required: rt.Body.Required, Content: map[string]*huma.MediaType{}}
		for _, media := range rt.Body.Media {
			op.RequestBody.Content[media] = &huma.MediaType{Schema: rt.Body.Schema}
			if rt.Body.Example != nil {
				op.RequestBody.Content[media].Example = rt.Body.Example
			}
		}
	}
	op.Responses["200"] = rt.good()
	if rt.Body != nil && rt.Body.Made != "" {
		op.Responses["200"].Links = map[string]*huma.Link{}
		for _, verb := range []string{"get", "update", "delete"} {
			id := verb + string(rt.Kind)
			op.Responses["200"].Links[id] = &huma.Link{OperationID: id, Parameters: map[string]any{"name": rt.Body.Made}}
		}
	}
	if rt.ID == "readTaskOutput" {
		part := *op.Responses["200"]
		part.Description = "The range asked for."
		op.Responses["206"] = &part
		op.Responses["304"] = &huma.Response{Description: "Not changed since If-Modified-Since."}
	}
	for _, status := range rt.refusals() {
		op.Responses[strconv.Itoa(status)] = &huma.Response{Ref: "#/components/responses/" + RefusedName}
	}
	return op
}

// refusals are the statuses of every answer that is not good. A path or method that nobody serves
// answers 404 or 405 in the same shape.
func (rt *Route) refusals() []int {
	out := []int{400, 403, 500, 503, 504}
	if !rt.Open || rt.Body != nil { // there is somebody to be
		out = append(out, 401, 429)
	}
	names := slices.ContainsFunc(rt.Query, func(p Param) bool { return p.Name == ParamProject.Name || p.Name == "user" })
	if names || strings.Contains(rt.Path, "{") || rt.ID == "metrics" {
		out = append(out, 404)
	}
	if rt.Changes() {
		out = append(out, 409, 507)
	}
	if rt.Verb == "shell" { // it does not run
		out = append(out, 409)
	}
	if rt.Body != nil {
		out = append(out, 413, 415)
	}
	if rt.ID == "readTaskOutput" {
		out = append(out, 412, 416)
	}
	return out
}

// pathSchema is what a part of a path looks like. Other texts are no mistake in the request: there
// is nothing of that name.
func pathSchema(name string) *huma.Schema {
	s := TextSchema("")
	switch name {
	case "name":
		s.Description, s.Pattern = "A name, or an id.", patternName
	case "digest":
		s.Pattern = patternDigest
	default:
		least := 1
		s.MinLength = &least
	}
	return s
}

func (rt *Route) good() *huma.Response {
	if rt.Media != "" {
		out := &huma.Response{Description: "OK", Content: map[string]*huma.MediaType{}}
		for media := range strings.SplitSeq(rt.Media, " ") {
			schema := TextSchema("")
			switch media {
			case MediaEvents:
				schema = rt.Data
			case "application/json":
				schema = &huma.Schema{Type: huma.TypeObject}
			case "application/x-tar", "application/octet-stream":
				schema.Format = "binary"
			}
			out.Content[media] = &huma.MediaType{Schema: schema}
		}
		return out
	}
	properties := map[string]*huma.Schema{
		"code": NumberSchema("The HTTP status."), "message": TextSchema("For people."), "data": rt.Data,
	}
	if rt.Data == nil {
		properties["data"] = &huma.Schema{Type: "null"}
	}
	return &huma.Response{Description: "OK", Content: map[string]*huma.MediaType{
		"application/json": {Schema: Object(slices.Sorted(KeysOf(properties)), properties)},
	}}
}

func KeysOf[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}
