package serving

import (
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/fermi-cluster/fermi/api/v1/shape"
)

// Contract is what a service speaks, where it is asked and what its questions look like.
type Contract struct {
	Protocol Protocol       `json:"protocol,omitempty" enum:"rest,grpc,websocket" doc:"rest when absent."`
	Path     string         `json:"path,omitempty" maxLength:"1024" doc:"What replicas are asked for when a request names the service's address alone (/inference/NAME), such as /v2/models/m/infer; / when absent."`
	Format   Format         `json:"format,omitempty" enum:"openai,kserve-v2,json" doc:"What questions look like. Gateways check it and answer 400 with the field before a replica is asked: openai, bodies of chat/completions, completions and embeddings; kserve-v2, those of /v2/models/…/infer; json, all. Nothing is checked when absent."`
	Schema   map[string]any `json:"schema,omitempty" doc:"A JSON Schema that those bodies fit as well; format is json when it says nothing."`
}

// Format is a form of questions.
type Format string

// The forms.
const (
	FormatOpenAI Format = "openai"
	FormatKServe Format = "kserve-v2"
	FormatJSON   Format = "json"
)

// Formats lists them.
var Formats = []Format{FormatOpenAI, FormatKServe, FormatJSON}

func (c *Contract) fill() {
	if c.Protocol == "" {
		c.Protocol = REST
	}
	if c.Schema != nil && c.Format == "" {
		c.Format = FormatJSON
	}
}

// isPath says that a text is the path of a question, and nothing more.
func isPath(text string) bool {
	u, err := url.ParseRequestURI(text)
	return err == nil && u.Host == "" && len(text) <= maxHealthPath && strings.HasPrefix(text, "/") && !strings.HasPrefix(text, "//") &&
		!strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsGraphic(r) || r == ' ' })
}

func (f *faults) contract(c *Contract) {
	if !slices.Contains(Protocols, c.Protocol) {
		f.add("spec.protocol", "One of rest, grpc, websocket.", "必须是 rest、grpc、websocket 之一。")
	}
	if c.Path != "" && (!isPath(c.Path) || strings.ContainsAny(c.Path, "?#")) {
		f.add("spec.path", "It is not a path: it begins with one slash and has no query, such as /v2/models/m/infer.", "不是合法的路径：应以一个斜杠开头且不含查询参数，例如 /v2/models/m/infer。")
	}
	if c.Format == "" {
		return
	}
	if !slices.Contains(Formats, c.Format) {
		f.add("spec.format", "One of openai, kserve-v2, json.", "必须是 openai、kserve-v2、json 之一。")
	}
	if c.Protocol == GRPC {
		f.add("spec.format", "Messages of gRPC are no JSON: leave format and schema out.", "gRPC 消息不是 JSON：请去掉 format 和 schema。")
	}
	if c.Schema != nil {
		_, wrong := shape.Read("spec.schema", c.Schema)
		*f = append(*f, wrong...)
	}
}
