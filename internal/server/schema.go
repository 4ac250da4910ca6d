package server

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// The document is made from the Go types. What their JSON form hides from reflection is told
// here: quantities are strings with a pattern, some strings are one of a set.

const (
	patternBytes    = `^[0-9]+(\.[0-9]+)?([eE][0-9]+|Ki|Mi|Gi|Ti|Pi|Ei|m|k|M|G|T|P|E)?$`
	patternCPU      = `^[0-9]+(\.[0-9]+)?([eE][0-9]+|m|k|M)?$`
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
	return oneOf("Where the task stands.", taskPhases...)
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
	return oneOf("Which door a token opens; absent for programs.", api.UseSession, api.UseCode)
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
		object([]string{"maxPerRack"}, map[string]*huma.Schema{"maxPerRack": {Type: huma.TypeInteger, Minimum: &low, Description: "Replicas in one rack, at most."}}),
	}}
}

type regionSchema struct{}

func (regionSchema) Schema(huma.Registry) *huma.Schema {
	return oneOf("How much the gang insists on one region.", api.RegionPrefer, api.RegionRequire)
}

type deferralSchema struct{}

func (deferralSchema) Schema(huma.Registry) *huma.Schema {
	return oneOf("Which hours before its deadline the task waits for.", api.DeferCheap, api.DeferGreen)
}

var taskPhases = []api.Phase{
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

// schemas makes and keeps the schemas of the document.
type schemas struct{ reg huma.Registry }

func newSchemas(reg huma.Registry) *schemas {
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
	alias(reflect.TypeFor[api.Topology](), reflect.TypeFor[topologySchema]())
	alias(reflect.TypeFor[api.RegionRule](), reflect.TypeFor[regionSchema]())
	alias(reflect.TypeFor[api.Deferral](), reflect.TypeFor[deferralSchema]())
	s := &schemas{reg: reg}
	s.of(reflect.TypeFor[fault.Text]())
	return s
}

func (s *schemas) of(t reflect.Type) *huma.Schema { return s.reg.Schema(t, true, t.Name()) }

func schemaOf[T any](s *schemas) *huma.Schema { return s.of(reflect.TypeFor[T]()) }

// kind is the schema of a kind's objects.
func (s *schemas) kind(row api.KindInfo) *huma.Schema {
	return s.of(reflect.TypeOf(row.New()).Elem())
}

// object has these properties and no others.
func object(required []string, properties map[string]*huma.Schema) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, Properties: properties, Required: required, AdditionalProperties: false}
}

func listOf(item *huma.Schema) *huma.Schema { return &huma.Schema{Type: huma.TypeArray, Items: item} }

func textSchema(doc string) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Description: doc}
}

func numberSchema(doc string) *huma.Schema {
	return &huma.Schema{Type: huma.TypeInteger, Format: "int64", Description: doc}
}

// page is the data of a list.
func page(item *huma.Schema) *huma.Schema {
	return object([]string{"items"}, map[string]*huma.Schema{
		"items":    listOf(item),
		"next":     textSchema("Give it as cursor for the next page; absent on the last."),
		"revision": numberSchema("Of the live part."),
	})
}

// eventSchema is one Server-Sent Event whose data is JSON.
func eventSchema(data *huma.Schema, names ...string) *huma.Schema {
	return object([]string{"data", "event"}, map[string]*huma.Schema{
		"event": oneOf("message where there is no such line.", names...),
		"id":    textSchema("Give it as Last-Event-ID to go on from here."),
		"data": {Type: huma.TypeString, Extensions: map[string]any{
			"contentMediaType": "application/json", "contentSchema": data,
		}},
	})
}

// refusedName is the one answer of all refusals, whatever their status.
const refusedName = "Refused"

func newDocument(version string) *huma.OpenAPI {
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

// operation is the route's place in the document.
func (rt *route) operation() *huma.Operation {
	op := &huma.Operation{
		Method: rt.method, Path: rt.path, OperationID: rt.id, Summary: rt.summary,
		SkipValidateParams: true, SkipValidateBody: true,
		Responses: map[string]*huma.Response{},
	}
	if rt.tag != "" {
		op.Tags = []string{rt.tag}
	}
	if !rt.open {
		op.Security = []map[string][]string{{"token": {}}, {"session": {}}}
	}
	for segment := range strings.SplitSeq(rt.path, "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			name = strings.TrimSuffix(strings.TrimSuffix(name, "}"), "...")
			op.Parameters = append(op.Parameters, &huma.Param{Name: name, In: "path", Required: true, Schema: pathSchema(name)})
		}
	}
	for _, p := range rt.query {
		op.Parameters = append(op.Parameters, p.document())
	}
	if rt.body != nil {
		op.RequestBody = &huma.RequestBody{Description: rt.body.doc, Required: rt.body.required, Content: map[string]*huma.MediaType{}}
		for _, media := range rt.body.media {
			op.RequestBody.Content[media] = &huma.MediaType{Schema: rt.body.schema}
			if rt.body.example != nil {
				op.RequestBody.Content[media].Example = rt.body.example
			}
		}
	}
	op.Responses["200"] = rt.good()
	if rt.body != nil && rt.body.made != "" {
		op.Responses["200"].Links = map[string]*huma.Link{}
		for _, verb := range []string{"get", "update", "delete"} {
			id := verb + string(rt.kind)
			op.Responses["200"].Links[id] = &huma.Link{OperationID: id, Parameters: map[string]any{"name": rt.body.made}}
		}
	}
	if rt.id == "readTaskOutput" {
		part := *op.Responses["200"]
		part.Description = "The range asked for."
		op.Responses["206"] = &part
		op.Responses["304"] = &huma.Response{Description: "Not changed since If-Modified-Since."}
	}
	for _, status := range rt.refusals() {
		op.Responses[strconv.Itoa(status)] = &huma.Response{Ref: "#/components/responses/" + refusedName}
	}
	return op
}

// refusals are the statuses of every answer that is not good. A path or method that nobody serves
// answers 404 or 405 in the same shape.
func (rt *route) refusals() []int {
	out := []int{400, 403, 500, 503, 504}
	if !rt.open || rt.body != nil { // there is somebody to be
		out = append(out, 401, 429)
	}
	names := slices.ContainsFunc(rt.query, func(p param) bool { return p.name == paramProject.name || p.name == "user" })
	if names || strings.Contains(rt.path, "{") || rt.id == "metrics" {
		out = append(out, 404)
	}
	if rt.changes() {
		out = append(out, 409, 507)
	}
	if rt.body != nil {
		out = append(out, 413, 415)
	}
	if rt.id == "readTaskOutput" {
		out = append(out, 412, 416)
	}
	return out
}

// pathSchema is what a part of a path looks like. Other texts are no mistake in the request: there
// is nothing of that name.
func pathSchema(name string) *huma.Schema {
	s := textSchema("")
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

func (rt *route) good() *huma.Response {
	if rt.media != "" {
		out := &huma.Response{Description: "OK", Content: map[string]*huma.MediaType{}}
		for media := range strings.SplitSeq(rt.media, " ") {
			schema := textSchema("")
			switch media {
			case mediaEvents:
				schema = rt.data
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
		"code": numberSchema("The HTTP status."), "message": textSchema("For people."), "data": rt.data,
	}
	if rt.data == nil {
		properties["data"] = &huma.Schema{Type: "null"}
	}
	return &huma.Response{Description: "OK", Content: map[string]*huma.MediaType{
		"application/json": {Schema: object(slices.Sorted(keysOf(properties)), properties)},
	}}
}

func keysOf[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}
