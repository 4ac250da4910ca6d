package history

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestSortKey(t *testing.T) {
	want := []string{"", "9 runs", "10 runs", "bert", "BERT中文预训练", "GPT大模型 2", "GPT大模型 10", "ResNet", "北京", "全球翻译推理服务", "上海", "中文"}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortStableFunc(got, func(a, b string) int { return strings.Compare(SortKey(a), SortKey(b)) })
	if !slices.Equal(want, got) {
		t.Fatalf("want %q\ngot  %q", want, got)
	}
	if n := len(SortKey(strings.Repeat("模", 128))); n != 128 {
		t.Fatalf("a long name's key has %d characters", n)
	}
	keys := map[string]string{}
	for _, s := range want {
		keys[s] = SortKey(s)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for _, s := range want {
				if SortKey(s) != keys[s] {
					t.Errorf("%q has two keys", s)
				}
			}
		})
	}
	wg.Wait()
}

func TestTimeKey(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.FixedZone("x", 8*3600))
	if got := TimeKey(at); got != "2026-01-01T19:04:05.000006000Z" {
		t.Fatal(got)
	}
	rapid.Check(t, func(t *rapid.T) {
		at := time.Unix(rapid.Int64Range(-62135596800, 253402300799).Draw(t, "s"), rapid.Int64Range(0, 999999999).Draw(t, "ns"))
		if got, want := TimeKey(at), at.UTC().Format("2006-01-02T15:04:05.000000000Z"); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	})
}

func TestFold(t *testing.T) {
	for in, want := range map[string]string{"ＧＰＴ大模型": "gpt大模型", "ÄÖ": "äö", "ﬁne": "fine", "": ""} {
		if got := Fold(in); got != want {
			t.Errorf("Fold(%q) = %q", in, got)
		}
	}
}
