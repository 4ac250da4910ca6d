package ignore

import (
	"bufio"
	"bytes"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// File lists what stays at home, in the notation of .gitignore; where there is none, that one counts.
const File = ".fermiignore"

// Files are those that are looked for; the first one that is there counts.
var Files = []string{File, ".gitignore"}

// Rules decide which paths are left out. The last rule that matches wins; the zero value has no rules.
type Rules struct{ rules []rule }

type rule struct {
	match  *regexp.Regexp
	keep   bool // "!": put back in
	folder bool // trailing slash: folders only
}

const (
	// MaxSize is that of the file, in bytes.
	MaxSize  = 1 << 20
	maxRules = 10_000
	maxRule  = 4096
)

// Parse reads the rules of a file; a bad one is an error that says its line.
func Parse(file string, data []byte) (*Rules, error) {
	if len(data) > MaxSize {
		return nil, fault.New(fault.TooLarge, "IgnoreTooLarge", fault.T("%s is over %d KiB.", "%s 超过 %d KiB。", file, MaxSize>>10))
	}
	ig := &Rules{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, MaxSize+1)
	for n := 1; lines.Scan(); n++ {
		text := trimRule(lines.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		rule, err := parseRule(text)
		if err == nil && len(ig.rules) == maxRules {
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

func parseRule(text string) (rule, error) {
	var r rule
	if len(text) > maxRule {
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
			class, n := globClass(glob[i:])
			b.WriteString(class)
			i += n
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

// globClass turns a class at the start of glob into one of a regular expression, and says how long it was. As in
// Git a class never matches a slash, "]" is a member where it comes first, and a class without an end matches nothing.
func globClass(glob string) (string, int) {
	in, i := "[", 1
	if i < len(glob) && (glob[i] == '!' || glob[i] == '^') {
		in, i = "[^/", i+1
	}
	for first := true; i < len(glob); first = false {
		c := glob[i]
		if c == ']' && !first {
			return in + "]", i + 1
		}
		if c == '\\' && i+1 < len(glob) {
			i++
			c = glob[i]
		} else if c == '-' && !first && i+1 < len(glob) && glob[i+1] != ']' {
			in, i = in+"-", i+1 // a range
			continue
		}
		if c == '/' { // a slash ends the part of a path, and the class with it
			break
		}
		_, size := utf8.DecodeRuneInString(glob[i:])
		in += regexp.QuoteMeta(glob[i : i+size])
		if c == '-' || c == '^' {
			in = in[:len(in)-1] + "\\" + string(c)
		}
		i += size
	}
	return "[^\\x00-\\x{10FFFF}]", len(glob)
}

// made are folders that tools make and can make again. A rule such as !node_modules/ puts one back in.
var made = []string{"__pycache__", "node_modules", ".ipynb_checkpoints", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".tox", ".nox"}

// Ignored decides on one path, relative and with slashes. A folder that is ignored isn't entered. environment: the folder is
// a virtual environment, whose programs and links mean nothing elsewhere.
func (ig *Rules) Ignored(path string, folder, environment bool) bool {
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
