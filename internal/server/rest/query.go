package rest

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
)

// Form is what a query parameter looks like.
type Form int

const (
	formText Form = iota
	FormInt
	FormBool
	FormList // repeatable, and split at commas
	FormPair // repeatable k=v
	FormTime // RFC 3339, or a duration back from now
)

// Param is one query parameter: its check and its documentation.
type Param struct {
	Name     string
	Form     Form
	Doc      string
	Enum     []string
	Min, Max int64 // FormInt; both 0: not bounded but never negative
	Fallback string
}

const (
	maxQuery  = 16 << 10
	maxText   = 8 << 10
	MaxValues = 100
)

// Values are the checked parameters.
type Values struct {
	by map[string][]string
}

func (v Values) Has(name string) bool { return len(v.by[name]) > 0 }

func (v Values) Text(name string) string {
	if all := v.by[name]; len(all) > 0 {
		return all[0]
	}
	return ""
}

func (v Values) All(name string) []string { return v.by[name] }

// Number is 0 when absent; ParseQuery has checked it.
func (v Values) Number(name string) int64 {
	n, _ := strconv.ParseInt(v.Text(name), 10, 64)
	return n
}

func (v Values) Yes(name string) bool { return v.Text(name) == "true" }

// AtLeast has the call read at least this revision.
func (v Values) AtLeast(revision int64) {
	v.by["minRevision"] = []string{strconv.FormatInt(revision, 10)}
}

// In has the call mean this project.
func (v Values) In(project string) { v.by["project"] = []string{project} }

func (v Values) Pairs(name string) map[string]string {
	if len(v.by[name]) == 0 {
		return nil
	}
	out := map[string]string{}
	for _, pair := range v.by[name] {
		key, value, _ := strings.Cut(pair, "=")
		out[key] = value
	}
	return out
}

// Moment reads a FormTime against now; zero when absent.
func (v Values) Moment(name string, now time.Time) time.Time {
	at, _ := parseMoment(v.Text(name), now)
	return at
}

func parseMoment(s string, now time.Time) (time.Time, bool) {
	if s == "" {
		return time.Time{}, true
	}
	if at, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return at, true
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), true
	}
	return time.Time{}, false
}

// ParseQuery checks a raw query against the parameters of a route: unknown names, wrong values
// and repeated single values are refused, all at once.
func ParseQuery(raw string, params []Param) (Values, error) {
	bad := fault.New(fault.Invalid, "BadQuery", fault.T("The query has parameters that cannot be used.", "查询参数有误。"))
	if len(raw) > maxQuery {
		return Values{}, bad.WithFields(fault.Field{Path: "query", Message: fault.T("The query has %d bytes; at most %d are allowed.", "查询串有 %d 字节，上限为 %d。", len(raw), maxQuery)})
	}
	given, err := url.ParseQuery(raw)
	if err != nil {
		return Values{}, bad.WithFields(fault.Field{Path: "query", Message: fault.T("The query is not properly encoded.", "查询串编码不正确。")}).Because(err)
	}
	out := Values{by: map[string][]string{}}
	var fields []fault.Field
	refuse := func(name string, message fault.Text) {
		fields = append(fields, fault.Field{Path: "query." + refuse.Clip(name, 64), Message: message})
	}
	for _, name := range slices.Sorted(KeysOf(given)) {
		i := slices.IndexFunc(params, func(p Param) bool { return p.Name == name })
		if i < 0 {
			refuse(name, fault.T("Unknown parameter; known here: %s.", "未知参数；此处可用：%s。", known(params)))
			continue
		}
		checked, problem := params[i].check(given[name])
		if !problem.IsZero() {
			refuse(name, problem)
			continue
		}
		out.by[name] = checked
	}
	if len(fields) > 0 {
		return Values{}, bad.WithFields(fields...)
	}
	for _, p := range params {
		if p.Fallback != "" && len(out.by[p.Name]) == 0 {
			out.by[p.Name] = []string{p.Fallback}
		}
	}
	return out, nil
}

