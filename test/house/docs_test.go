package house

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
)

func read(t *testing.T, rel string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root(t), rel))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestEveryDependencyHasAReason: whoever adds a library says why this one, and whoever removes
// the last use removes the line.
func TestEveryDependencyHasAReason(t *testing.T) {
	page := read(t, "docs/dependencies.md")
	direct := map[string]bool{}
	known := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^(?:require )?\t?([a-z0-9.-]+\.[a-z]+/\S+) v\S+( // indirect)?$`).FindAllStringSubmatch(read(t, "go.mod"), -1) {
		known[m[1]] = true
		direct[m[1]] = m[2] == ""
	}
	if len(known) < 20 {
		t.Fatalf("only %d modules found in go.mod", len(known))
	}
	for _, mod := range sorted(direct) {
		if direct[mod] && !strings.Contains(page, "| "+mod+" |") {
			t.Errorf("docs/dependencies.md does not say why %s", mod)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^\| ([a-zA-Z0-9.-]+\.[a-z]+/\S+) \|`).FindAllStringSubmatch(page, -1) {
		if !known[m[1]] {
			t.Errorf("docs/dependencies.md explains %s, which is not in go.mod", m[1])
		}
	}
}

// TestEveryKindHasAPage walks the table of kinds.
func TestEveryKindHasAPage(t *testing.T) {
	for _, info := range api.Kinds {
		page := read(t, "docs/kinds/"+info.Singular+".md")
		if !strings.HasPrefix(page, "# "+string(info.Kind)+"\n") {
			t.Errorf("docs/kinds/%s.md does not begin with the kind's name", info.Singular)
		}
		if _, err := os.Stat(filepath.Join(root(t), "api/v1/testdata", info.Singular+".json")); err != nil {
			t.Errorf("%s has no golden JSON: %v", info.Kind, err)
		}
	}
}

// TestEveryDecisionIsListed: a page nobody finds was not written.
func TestEveryDecisionIsListed(t *testing.T) {
	list := read(t, "docs/decisions/README.md")
	pages, err := filepath.Glob(filepath.Join(root(t), "docs/decisions/[0-9]*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	for _, p := range pages {
		text, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, section := range []string{"## Context", "## Decision", "## Consequences"} {
			if !strings.Contains(string(text), section) {
				t.Errorf("%s has no %q", filepath.Base(p), section)
			}
		}
		if !strings.Contains(list, "("+filepath.Base(p)+")") {
			t.Errorf("%s is not in the list", filepath.Base(p))
		}
	}
}

// TestGlossary: a word has one line, in both languages, and every kind is among them.
func TestGlossary(t *testing.T) {
	seen := map[string]bool{}
	for i, line := range strings.Split(read(t, "docs/glossary.md"), "\n") {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| word |") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if len(cells) != 3 || !regexp.MustCompile(`\p{Han}`).MatchString(cells[1]) {
			t.Errorf("docs/glossary.md:%d has not a word, its Chinese and a line", i+1)
			continue
		}
		for _, word := range strings.Split(cells[0], ", ") {
			if seen[word] {
				t.Errorf("docs/glossary.md:%d explains %q again", i+1, word)
			}
			seen[word] = true
		}
	}
	for _, info := range api.Kinds {
		if !seen[info.Singular] {
			t.Errorf("docs/glossary.md does not explain %q", info.Singular)
		}
	}
}
