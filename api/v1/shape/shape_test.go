package shape

import (
	"encoding/json"
	"strings"
	"testing"
)

func schemaOf(t testing.TB, text string) map[string]any {
	var m map[string]any
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

const table = `{"type": "object", "required": ["rows"], "additionalProperties": false, "properties": {
	"rows": {"type": "array", "minItems": 1, "maxItems": 3, "items": {"type": "object", "required": ["x"], "properties": {
		"x": {"type": "number", "minimum": 0, "exclusiveMaximum": 10},
		"n": {"type": "integer"},
		"word": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-z中文]+$"},
		"kind": {"enum": ["a", 2, null, true]},
		"any": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}}}},
	"user": {"type": ["string", "null"]}, "never": false}}`

// TestCheck: what fits passes, and of what does not the place is named.
func TestCheck(t *testing.T) {
	s, faults := Read("schema", schemaOf(t, table))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	for body, path := range map[string]string{
		`{"rows": [{"x": 1}]}`: "",
		` { "rows" : [ { "x" : 1e-1 , "n": 3.0 } , {"x":0} ] , "user" : null } `:            "",
		`{"rows": [{"x": 1, "word": "中文"}]}`:                                                "",
		`{"rows": [{"x": 1, "any": "a"}], "user": "b"}`:                                     "",
		`{"rows": [{"x": 1, "any": ["a", "b"]}]}`:                                           "",
		`{"rows": [{"x": 1, "kind": null}, {"x": 1, "kind": 2.0}, {"x": 1, "kind": true}]}`: "",
		`{"rows": [{"x": 1, "more": {"a": [1, "]}", {"\"": 2}]}}]}`:                         "",
		`[]`:           ".",
		`{"row": []}`:  "row",
		`{}`:           "rows",
		`{"rows": 1}`:  "rows",
		`{"rows": []}`: "rows",
		`{"rows": [{"x":1},{"x":1},{"x":1},{"x":1}]}`: "rows",
		`{"rows": [{"x": 1}, {}]}`:                    "rows[1].x",
		`{"rows": [{"x": "1"}]}`:                      "rows[0].x",
		`{"rows": [{"x": -0.1}]}`:                     "rows[0].x",
		`{"rows": [{"x": 10}]}`:                       "rows[0].x",
		`{"rows": [{"x": 1, "n": 1.5}]}`:              "rows[0].n",
		`{"rows": [{"x": 1, "word": "a"}]}`:           "rows[0].word",
		`{"rows": [{"x": 1, "word": "abcde"}]}`:       "rows[0].word",
		`{"rows": [{"x": 1, "word": "AB"}]}`:          "rows[0].word",
		`{"rows": [{"x": 1, "kind": "b"}]}`:           "rows[0].kind",
		`{"rows": [{"x": 1, "kind": false}]}`:         "rows[0].kind",
		`{"rows": [{"x": 1, "any": ["a", 1]}]}`:       "rows[0].any[1]",
		`{"rows": [{"x": 1}], "user": 5}`:             "user",
		`{"rows": [{"x": 1}], "\u0075ser": 5}`:        "user",
		`{"rows": [{"x": 1}], "never": 5}`:            "never",
		`{"rows": [{"x": 1}], "rows": 2}`:             "rows",
		`{"rows": [{"x": 1}]`:                         ".",
	} {
		bad := s.Check([]byte(body))
		if got := bad; path == "" && got != nil || path != "" && (got == nil || got.Path != strings.TrimPrefix(path, ".") || got.Message.ZH == "" || got.Message.EN == "") {
			t.Errorf("%s: %+v, want %q", body, bad, path)
		}
	}
}

// TestRead: a schema that could not be kept whole is refused by the place of its word.
func TestRead(t *testing.T) {
	deep := strings.Repeat(`{"items": `, 20) + `{}` + strings.Repeat(`}`, 20)
	for text, path := range map[string]string{
		`{"type": "text"}`:                  "s.type",
		`{"type": []}`:                      "s.type",
		`{"$ref": "#"}`:                     "s.$ref",
		`{"$ref": "https://example.com/s"}`: "s.$ref",
		`{"$ref": "#/$defs/a"}`:             "s.$ref",
		`{"$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}, "$ref": "#/$defs/a"}`: "s" + strings.Repeat(".$ref.items", 8),
		`{"oneOf": {}}`:                         "s.oneOf",
		`{"anyOf": []}`:                         "s.anyOf",
		`{"properties": {"a": {"mininum": 1}}}`: "s.properties.a.mininum",
		`{"properties": []}`:                    "s.properties",
		`{"items": {"pattern": "("}}`:           "s.items.pattern",
		`{"required": "a"}`:                     "s.required",
		`{"enum": [{}]}`:                        "s.enum",
		`{"minLength": -1}`:                     "s.minLength",
		`{"maxItems": "1"}`:                     "s.maxItems",
		`{"items": 5}`:                          "s.items",
		`{"description": "` + strings.Repeat("x", maxText) + `"}`: "s",
		deep: "s" + strings.Repeat(".items", 16),
	} {
		if _, faults := Read("s", schemaOf(t, text)); len(faults) == 0 || faults[0].Path != path || faults[0].Message.ZH == "" {
			t.Errorf("%.80s: %v, want %s", text, faults, path)
		}
	}
}

// pydantic is what that library writes of a class with a union, an optional field and a list of another class.
const pydantic = `{"$defs": {"Point": {"properties": {"x": {"title": "X", "type": "number"}, "label": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": null}},
	"required": ["x"], "title": "Point", "type": "object"}, "Circle": {"properties": {"kind": {"const": "circle", "type": "string"}, "r": {"type": "number", "exclusiveMinimum": 0}},
	"required": ["kind", "r"], "type": "object"}, "Box": {"properties": {"kind": {"const": "box", "type": "string"}, "at": {"$ref": "#/$defs/Point"}}, "required": ["kind", "at"], "type": "object"}},
	"properties": {"points": {"items": {"$ref": "#/$defs/Point"}, "type": "array"}, "form": {"discriminator": {"propertyName": "kind"}, "oneOf": [{"$ref": "#/$defs/Circle"}, {"$ref": "#/$defs/Box"}]}},
	"required": ["points"], "title": "Question", "type": "object", "allOf": [{"additionalProperties": true}]}`

// TestReferences: schemas as libraries write them lead to definitions, and have alternatives of which one holds.
func TestReferences(t *testing.T) {
	s, faults := Read("schema", schemaOf(t, pydantic))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	for body, path := range map[string]string{
		`{"points": [{"x": 1, "label": null}], "form": {"kind": "circle", "r": 1}}`: "",
		`{"points": [], "form": {"kind": "box", "at": {"x": 2}}}`:                   "",
		`{"points": [{"label": "a"}]}`:                                              "points[0].x",
		`{"points": [], "form": {"kind": "box", "at": {"x": "2"}}}`:                 "form.at.x",
		`{"points": [], "form": {"kind": "circle", "r": 0}}`:                        "form.kind",
	} {
		if bad := s.Check([]byte(body)); path == "" && bad != nil || path != "" && (bad == nil || bad.Path != path) {
			t.Errorf("%s: %+v, want %q", body, bad, path)
		}
	}
	if both, _ := Read("s", schemaOf(t, `{"oneOf": [{"type": "integer"}, {"minimum": 1}]}`)); both.Check([]byte("5")) == nil || both.Check([]byte("0")) != nil || both.Check([]byte("1.5")) != nil {
		t.Error("oneOf does not mean one")
	}
}

// TestSteps: alternatives within alternatives end.
func TestSteps(t *testing.T) {
	defer func(n int) { maxSteps = n }(maxSteps)
	maxSteps = 100_000
	choice := `{"anyOf": [` + strings.Repeat(`{"items": {"type": "string"}},`, 450) + `{"type": "array"}]}`
	s, faults := Read("s", schemaOf(t, choice))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	if bad := s.Check([]byte("[" + strings.Repeat(`"a",`, 300) + "1]")); bad == nil || !strings.Contains(bad.Message.EN, "too many values") {
		t.Errorf("%+v", bad)
	}
}

// FuzzCheck: whatever bytes come, a check ends without a panic, and what is no JSON is refused.
func FuzzCheck(f *testing.F) {
	s, _ := Read("s", schemaOf(f, table))
	f.Add([]byte(`{"rows": [{"x": 1, "any": ["a"]}], "user": "\u0000\""}`))
	f.Add([]byte(`[`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if bad := s.Check(data); bad == nil && !json.Valid(data) {
			t.Errorf("%q fits", data)
		}
	})
}