func known(params []Param) string {
	if len(params) == 0 {
		return "—"
	}
	names := make([]string, 0, len(params))
	for _, p := range params {
		names = append(names, p.Name)
	}
	return strings.Join(names, ", ")
}

// check returns the cleaned values, or what is wrong. An empty text counts as absent; an empty
// number or word of a set is a mistake.
func (p Param) check(given []string) ([]string, fault.Text) {
	var all []string
	for _, v := range given {
		if len(v) > maxText || !utf8.ValidString(v) || strings.ContainsRune(v, 0) {
			return nil, fault.T("The value must be valid text of at most %d bytes.", "参数值须为不超过 %d 字节的合法文本。", maxText)
		}
		if p.Form == FormList {
			for part := range strings.SplitSeq(v, ",") {
				if part = strings.TrimSpace(part); part != "" || len(p.Enum) > 0 {
					all = append(all, part)
				}
			}
		} else if v != "" || p.Form == FormInt || p.Form == FormBool || len(p.Enum) > 0 {
			all = append(all, v)
		}
	}
	many := p.Form == FormList || p.Form == FormPair
	switch {
	case many && len(all) > MaxValues:
		return nil, fault.T("At most %d values are allowed.", "最多允许 %d 个值。", MaxValues)
	case !many && len(all) > 1:
		return nil, fault.T("Give it once.", "只能给出一次。")
	}
	for i, v := range all {
		clean, problem := p.one(v)
		if !problem.IsZero() {
			return nil, problem
		}
		all[i] = clean
	}
	return all, fault.Text{}
}

func (p Param) one(v string) (string, fault.Text) {
	if len(p.Enum) > 0 {
		i := slices.IndexFunc(p.Enum, func(one string) bool { return strings.EqualFold(one, v) })
		if i < 0 {
			return "", fault.T("Use one of: %s.", "可用的值：%s。", strings.Join(p.Enum, ", "))
		}
		return p.Enum[i], fault.Text{}
	}
	switch p.Form {
	case FormInt:
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < p.Min || p.Max > 0 && n > p.Max {
			if p.Max > 0 {
				return "", fault.T("Use a whole number from %d to %d.", "请使用 %d 到 %d 之间的整数。", p.Min, p.Max)
			}
			return "", fault.T("Use a whole number, not below %d.", "请使用不小于 %d 的整数。", p.Min)
		}
	case FormBool:
		switch v {
		case "true", "1":
			return "true", fault.Text{}
		case "false", "0":
			return "false", fault.Text{}
		}
		return "", fault.T("Use true or false.", "请使用 true 或 false。")
	case FormPair:
		if key, _, ok := strings.Cut(v, "="); !ok || key == "" {
			return "", fault.T("Use key=value.", "请使用 key=value 的形式。")
		}
	case FormTime:
		if _, ok := parseMoment(v, time.Unix(0, 0)); !ok {
			return "", fault.T("Use a time such as 2026-01-02T15:04:05Z, or a span back from now such as 10m.", "请使用时间（如 2026-01-02T15:04:05Z）或距今时长（如 10m）。")
		}
	}
	return v, fault.Text{}
}

// document is the parameter's OpenAPI form.
func (p Param) document() *huma.Param {
	s := &huma.Schema{Type: huma.TypeString}
	switch p.Form {
	case FormInt:
		s.Type, s.Format = huma.TypeInteger, "int64"
		low := float64(p.Min)
		s.Minimum = &low
		if p.Max > 0 {
			high := float64(p.Max)
			s.Maximum = &high
		}
	case FormBool:
		s.Type = huma.TypeBoolean
	}
	for _, v := range p.Enum {
		s.Enum = append(s.Enum, v)
	}
	if p.Fallback != "" {
		s.Default = p.Fallback
		if p.Form == FormInt {
			s.Default, _ = strconv.ParseInt(p.Fallback, 10, 64)
		}
	}
	out := &huma.Param{Name: p.Name, In: "query", Description: p.Doc, Schema: s}
	if p.Form == FormList || p.Form == FormPair {
		explode := true
		out.Schema = &huma.Schema{Type: huma.TypeArray, Items: s}
		out.Style, out.Explode = "form", &explode
	}
	return out
}
