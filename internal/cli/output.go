package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"sigs.k8s.io/yaml"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// manifest is an object as it is written in a file: with its kind in front.
type manifest struct{ obj api.Object }

// MarshalJSON puts apiVersion and kind before the object's own fields.
func (m manifest) MarshalJSON() ([]byte, error) {
	body, err := encode(m.obj)
	if err != nil {
		return nil, err
	}
	body = bytes.TrimSpace(body)
	head := fmt.Sprintf(`{"apiVersion":"fermi/v1","kind":%q`, m.obj.Kind())
	if len(body) > 2 {
		head += ","
	}
	return append([]byte(head), body[1:]...), nil
}

// encode is json.Marshal that leaves < and > alone.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return b.Bytes(), err
}

// structured says that the output is for programs.
func (s *session) structured() bool { return s.flags.output == "json" || s.flags.output == "yaml" }

func (s *session) wide() bool { return s.flags.output == "wide" }

// data prints any value as JSON or YAML. Nothing in it acts on a terminal: JSON has escapes for all such
// characters, and YAML, which has them only between quotes, is written as JSON where there are some.
func (s *session) data(v any) error {
	body, err := encode(v)
	if err != nil {
		return err
	}
	body = []byte(visible(string(body)))
	if s.flags.output == "yaml" {
		out, err := yaml.JSONToYAML(body)
		if err != nil {
			return err
		}
		if visible(string(out)) == string(out) {
			_, err = s.out.Write(out)
			return err
		}
	}
	var b bytes.Buffer
	if err := json.Indent(&b, body, "", "  "); err != nil {
		return err
	}
	_, err = s.out.Write(b.Bytes())
	return err
}

// object prints one object in the format asked for.
func (s *session) object(obj api.Object) error {
	if s.structured() {
		return s.data(manifest{obj})
	}
	return s.objects(obj.Kind(), []api.Object{obj})
}

// list prints several objects in the format asked for.
func (s *session) list(kind api.Kind, objs []api.Object) error {
	if !s.structured() {
		return s.objects(kind, objs)
	}
	items := make([]manifest, len(objs))
	for i, o := range objs {
		items[i] = manifest{o}
	}
	return s.data(map[string]any{"items": items})
}

func (s *session) objects(kind api.Kind, objs []api.Object) error {
	if s.flags.output == "name" {
		for _, o := range objs {
			fmt.Fprintf(s.out, "%s/%s\n", api.MustInfo(kind).Singular, o.GetMeta().Name)
		}
		return nil
	}
	if len(objs) == 0 {
		s.say("Nothing found.", "没有结果。")
		return nil
	}
	cols, rows := s.sheet(kind, objs)
	return writeTable(s.out, cols, rows, s.lang, screenOf(s.out))
}

// ago is how long ago something was; absolute in wide.
func (s *session) ago(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	if s.wide() {
		return stamp(t)
	}
	return since(s.clock.Now().Sub(t)).In(s.lang)
}

func stamp(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }

// since says a distance in time the way people do.
func since(d time.Duration) fault.Text {
	if d < 0 {
		return fault.T("in %s", "%s后", short(-d))
	}
	if d < time.Second {
		return fault.T("just now", "刚刚")
	}
	return fault.T("%s ago", "%s前", short(d))
}

// short is a duration with one or two units: 350ms, 45s, 3m, 1h20m, 5d.
func short(d time.Duration) string {
	if d > 0 && d < time.Second {
		return fmt.Sprintf("%dms", max(1, d.Milliseconds()))
	}
	d = d.Round(time.Second)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 10*time.Minute && d%time.Minute != 0:
		return fmt.Sprintf("%dm%ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 10*time.Hour && d%time.Hour >= time.Minute:
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours())/24)
}

// size is a number of bytes for people.
func size(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	f, units := float64(n)/unit, "KMGTPE"
	for f >= unit && len(units) > 1 {
		f, units = f/unit, units[1:]
	}
	return fmt.Sprintf("%.1f %ciB", f, units[0])
}

func putLine(w io.Writer, s string) { _, _ = io.WriteString(w, visible(s)+"\n") }
