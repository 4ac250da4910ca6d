package cli

import (
	"bufio"
	"bytes"
	"regexp"
	"slices"
	"strings"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// ignoreFile lists what stays at home, in the notation of .gitignore; where there is none, that one
// counts.
const ignoreFile = ".fermiignore"

var ignoreFiles = []string{ignoreFile, ".gitignore"}

// ignorer decides which paths are left out. The last rule that matches wins.
type ignorer struct{ rules []ignoreRule }

type ignoreRule struct {
	match  *regexp.Regexp
	keep   bool // "!": put back in
	folder bool // trailing slash: folders only
}

const (
	maxIgnore      = 1 << 20
	maxIgnoreRules = 10_000
	maxIgnoreRule  = 4096
)

// parseIgnore reads the rules of a file; a bad one is an error that says its line.
func parseIgnore(file string, data []byte) (*ignorer, error) {
	if len(data) > maxIgnore {
		return nil, fault.New(fault.TooLarge, "IgnoreTooLarge", fault.T("%s is over %d KiB.", "%s 超过 %d KiB。", file, maxIgnore>>10))
	}
	ig := &ignorer{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, maxIgnore+1)
	for n := 1; lines.Scan(); n++ {
		text := trimRule(lines.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		rule, err := parseRule(text)
		if err == nil && len(ig.rules) == maxIgnoreRules {
			err = fault.New(fault.Invalid, "TooManyRules", fault.T("too many rules", "规则过多"))
		}
		if err != nil {
			return nil, fault.New(fault.Invalid, "BadIgnore", fault.T(
				"%s:%d: %q is not a pattern.", "%s:%d：%q 不是有效的匹配规则。", file, n, text)).Because(err)
		}
		ig.rules = append(ig.rules, rule)
	}
	return ig, lines.Err()
}

// trimRule drops trailing spaces unless escaped.
func trimRule(s string) string {
	s = strings.TrimRight(s, "\r\n")
	for strings.HasSuffix(s, " ") && !strings.HasSuffix(s, `\ `) {
		s = s[:len(s)-1]
	}
	return s
}

func parseRule(text string) (ignoreRule, error) {
	var r ignoreRule
	if len(text) > maxIgnoreRule {
		return r, fault.New(fault.Invalid, "RuleTooLong", fault.T("too long", "过长"))
	}
	if strings.HasPrefix(text, "!") {
		r.keep, text = true, text[1:]
	}
	text = strings.TrimPrefix(text, `\`) // \# and \!
	if strings.HasSuffix(text, "/") {
		r.folder, text = true, strings.TrimRight(text, "/")
	}
	anchored := strings.Contains(text, "/")
	text = strings.TrimPrefix(text, "/")
	if text == "" {
		return r, fault.New(fault.Invalid, "EmptyRule", fault.T("empty", "空规则"))
	}
	expr := "^"
	if !anchored {
		expr += "(?:.*/)?"
	}
	re, err := regexp.Compile(expr + globToRegexp(text) + "$")
	r.match = re
	return r, err
}

// globToRegexp turns *, ?, […] and ** into a regular expression over slash-separated paths.
func globToRegexp(glob string) string {
	var b strings.Builder
	for i := 0; i < len(glob); {
		switch c := glob[i]; {
		case strings.HasPrefix(glob[i:], "**/") && (i == 0 || glob[i-1] == '/'):
			b.WriteString("(?:.*/)?")
			i += 3
		case glob[i:] == "**" && (i == 0 || glob[i-1] == '/'):
			b.WriteString(".+")
			i += 2
		case c == '*':
			b.WriteString("[^/]*")
			i++
		case c == '?':
			b.WriteString("[^/]")
			i++
		case c == '[':
			end := strings.IndexByte(glob[i+1:], ']')
			if end < 1 {
				b.WriteString(`\[`)
				i++
				continue
			}
			class := glob[i+1 : i+1+end]
			if class[0] == '!' {
				class = "^" + class[1:]
			}
			b.WriteString("[" + strings.ReplaceAll(strings.ReplaceAll(class, `\`, `\\`), "[", `\[`) + "]")
			i += end + 2
		case c == '\\' && i+1 < len(glob):
			b.WriteString(regexp.QuoteMeta(glob[i+1 : i+2]))
			i += 2
		default:
			n := strings.IndexAny(glob[i+1:], `*?[\`) + 1
			if n == 0 {
				n = len(glob) - i
			}
			b.WriteString(regexp.QuoteMeta(glob[i : i+n]))
			i += n
		}
	}
	return b.String()
}

// made are folders that tools make and can make again. A rule such as !node_modules/ puts one back in.
var made = []string{"__pycache__", "node_modules", ".ipynb_checkpoints", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".tox", ".nox"}

// ignored decides on one path, relative and with slashes. A folder that is ignored isn't entered. environment: the folder is
// a virtual environment, whose programs and links mean nothing elsewhere.
func (ig *ignorer) ignored(path string, folder, environment bool) bool {
	name := path[strings.LastIndexByte(path, '/')+1:]
	if name == ".git" {
		return true
	}
	out := folder && (environment || slices.Contains(made, name))
	for _, r := range ig.rules {
		if (!r.folder || folder) && r.match.MatchString(path) {
			out = !r.keep
		}
	}
	return out
}
