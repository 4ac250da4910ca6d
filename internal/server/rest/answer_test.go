package rest

import "testing"

// FuzzLanguage: never panics; it is one of two.
func FuzzLanguage(f *testing.F) {
	f.Add("zh-CN,zh;q=0.9,en;q=0.8")
	f.Add("en;q=2")
	f.Fuzz(func(t *testing.T, text string) {
		if got := Language(text); got != "zh" && got != "en" {
			t.Fatalf("%q", got)
		}
	})
}
