package house

import (
	"encoding/json"
	"flag"
	"go/ast"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The ratchet. A god object cut over thirty files is still one, so size is counted by owner: the methods and fields of a type
// and the lines of a package. The goals hold for everything new; what was larger when the ratchet was set has its size in
// ceilings.json, and that only goes down: a smaller one must be written down with -ratchet, a larger one fails.

const (
	goalMethods = 25
	goalFields  = 15
	goalLines   = 4000
)

var ratchet = flag.Bool("ratchet", false, "write down what became smaller")

// ceilings are what is above its goal.
type ceilings struct {
	Methods map[string]int `json:"methods"` // of a type
	Fields  map[string]int `json:"fields"`
	Lines   map[string]int `json:"lines"` // of a package without its tests
	// Judging are functions of controllers that decide and act at once, by package.
	Judging map[string]int `json:"judging"`
}

const fileCeilings = "ceilings.json"

// typesOf counts the methods and fields of every type of our packages. Functions whose first parameter is the type count as
// its methods, and so do the methods of types that hold a pointer back to it, embed one, or are it by another name.
func typesOf(t *testing.T) (methods, fields, lines map[string]int) {
	t.Helper()
	methods, fields, lines = map[string]int{}, map[string]int{}, map[string]int{}
	// type → those of its package that it points at, that it names at all, that it embeds a pointer to
	back, has, view := map[string][]string{}, map[string][]string{}, map[string][]string{}
	own := map[string]int{}
	for _, f := range goFiles(t) {
		if f.test || f.generated || within(f.pkg, []string{"test/...", "bench/...", "cmd/..."}) {
			continue
		}
		lines[f.pkg] += f.lines
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if owner := ownerOf(d); owner != "" {
					own[f.pkg+"."+owner]++
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if ts, ok := spec.(*ast.TypeSpec); ok {
						switch is := ts.Type.(type) {
						case *ast.StructType:
							countFields(f.pkg+"."+ts.Name.Name, f.pkg, is, fields, back, has, view)
						case *ast.Ident: // another name for the same thing, if that is a struct
							name, of := f.pkg+"."+ts.Name.Name, f.pkg+"."+is.Name
							back[name], view[name] = append(back[name], of), append(view[name], of)
						}
					}
				}
			}
		}
	}
	for name := range fields {
		methods[name] = own[name]
	}
	for holder, targets := range back {
		for _, target := range targets {
			if _, isStruct := fields[target]; isStruct && target != holder && (slices.Contains(has[target], holder) || slices.Contains(view[holder], target)) {
				methods[target] += own[holder]
			}
		}
	}
	return methods, fields, lines
}

func countFields(name, pkg string, st *ast.StructType, fields map[string]int, back, has, view map[string][]string) {
	for _, field := range st.Fields.List {
		fields[name] += max(1, len(field.Names))
		ast.Inspect(field.Type, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				has[name] = append(has[name], pkg+"."+id.Name)
			}
			return true
		})
		if star, ok := field.Type.(*ast.StarExpr); ok {
			if id, ok := star.X.(*ast.Ident); ok {
				back[name] = append(back[name], pkg+"."+id.Name)
				if len(field.Names) == 0 { // embedded: another name for the same thing
					view[name] = append(view[name], pkg+"."+id.Name)
				}
			}
		}
	}
	fields[name] += 0
}

// ownerOf is the type whose method a function is, or would be.
func ownerOf(d *ast.FuncDecl) string {
	list := d.Type.Params
	if d.Recv != nil {
		list = d.Recv
	}
	if list == nil || len(list.List) == 0 {
		return ""
	}
	kind := list.List[0].Type
	if star, ok := kind.(*ast.StarExpr); ok {
		kind = star.X
	}
	if generic, ok := kind.(*ast.IndexExpr); ok {
		kind = generic.X
	}
	if id, ok := kind.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

// judging counts, by controller, the functions that both decide and act: they take a context and are not among the files that
// are there to act.
func judging(t *testing.T) map[string]int {
	t.Helper()
	found := map[string]int{}
	for _, f := range goFiles(t) {
		if f.test || !within(f.pkg, []string{"internal/control/..."}) || slices.Contains(acting, path.Base(f.path)) {
			continue
		}
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			for _, p := range fn.Type.Params.List {
				if sel, ok := p.Type.(*ast.SelectorExpr); ok && sel.Sel.Name == "Context" {
					found[f.pkg]++
					break
				}
			}
		}
	}
	return found
}

