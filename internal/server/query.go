package server

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// form is what a query parameter looks like.
type form int

const (
	formText form = iota
	formInt
	formBool
	formList // repeatable, and split at commas
	formPair // repeatable k=v
	formTime // RFC 3339, or a duration back from now
)

// param is one query parameter: its check and its documentation.
type param struct {
	name     string
	form     form
	doc      string
	enum     []string
	min, max int64 // formInt; both 0: not bounded but never negative
	fallback string
}

const (
	maxQuery  = 16 << 10
	maxText   = 8 << 10
	maxValues = 100
)

// values are the checked parameters.
type values struct {
	by map[string][]string
}

func (v values) has(name string) bool { return len(v.by[name]) > 0 }

func (v values) text(name string) string {
	if all := v.by[name]; len(all) > 0 {
		return all[0]
	}
	return ""
}

func (v values) all(name string) []string { return v.by[name] }

// number is 0 when absent; parseQuery has checked it.
func (v values) number(name string) int64 {
	n, _ := strconv.ParseInt(v.text(name), 10, 64)
	return n
}

func (v values) yes(name string) bool { return v.text(name) == "true" }

// atLeast has the call read at least this revision.
func (v values) atLeast(revision int64) {
	v.by["minRevision"] = []string{strconv.FormatInt(revision, 10)}
}

// in has the call mean this project.
func (v values) in(project string) { v.by["project"] = []string{project} }

func (v values) pairs(name string) map[string]string {
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

// moment reads a formTime against now; zero when absent.
func (v values) moment(name string, now time.Time) time.Time {
	at, _ := parseMoment(v.text(name), now)
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

// parseQuery checks a raw query against the parameters of a route: unknown names, wrong values
// and repeated single values are refused, all at once.
func parseQuery(raw string, params []param) (values, error) {
	bad := fault.New(fault.Invalid, "BadQuery", fault.T("The query has parameters that cannot be used.", "查询参数有误。"))
	if len(raw) > maxQuery {
		return values{}, bad.WithFields(fault.Field{Path: "query", Message: fault.T("The query has %d bytes; at most %d are allowed.", "查询串有 %d 字节，上限为 %d。", len(raw), maxQuery)})
	}
	given, err := url.ParseQuery(raw)
	if err != nil {
		return values{}, bad.WithFields(fault.Field{Path: "query", Message: fault.T("The query is not properly encoded.", "查询串编码不正确。")}).Because(err)
	}
	out := values{by: map[string][]string{}}
	var fields []fault.Field
	refuse := func(name string, message fault.Text) {
		fields = append(fields, fault.Field{Path: "query." + clip(name, 64), Message: message})
	}
	for _, name := range slices.Sorted(keysOf(given)) {
		i := slices.IndexFunc(params, func(p param) bool { return p.name == name })
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
		return values{}, bad.WithFields(fields...)
	}
	for _, p := range params {
		if p.fallback != "" && len(out.by[p.name]) == 0 {
			out.by[p.name] = []string{p.fallback}
		}
	}
	return out, nil
}

func known(params []param) string {
	if len(params) == 0 {
		return "—"
	}
	names := make([]string, 0, len(params))
	for _, p := range params {
		names = append(names, p.name)
	}
	return strings.Join(names, ", ")
}

// check returns the cleaned values, or what is wrong. An empty text counts as absent; an empty
// number or word of a set is a mistake.
func (p param) check(given []string) ([]string, fault.Text) {
	var all []string
	for _, v := range given {
		if len(v) > maxText || !utf8.ValidString(v) || strings.ContainsRune(v, 0) {
			return nil, fault.T("The value must be valid text of at most %d bytes.", "参数值须为不超过 %d 字节的合法文本。", maxText)
		}
		if p.form == formList {
			for part := range strings.SplitSeq(v, ",") {
				if part = strings.TrimSpace(part); part != "" {
					all = append(all, part)
				}
			}
		} else if v != "" || p.form == formInt || p.form == formBool || len(p.enum) > 0 {
			all = append(all, v)
		}
	}
	many := p.form == formList || p.form == formPair
	switch {
	case many && len(all) > maxValues:
		return nil, fault.T("At most %d values are allowed.", "最多允许 %d 个值。", maxValues)
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

func (p param) one(v string) (string, fault.Text) {
	if len(p.enum) > 0 {
		i := slices.IndexFunc(p.enum, func(one string) bool { return strings.EqualFold(one, v) })
		if i < 0 {
			return "", fault.T("Use one of: %s.", "可用的值：%s。", strings.Join(p.enum, ", "))
		}
		return p.enum[i], fault.Text{}
	}
	switch p.form {
	case formInt:
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < p.min || p.max > 0 && n > p.max {
			if p.max > 0 {
				return "", fault.T("Use a whole number from %d to %d.", "请使用 %d 到 %d 之间的整数。", p.min, p.max)
			}
			return "", fault.T("Use a whole number, not below %d.", "请使用不小于 %d 的整数。", p.min)
		}
	case formBool:
		switch v {
		case "true", "1":
			return "true", fault.Text{}
		case "false", "0":
			return "false", fault.Text{}
		}
		return "", fault.T("Use true or false.", "请使用 true 或 false。")
	case formPair:
		if key, _, ok := strings.Cut(v, "="); !ok || key == "" {
			return "", fault.T("Use key=value.", "请使用 key=value 的形式。")
		}
	case formTime:
		if _, ok := parseMoment(v, time.Unix(0, 0)); !ok {
			return "", fault.T("Use a time such as 2026-01-02T15:04:05Z, or a span back from now such as 10m.", "请使用时间（如 2026-01-02T15:04:05Z）或距今时长（如 10m）。")
		}
	}
	return v, fault.Text{}
}

// document is the parameter's OpenAPI form.
func (p param) document() *huma.Param {
	s := &huma.Schema{Type: huma.TypeString}
	switch p.form {
	case formInt:
		s.Type, s.Format = huma.TypeInteger, "int64"
		low := float64(p.min)
		s.Minimum = &low
		if p.max > 0 {
			high := float64(p.max)
			s.Maximum = &high
		}
	case formBool:
		s.Type = huma.TypeBoolean
	}
	for _, v := range p.enum {
		s.Enum = append(s.Enum, v)
	}
	if p.fallback != "" {
		s.Default = p.fallback
		if p.form == formInt {
			s.Default, _ = strconv.ParseInt(p.fallback, 10, 64)
		}
	}
	out := &huma.Param{Name: p.name, In: "query", Description: p.doc, Schema: s}
	if p.form == formList || p.form == formPair {
		explode := true
		out.Schema = &huma.Schema{Type: huma.TypeArray, Items: s}
		out.Style, out.Explode = "form", &explode
	}
	return out
}
