package v1

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestMakeName(t *testing.T) {
	tests := []struct {
		kind Kind
		in   string
		want string
	}{
		{KindTrainingTask, "GPT大模型分布式训练", "gpt-7x2k9"},
		{KindTrainingTask, "BERT中文预训练", "bert-7x2k9"},
		{KindTrainingTask, "全球翻译推理服务", "task-7x2k9"},
		{KindZone, "北京", "zone-7x2k9"},
		{KindZone, "北京-1", "1-7x2k9"},
		{KindTrainingTask, "  ResNet 50 / v2 — α ", "resnet-50-v2-7x2k9"},
		{KindTrainingTask, "", "task-7x2k9"},
		{KindTrainingTask, "---", "task-7x2k9"},
		{KindTrainingTask, strings.Repeat("a", 39) + "-b", strings.Repeat("a", 39) + "-7x2k9"},
		{KindTrainingTask, strings.Repeat("ab", 40), strings.Repeat("ab", 20) + "-7x2k9"},
		{"Unknown", "训练", "object-7x2k9"},
	}
	for _, tc := range tests {
		got := MakeNameFor(tc.kind, tc.in, fixed)
		if got != tc.want {
			t.Errorf("%q: %q, want %q", tc.in, got, tc.want)
		}
		if !IsName(got) {
			t.Errorf("%q is not a name", got)
		}
	}
	if got := MakeName("全球翻译推理服务", fixed); got != "task-7x2k9" {
		t.Error(got)
	}
}

func FuzzMakeName(f *testing.F) {
	for _, s := range []string{"GPT大模型分布式训练", "BERT中文预训练", "全球翻译推理服务", "", "-a-", "a\xffb", strings.Repeat("x y", 100)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := MakeName(s, fixed)
		if !IsName(got) || len(got) > maxNameStem+1+nameSuffix || strings.Contains(got, "--") {
			t.Errorf("%q becomes %q", s, got)
		}
	})
}

func FuzzDisplayName(f *testing.F) {
	for _, s := range []string{"GPT大模型分布式训练", "BERT中文预训练", "全球翻译推理服务", "", " a", "\u202e", "\u200b", "é", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var faults faults
		faults.displayName("p", s)
		for _, field := range faults.list {
			bilingual(t, field.Message)
		}
		if len(faults.list) > 0 {
			return
		}
		if n := utf8.RuneCountInString(s); n < 1 || n > 128 || !utf8.ValidString(s) || strings.TrimSpace(s) != s {
			t.Errorf("%q was accepted", s)
		}
		if strings.ContainsAny(s, "\n\r\t\x00\x1b\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c") {
			t.Errorf("%q was accepted", s)
		}
	})
}
