package show

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/fermi-cluster/fermi/internal/fault"
)

func TestCells(t *testing.T) {
	for s, want := range map[string]int{"": 0, "abc": 3, "北京-1": 6, "（）": 4, "e\u0301": 1, "…": 1, "\u200b": 0, "🚀": 2, "ｱ": 1, "한국": 4} {
		if got := cells(s); got != want {
			t.Errorf("cells(%q) = %d, want %d", s, got, want)
		}
	}
	for _, tt := range []struct {
		in   string
		max  int
		want string
	}{{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"北京上海", 5, "北京…"}, {"北京上海", 4, "北…"}, {"北京", 1, "…"}, {"北京", 0, ""}} {
		if got := Cut(tt.in, tt.max); got != tt.want {
			t.Errorf("cut(%q, %d) = %q, want %q", tt.in, tt.max, got, tt.want)
		}
	}
}

func FuzzCut(f *testing.F) {
	f.Add("GPT大模型分布式训练", 7)
	f.Add("a\u0301\xff", 1)
	f.Fuzz(func(t *testing.T, s string, n int) {
		n %= 200
		got := Cut(s, n)
		if cells(got) > max(n, 0) && cells(s) > n {
			t.Errorf("cut(%q, %d) = %q is %d wide", s, n, got, cells(got))
		}
		if c := Clean(s); !utf8.ValidString(c) || strings.ContainsAny(c, "\n\x1b\r") {
			t.Errorf("clean(%q) = %q", s, c)
		}
	})
}

// TestTableFits: no line is wider than the screen, names stay whole as long as possible.
func TestTableFits(t *testing.T) {
	cols := []Column{Fixed("NAME", "名称"), Col("DISPLAY NAME", "显示名"), Number("N", "数")}
	rows := [][]Cell{
		{Text("gpt-7x2k9"), Text(strings.Repeat("大模型", 20)), Text("12")},
		{{"bert", Good}, {"evil\x1b[31m\nname", Plain}, {"1", Bad}},
	}
	for _, width := range []int{0, 200, 80, 40, 20, 10} {
		for _, lang := range []string{"en", "zh"} {
			var b strings.Builder
			if err := Write(&b, cols, rows, lang, screen{Width: width}); err != nil {
				t.Fatal(err)
			}
			if strings.ContainsAny(b.String(), "\x1b\r") || strings.Count(b.String(), "\n") != 3 {
				t.Errorf("control characters at width %d:\n%q", width, b.String())
			}
			for line := range strings.Lines(b.String()) {
				if w := cells(strings.TrimRight(line, "\n")); width >= 20 && w > width {
					t.Errorf("%d cells on a screen of %d: %q", w, width, line)
				}
			}
			if width >= 40 && !strings.Contains(b.String(), "gpt-7x2k9") {
				t.Errorf("the name was cut at width %d:\n%s", width, b.String())
			}
		}
	}
	var b strings.Builder
	_ = Write(&b, cols, rows, "en", screen{Width: 80, Colour: true})
	if !strings.Contains(b.String(), "\x1b[32mbert\x1b[0m") {
		t.Errorf("no colour: %q", b.String())
	}
}

func TestTimes(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 45 * time.Second: "45s", 3 * time.Minute: "3m", 3*time.Minute + 5*time.Second: "3m5s", 25*time.Minute + time.Second: "25m",
		80 * time.Minute: "1h20m", 30 * time.Hour: "30h", 100 * time.Hour: "4d",
	} {
		if got := Short(d); got != want {
			t.Errorf("short(%s) = %s, want %s", d, got, want)
		}
	}
	for d, want := range map[time.Duration]fault.Text{
		time.Minute: {EN: "1m ago", ZH: "1m前"}, -time.Minute: {EN: "in 1m", ZH: "1m后"}, 0: {EN: "just now", ZH: "刚刚"},
	} {
		if got := Since(d); got != want {
			t.Errorf("since(%s) = %v", d, got)
		}
	}
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 1 << 40: "1.0 TiB"} {
		if got := Size(n); got != want {
			t.Errorf("size(%d) = %s", n, got)
		}
	}
}
