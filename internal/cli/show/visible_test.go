package show

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestVisibleShowsAndDoesNotObey(t *testing.T) {
	for in, want := range map[string]string{
		"plain 中文 🎉\tx\ny":             "plain 中文 🎉\tx\ny",
		"\x1b[2J\x1b[H gone":           `\x1b[2J\x1b[H gone`,
		"\x1b]0;title\a":               `\x1b]0;title\x07`,
		"\x1b]52;c;cm0gLXJm\x1b\\":     `\x1b]52;c;cm0gLXJm\x1b\`,
		"\u009b2J":                     `\u009b2J`,
		"\x9b2J":                       `\x9b2J`,
		"user\u202egnp.exe":            `user\u202egnp.exe`,
		"\u2066x\u2069 \u200f":         `\u2066x\u2069 \u200f`,
		"a\rb\r\nc":                    "a\\rb\nc",
		"del\x7f bs\b nul\x00":         `del\x7f bs\x08 nul\x00`,
		"\x1b[31mred\x1b[0m":           `\x1b[31mred\x1b[0m`,
		"already \ufffd replaced":      "already \ufffd replaced",
		"cut \xe4\xb8":                 `cut \xe4\xb8`,
		"👩\u200d💻 joined, e\u0301 too": "👩\u200d💻 joined, e\u0301 too",
	} {
		if got := Visible(in); got != want {
			t.Errorf("%q is shown as %q; want %q", in, got, want)
		}
	}
}

func TestOnlyColoursPass(t *testing.T) {
	for in, want := range map[string]struct {
		shown string
		open  bool
	}{
		"\x1b[31mred":                            {"\x1b[31mred", true},
		"\x1b[1;38;5;8mx\x1b[0m":                 {"\x1b[1;38;5;8mx\x1b[0m", false},
		"\x1b[38;2;8;8;8mx\x1b[m":                {"\x1b[38;2;8;8;8mx\x1b[m", false},
		"\x1b[8mhidden":                          {`\x1b[8mhidden`, false},
		"\x1b[1;08mhidden":                       {`\x1b[1;08mhidden`, false},
		"\x1b[38;5;1;8mhidden":                   {`\x1b[38;5;1;8mhidden`, false},
		"\x1b[>4;2m":                             {`\x1b[>4;2m`, false},
		"\x1b[2K\x1b[1A":                         {`\x1b[2K\x1b[1A`, false},
		"\x1b[?25l":                              {`\x1b[?25l`, false},
		"\x1b[":                                  {`\x1b[`, false},
		"\x1b[" + strings.Repeat("1;", 40) + "m": {`\x1b[` + strings.Repeat("1;", 40) + "m", false},
	} {
		if shown, open := Tinted(in); shown != want.shown || open != want.open {
			t.Errorf("%q: %q, %v; want %q, %v", in, shown, open, want.shown, want.open)
		}
	}
}

func FuzzVisible(f *testing.F) {
	f.Add("\x1b[31m\x1b[2J\u202e\x9b")
	f.Fuzz(func(t *testing.T, s string) {
		out := Visible(s)
		if !utf8.ValidString(out) || strings.ContainsFunc(out, func(r rune) bool {
			return r != '\n' && r != '\t' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
		}) {
			t.Fatalf("%q became %q", s, out)
		}
		if again := Visible(out); again != out {
			t.Fatalf("%q is not stable: %q", out, again)
		}
		shown, _ := Tinted(s)
		for rest := shown; ; {
			i := strings.IndexByte(rest, '\x1b')
			if i < 0 {
				break
			}
			if sgr(rest[i:]) == 0 {
				t.Fatalf("%q lets through %q", s, rest[i:])
			}
			rest = rest[i+1:]
		}
	})
}