// TestRatchet: nothing new is above its goal, and what is only gets smaller.
func TestRatchet(t *testing.T) {
	var was ceilings
	raw, err := os.ReadFile(fileCeilings)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &was); err != nil {
		t.Fatal(err)
	}
	methods, fields, lines := typesOf(t)
	now := ceilings{
		Methods: compare(t, "methods", was.Methods, methods, goalMethods), Fields: compare(t, "fields", was.Fields, fields, goalFields),
		Lines: compare(t, "lines", was.Lines, lines, goalLines), Judging: compare(t, "functions that decide and act", was.Judging, judging(t), 0),
	}
	if *ratchet {
		raw, err := json.MarshalIndent(now, "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(fileCeilings, append(raw, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// compare gives the ceilings that hold from now on.
func compare(t *testing.T, what string, was, is map[string]int, goal int) map[string]int {
	t.Helper()
	next := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(is)) {
		n := is[name]
		ceiling, listed := was[name]
		switch {
		case n <= goal:
			if listed && !*ratchet {
				t.Errorf("%s has %d %s, within the goal of %d: go test ./test/house -ratchet takes it off the list", name, n, what, goal)
			}
			continue
		case !listed:
			t.Errorf("%s has %d %s; the goal is %d: split it by owner", name, n, what, goal)
		case n > ceiling:
			t.Errorf("%s has %d %s; it had %d, and that only goes down", name, n, what, ceiling)
			n = ceiling
		case n < ceiling && !*ratchet:
			t.Errorf("%s has %d %s instead of %d: go test ./test/house -ratchet writes it down", name, n, what, ceiling)
		}
		if listed {
			next[name] = n
		}
	}
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if _, there := is[name]; !there && !*ratchet {
			t.Errorf("%s is gone: go test ./test/house -ratchet takes it off the list", name)
		}
	}
	return next
}

// TestRatchetCounts: the counting sees what a split over files hides.
func TestRatchetCounts(t *testing.T) {
	methods, fields, lines := typesOf(t)
	if len(methods) < 300 || len(fields) < 300 || lines["internal/launch"] < 1000 {
		t.Fatalf("%d types, %d with fields, %d lines of launch: the counting is broken", len(methods), len(fields), lines["internal/launch"])
	}
}

var (
	partNumber = regexp.MustCompile(`(?i)\bparts? \d+\b|\b(later|earlier|next) part\b|\bissues? #?\d+\b|\bits issues?\b|\bseed 00\d|\bthe seed('s| for) |第 ?[一二三四五六七八九十\d]+ ?(部分|期)|后续部分`)
	citation   = regexp.MustCompile(`(?:docs/)?decisions?[/ ](\d{4})\b`)
)

// TestUsersReadOfFeatures: what users read speaks of the product as it is, never of the order in which it was built.
func TestUsersReadOfFeatures(t *testing.T) {
	walk(t, func(rel string, data []byte) {
		switch {
		case rel == "docs/bugs.md", strings.HasPrefix(rel, "test/"):
			return
		case strings.HasSuffix(rel, ".md"), strings.HasSuffix(rel, ".json"), strings.HasSuffix(rel, ".go") && !strings.HasSuffix(rel, "_test.go"), strings.HasSuffix(rel, ".ts"), strings.HasSuffix(rel, ".tsx"), strings.HasSuffix(rel, ".py"):
		default:
			return
		}
		for i, line := range strings.Split(string(data), "\n") {
			if m := partNumber.FindString(line); m != "" {
				t.Errorf("%s:%d speaks of %q", rel, i+1, m)
			}
		}
	})
}

// TestDecisionsAreCitedByTheirNumber: a page that is named is there.
func TestDecisionsAreCitedByTheirNumber(t *testing.T) {
	there := map[string]bool{}
	walk(t, func(rel string, _ []byte) {
		if dir, file := path.Split(rel); dir == "docs/decisions/" && len(file) > 4 {
			there[file[:4]] = true
		}
	})
	walk(t, func(rel string, data []byte) {
		if !strings.HasSuffix(rel, ".go") && !strings.HasSuffix(rel, ".md") {
			return
		}
		for _, m := range citation.FindAllStringSubmatch(string(data), -1) {
			if !there[m[1]] {
				t.Errorf("%s cites decision %s, which is not there", rel, m[1])
			}
		}
	})
}
