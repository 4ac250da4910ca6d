package house

import (
	"bufio"
	"bytes"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/fermi-cluster/fermi/"

const maxLines = 800

// file is one Go file.
type file struct {
	path      string // under the repository
	pkg       string // its folder
	test      bool
	generated bool
	lines     int
	ast       *ast.File
	fset      *token.FileSet
}

var skip = []string{".git", ".cache", ".run", "bin", "node_modules", "testdata", "dist"}

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		t.Fatal("the tests run from test/house:", err)
	}
	return dir
}

// content is a file of the repository, read once for all tests.
type content struct {
	rel  string
	data []byte
}

var contents = sync.OnceValues(func() (list []content, err error) {
	dir, err := filepath.Abs("../..")
	if err != nil {
		return nil, err
	}
	return list, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if p != dir && slices.Contains(skip, d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || d.Name() == ".git" { // a file in git worktrees, which names where the repository is
			return nil
		}
		info, err := d.Info()
		if err != nil || info.Size() > 4<<20 {
			return err
		}
		data, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err == nil {
			list = append(list, content{filepath.ToSlash(rel), data})
		}
		return err
	})
})

// walk calls f with every file of the repository, path relative and with slashes.
func walk(t *testing.T, f func(rel string, data []byte)) {
	t.Helper()
	root(t)
	list, err := contents()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list {
		f(c.rel, c.data)
	}
}

// parsed are the Go files, parsed once for all tests.
var parsed = sync.OnceValues(func() (out []file, err error) {
	list, err := contents()
	for _, c := range list {
		if !strings.HasSuffix(c.rel, ".go") {
			continue
		}
		fset := token.NewFileSet()
		tree, bad := parser.ParseFile(fset, c.rel, c.data, parser.ParseComments|parser.SkipObjectResolution)
		if bad != nil {
			err = errors.Join(err, bad)
			continue
		}
		out = append(out, file{
			path: c.rel, pkg: path.Dir(c.rel), test: strings.HasSuffix(c.rel, "_test.go"),
			generated: ast.IsGenerated(tree), lines: bytes.Count(c.data, []byte("\n")), ast: tree, fset: fset,
		})
	}
	return out, err
})

func goFiles(t *testing.T) []file {
	t.Helper()
	root(t)
	out, err := parsed()
	if err != nil {
		t.Error(err)
	}
	if len(out) < 50 {
		t.Fatalf("only %d Go files found: the walk is broken", len(out))
	}
	return out
}

// TestLayers: imports go down the table, never up, never sideways between adapters.
func TestLayers(t *testing.T) {
	for _, f := range goFiles(t) {
		r, ok := rowOf(f.pkg)
		if !ok {
			t.Errorf("%s: the package %s has no row in the table of layers; give it one", f.path, f.pkg)
			continue
		}
		if f.test {
			continue // a test may stand on real adapters
		}
		for _, spec := range f.ast.Imports {
			full, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			rel, ours := strings.CutPrefix(full, module)
			if !ours {
				checkTechnology(t, f, full)
				continue
			}
			if !within(rel, r.may) {
				t.Errorf("%s: layer %q may not import %s", f.path, r.name, rel)
			}
			if within(rel, top) && !within(f.pkg, top) {
				t.Errorf("%s imports %s, which nobody may", f.path, rel)
			}
		}
	}
}

func checkTechnology(t *testing.T, f file, imported string) {
	t.Helper()
	for _, tech := range technology {
		if strings.HasPrefix(imported, tech.module) && !within(f.pkg, tech.only) && !within(f.pkg, []string{"test/...", "bench/..."}) {
			t.Errorf("%s speaks to %s itself; only %v may", f.path, imported, tech.only)
		}
	}
}

// TestTableIsTheTable: the rules refuse what they are there to refuse.
func TestTableIsTheTable(t *testing.T) {
	for _, bad := range [][2]string{
		{"internal/cli", "internal/store"},
		{"internal/server", "internal/store/embedded"},
		{"internal/server", "internal/history/sqlstore"},
		{"internal/control/train", "internal/engine/hostengine"},
		{"internal/control/train", "internal/control/placement"},
		{"internal/control/save", "internal/control/train"},
		{"internal/control/train/blame", "internal/control/train"},
		{"internal/control/gang", "internal/control/save"},
		{"internal/control/train", "internal/launch"},
		{"internal/launch", "internal/control/train"},
		{"internal/engine/hostengine", "internal/store"},
		{"internal/engine/hostengine", "internal/engine/fakeengine"},
		{"internal/engine/router", "internal/engine/hostengine"},
		{"internal/blob/folder", "internal/history"},
		{"internal/store", "internal/history"},
		{"sched", "internal/store"},
		{"api/v1", "internal/store"},
		{"internal/fault", "api/v1"},
		{"client", "internal/server"},
		{"internal/link", "internal/control/train"},
		{"internal/server", "internal/app"},
		{"internal/server/rest", "internal/server/objects"},
		{"internal/server/objects", "internal/server/train"},
		{"internal/server/cluster", "internal/server/train"},
		{"internal/server/train", "internal/server"},
		{"internal/server/archive", "internal/history/sqlstore"},
	} {
		r, ok := rowOf(bad[0])
		if !ok || within(bad[1], r.may) {
			t.Errorf("the table lets %s import %s", bad[0], bad[1])
		}
	}
}

