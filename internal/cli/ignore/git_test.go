package ignore

import (
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAsGit: with random rules the same files stay at home as with Git itself.
func TestAsGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Fatal("git is not installed; scripts/install-deps.sh installs it")
	}
	dir := t.TempDir()
	files := map[string]string{".gitignore": ""}
	names := []string{"a", "b", "ab", "a.b", "c d", "]", "训练"}
	for _, x := range names {
		files[x+"/f"] = ""
		for _, y := range names {
			files[x+"/"+y+"/f"] = ""
			files[x+"/"+y+"/a"] = ""
			files[x+"/"+y+"/b/a/b"] = ""
		}
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("git", "-C", dir, "init", "-q").CombinedOutput(); err != nil {
		t.Fatal(string(out))
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		var rules []string
		for range 1 + rnd.IntN(4) {
			rules = append(rules, someRule(rnd))
		}
		text := strings.Join(rules, "\n") + "\n"
		if err := os.WriteFile(filepath.Join(dir, ".gitignore"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("git", "-C", dir, "-c", "core.excludesFile=", "ls-files", "-z", "--others", "--exclude-standard").Output()
		if err != nil {
			t.Fatal(err)
		}
		want := strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 })
		ig, err := Parse(".gitignore", []byte(text))
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		got := []string{}
		err = fs.WalkDir(os.DirFS(dir), ".", func(p string, d fs.DirEntry, err error) error {
			switch {
			case err != nil || p == ".":
				return err
			case ig.Ignored(p, d.IsDir(), false):
				if d.IsDir() {
					return fs.SkipDir
				}
			case !d.IsDir():
				got = append(got, p)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: kept by git (-) and by us (+):\n%s", text, diff)
		}
	}
}

// someRule is a line of a .gitignore, odd ones among them. Left out is "a**/b", where Git departs from its own manual.
func someRule(rnd *rand.Rand) string {
	parts := []string{"a", "b", "ab", "a.b", "f", "*", "?", "a*", "*b", "[ab]", "[!a]", "[^b]", "[a-b]*", "**", "a?b", "c d", "c*", `\a`, "*.*",
		"[a]**", "[!]a]", "[]a]", `[\]a]`, "[a-]*", "[^-b]", "训*", "**b"}
	var rule []string
	for range 1 + rnd.IntN(3) {
		rule = append(rule, parts[rnd.IntN(len(parts))])
	}
	text := strings.Join(rule, "/")
	if rnd.IntN(4) == 0 {
		text = "/" + text
	}
	if rnd.IntN(4) == 0 {
		text += "/"
	}
	if rnd.IntN(3) == 0 {
		text = "!" + text
	}
	return text
}
