package call

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"sigs.k8s.io/yaml"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/cli/show"
)

// Manifest is an object as it is written in a file: with its kind in front.
type Manifest struct{ Obj api.Object }

// MarshalJSON puts apiVersion and kind before the object's own fields.
func (m Manifest) MarshalJSON() ([]byte, error) {
	body, err := Encode(m.Obj)
	if err != nil {
		return nil, err
	}
	body = bytes.TrimSpace(body)
	head := fmt.Sprintf(`{"apiVersion":"fermi/v1","kind":%q`, m.Obj.Kind())
	if len(body) > 2 {
		head += ","
	}
	return append([]byte(head), body[1:]...), nil
}

// Encode is json.Marshal that leaves < and > alone.
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return b.Bytes(), err
}

// Structured says that the output is for programs.
func (s *Session) Structured() bool { return s.Flags.Output == "json" || s.Flags.Output == "yaml" }

func (s *Session) Wide() bool { return s.Flags.Output == "wide" }

// Data prints any value as JSON or YAML. Nothing in it acts on a terminal: JSON has escapes for all such
// characters, and YAML, which has them only between quotes, is written as JSON where there are some.
func (s *Session) Data(v any) error {
	body, err := Encode(v)
	if err != nil {
		return err
	}
	body = []byte(show.Visible(string(body)))
	if s.Flags.Output == "yaml" {
		out, err := yaml.JSONToYAML(body)
		if err != nil {
			return err
		}
		if show.Visible(string(out)) == string(out) {
			_, err = s.Out.Write(out)
			return err
		}
	}
	var b bytes.Buffer
	if err := json.Indent(&b, body, "", "  "); err != nil {
		return err
	}
	_, err = s.Out.Write(b.Bytes())
	return err
}

// Ago is how long ago something was; absolute in wide.
func (s *Session) Ago(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	if s.Wide() {
		return show.Stamp(t)
	}
	return show.Since(s.Clock.Now().Sub(t)).In(s.Lang)
}