// TestPackageDocs: every package says its place, its promise and its enemies.
func TestPackageDocs(t *testing.T) {
	docs := map[string]string{}
	for _, f := range goFiles(t) {
		if f.test || f.generated {
			continue
		}
		docs[f.pkg] += f.ast.Doc.Text()
	}
	for _, pkg := range sorted(docs) {
		doc := docs[pkg]
		if len(doc) < 40 {
			t.Errorf("%s has no package comment", pkg)
			continue
		}
		if within(pkg, []string{"cmd/...", "bench/...", "test/..."}) {
			continue
		}
		for _, word := range []string{"Place", "Promise", "Enem"} {
			if !strings.Contains(doc, word) {
				t.Errorf("the comment of %s does not say its %s", pkg, map[string]string{"Place": "place", "Promise": "promise", "Enem": "enemies"}[word])
			}
		}
	}
}

// TestLength: a file that long holds two things.
func TestLength(t *testing.T) {
	for _, f := range goFiles(t) {
		if !f.generated && f.lines > maxLines {
			t.Errorf("%s has %d lines; at most %d", f.path, f.lines, maxLines)
		}
	}
}

// acting are the files of a controller that are there to read and to act; all others judge.
var acting = []string{"controller.go", "observe.go", "apply.go", "memory.go", "doc.go"}

// judged are the controllers of which every file judges that is not there to act.
var judged = []string{"internal/control/gang", "internal/control/node", "internal/control/placement", "internal/control/probe", "internal/control/save", "internal/control/tenant", "internal/control/train/...", "internal/control/zone"}

// harmless is what of a banned package is pure: text, and a table of the program that is read once.
var harmless = map[string]string{"net": "JoinHostPort", "sync": "OnceValue"}

// TestJudgementIsPure: what decides gets a snapshot and a time, and returns data.
func TestJudgementIsPure(t *testing.T) {
	banned := regexp.MustCompile(`^(context|log|log/slog|os|os/.*|net|net/.*|io|io/.*|bufio|syscall|math/rand|crypto/rand|runtime|sync|sync/.*|unsafe|golang\.org/x/sys/.*)$`)
	for _, f := range goFiles(t) {
		judges := within(f.pkg, judgement) || path.Base(f.path) == "decide.go" || within(f.pkg, judged) && !slices.Contains(acting, path.Base(f.path))
		if f.test || !judges {
			continue
		}
		for _, spec := range f.ast.Imports {
			name := strings.Trim(spec.Path.Value, `"`)
			if pure, ok := harmless[name]; ok {
				calls(f, name, func(used string, at token.Position) {
					if used != pure {
						t.Errorf("%s: judgement may not use %s.%s", at, name, used)
					}
				})
			} else if banned.MatchString(name) {
				t.Errorf("%s: judgement may not import %s", f.path, name)
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if g, ok := n.(*ast.GoStmt); ok {
				t.Errorf("%s: judgement starts no goroutine", f.fset.Position(g.Pos()))
			}
			return true
		})
		calls(f, "math/rand/v2", func(name string, at token.Position) {
			if !strings.HasPrefix(name, "New") && name != "Rand" && name != "Source" && name != "PCG" {
				t.Errorf("%s: rand.%s has no seed of ours", at, name)
			}
		})
	}
}

