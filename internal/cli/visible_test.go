package cli

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"sigs.k8s.io/yaml"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
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
		if got := visible(in); got != want {
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
		if shown, open := tinted(in); shown != want.shown || open != want.open {
			t.Errorf("%q: %q, %v; want %q, %v", in, shown, open, want.shown, want.open)
		}
	}
}

func FuzzVisible(f *testing.F) {
	f.Add("\x1b[31m\x1b[2J\u202e\x9b")
	f.Fuzz(func(t *testing.T, s string) {
		out := visible(s)
		if !utf8.ValidString(out) || strings.ContainsFunc(out, func(r rune) bool {
			return r != '\n' && r != '\t' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
		}) {
			t.Fatalf("%q became %q", s, out)
		}
		if again := visible(out); again != out {
			t.Fatalf("%q is not stable: %q", out, again)
		}
		shown, _ := tinted(s)
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

// TestLogsShowSequences: a task's words can't act on the reader's terminal, unless every byte is asked for.
func TestLogsShowSequences(t *testing.T) {
	f := newFake(t)
	f.add(someTask("gpt-1", "GPT", api.PhaseRunning))
	f.log = []client.LogLine{
		{Replica: "worker-0", Stream: "stdout", Text: "\x1b]52;c;cm0=\a\x1b[2Jok\u202e\r"},
		{Replica: "worker-0", Stream: "stderr", Text: "\x1b[31mred"},
	}
	check(t, f.fermi(t, "", "logs", "gpt-1"), result{out: "[worker-0] \\x1b]52;c;cm0=\\x07\\x1b[2Jok\\u202e\n[worker-0] \\x1b[31mred\n"})
	check(t, f.fermi(t, "", "logs", "gpt-1", "--raw"), result{out: "[worker-0] \x1b]52;c;cm0=\a\x1b[2Jok\u202e\r\n[worker-0] \x1b[31mred\n"})
}

// TestColoursEndWithTheirLine: on a terminal colours pass, and never reach what Fermi prints next.
func TestColoursEndWithTheirLine(t *testing.T) {
	var b strings.Builder
	p := newLogPrinter(&b, true, false)
	p.colour = true
	for _, l := range []client.LogLine{
		{Replica: "w-0", Stream: "stdout", Text: "\x1b[31mr", Partial: true},
		{Replica: "w-0", Stream: "stdout", Text: "ed"},
		{Replica: "w-0", Stream: "stdout", Text: "\x1b[32mgreen\x1b[0m plain"},
		{Replica: "w-1", Stream: "stdout", Text: "\x1b[7m", Partial: true},
		{Replica: "w-0", Stream: "stdout", Text: "\x1b[1Aup"},
	} {
		if err := p.line(l); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.flush(); err != nil {
		t.Fatal(err)
	}
	want := "[w-0] \x1b[31mred\x1b[0m\n[w-0] \x1b[32mgreen\x1b[0m plain\n[w-0] \\x1b[1Aup\n[w-1] \x1b[7m\x1b[0m\n"
	if b.String() != want {
		t.Errorf("%q; want %q", b.String(), want)
	}
}

// TestDataIsSafeAndTheSame: JSON and YAML of an object show what a terminal would obey, and still mean it.
func TestDataIsSafeAndTheSame(t *testing.T) {
	f := newFake(t)
	evil := someTask("gpt-1", "GPT", api.PhaseRunning)
	evil.Meta.DisplayName = "a\x1b[2J\u009b\u202eb"
	f.add(evil)
	for _, format := range []string{"json", "yaml", "wide"} {
		got := f.fermi(t, "", "get", "task", "gpt-1", "-o", format)
		if got.code != 0 || strings.ContainsFunc(got.out, isStrange) {
			t.Errorf("%s: %q", format, got.out)
		}
		var back struct{ Metadata struct{ DisplayName string } }
		if format == "wide" {
			continue
		}
		if err := yaml.Unmarshal([]byte(got.out), &back); err != nil || back.Metadata.DisplayName != evil.Meta.DisplayName {
			t.Errorf("%s: %v: %q", format, err, got.out)
		}
	}
	if got := f.fermi(t, "", "describe", "task", "gpt-1"); got.code != 0 || strings.ContainsFunc(got.out, isStrange) {
		t.Errorf("%+v", got)
	}
}