// TestTimeIsGiven: judgement and controllers take the time from whoever calls them.
func TestTimeIsGiven(t *testing.T) {
	where := []string{"sched/...", "api/...", "internal/control/...", "internal/reconcile/...", "internal/fsm", "internal/fault"}
	clockwork := []string{"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "Tick", "NewTicker", "NewTimer"}
	for _, f := range goFiles(t) {
		if f.test || !within(f.pkg, where) && path.Base(f.path) != "decide.go" {
			continue
		}
		calls(f, "time", func(name string, at token.Position) {
			if slices.Contains(clockwork, name) {
				t.Errorf("%s: time.%s; take a now or a clock.Clock", at, name)
			}
		})
	}
}

// TestNothingGlobal: loggers are handed in, and init does no work.
func TestNothingGlobal(t *testing.T) {
	loggers := []string{"Debug", "Info", "Warn", "Error", "Log", "Default", "SetDefault", "DebugContext", "InfoContext", "WarnContext", "ErrorContext"}
	for _, f := range goFiles(t) {
		if f.test || f.generated || within(f.pkg, []string{"bench/...", "test/..."}) {
			continue
		}
		calls(f, "log/slog", func(name string, at token.Position) {
			if slices.Contains(loggers, name) {
				t.Errorf("%s: slog.%s is the global logger", at, name)
			}
		})
		calls(f, "log", func(name string, at token.Position) {
			if !slices.Contains([]string{"New", "Logger"}, name) {
				t.Errorf("%s: log.%s is the global logger", at, name)
			}
		})
		// Process 1 of a replica, and the processes that do something as its tenant, must not wait for the tables of the whole binary: their package comments.
		first := slices.Contains([]string{"internal/launch/inside/first.go", "internal/launch/deed/wire.go", "internal/launch/chore/chore.go"}, f.path)
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" && !first {
				t.Errorf("%s: no work in init", f.fset.Position(fn.Pos()))
			}
		}
	}
}

// TestNothingIsCompiledAhead: what every start of the program would compile is compiled when it is used; a launcher starts for each replica.
func TestNothingIsCompiledAhead(t *testing.T) {
	for _, f := range goFiles(t) {
		if f.test || within(f.pkg, []string{"bench/...", "test/..."}) {
			continue
		}
		for _, d := range f.ast.Decls {
			vars, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			of := f
			of.ast = &ast.File{Imports: f.ast.Imports, Decls: []ast.Decl{vars}, Name: f.ast.Name}
			calls(of, "regexp", func(name string, at token.Position) {
				if strings.HasPrefix(name, "MustCompile") {
					t.Errorf("%s: a regular expression of the package; use pattern.New", at)
				}
			})
		}
	}
}

// calls reports every use of a name of an imported package.
func calls(f file, imported string, report func(name string, at token.Position)) {
	local := ""
	for _, spec := range f.ast.Imports {
		if strings.Trim(spec.Path.Value, `"`) != imported {
			continue
		}
		local = path.Base(strings.TrimSuffix(imported, "/v2"))
		if spec.Name != nil {
			local = spec.Name.Name
		}
	}
	if local == "" {
		return
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if id, ok := sel.X.(*ast.Ident); ok && id.Name == local {
			report(sel.Sel.Name, f.fset.Position(sel.Pos()))
		}
		return true
	})
}

// hosts are words that tie the repository to one registry or one machine. They are put together
// here so that this file does not hold them.
var hosts = func() []string {
	var out []string
	for _, h := range [][]string{
		{"docker", "io"}, {"gcr", "io"}, {"ghcr", "io"}, {"quay", "io"}, {"nvcr", "io"}, {"registry", "k8s", "io"},
		{"proxy", "golang", "org"}, {"sum", "golang", "org"}, {"goproxy", "cn"}, {"goproxy", "io"}, {"pypi", "org"},
		{"registry", "npmjs", "org"}, {"deb", "debian", "org"}, {"public", "ecr", "aws"}, {"mirrors", "aliyun", "com"},
		{"mirrors", "tuna", "tsinghua", "edu", "cn"},
	} {
		out = append(out, strings.Join(h, "."))
	}
	for _, p := range [][]string{{"", "work", "main"}, {"", "work", "shared"}, {"", "root", "go"}} {
		out = append(out, strings.Join(p, "/"))
	}
	return out
}()

// TestNoHosts: nothing names a registry or a path of the machine it was written on; which
// registry serves is the machine's setting.
func TestNoHosts(t *testing.T) {
	walk(t, func(rel string, data []byte) {
		if rel == "go.sum" || bytes.IndexByte(data, 0) >= 0 {
			return
		}
		scanner := bufio.NewScanner(bytes.NewReader(data))
		scanner.Buffer(nil, 4<<20)
		for n := 1; scanner.Scan(); n++ {
			line := scanner.Text()
			for _, h := range hosts {
				if i := strings.Index(line, h); i >= 0 && (i == 0 || !wordByte(line[i-1])) {
					t.Errorf("%s:%d names %s", rel, n, h)
				}
			}
		}
	})
}

func wordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-'
}

func sorted[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}
