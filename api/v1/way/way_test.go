package way

import (
	"slices"
	"strings"
	"testing"
)

func TestValidate(t *testing.T) {
	isName := func(s string) bool { return s != "" && !strings.ContainsAny(s, " /") }
	for name, c := range map[string]struct {
		ways map[string]Way
		bad  []string
	}{
		"right":             {map[string]Way{"b": {"10.20.0.0/16", true}, "a": {Network: "10.1.0.0/24"}}, nil},
		"its own encrypted": {map[string]Way{"a": {Encrypted: true}}, []string{"spec.ways.a.encrypted"}},
		"no zone":           {map[string]Way{"b c": {Encrypted: true}}, []string{"spec.ways"}},
		"an address":        {map[string]Way{"b": {Network: "10.20.0.1"}}, []string{"spec.ways.b.network"}},
		"bits behind":       {map[string]Way{"b": {Network: "10.20.0.1/16"}}, []string{"spec.ways.b.network"}},
		"everything":        {map[string]Way{"b": {Network: "0.0.0.0/0"}}, []string{"spec.ways.b.network"}},
		"IPv6":              {map[string]Way{"b": {Network: "fd00::/8"}}, []string{"spec.ways.b.network"}},
		"nonsense":          {map[string]Way{"b": {Network: strings.Repeat("x", 10_000)}}, []string{"spec.ways.b.network"}},
	} {
		var bad []string
		for _, f := range (&Roads{Ways: c.ways}).Validate("a", isName) {
			bad = append(bad, f.Path)
			if len(f.Message.EN) > 300 || f.Message.ZH == "" {
				t.Errorf("%s: %+v", name, f.Message)
			}
		}
		if !slices.Equal(bad, c.bad) {
			t.Errorf("%s: %v", name, bad)
		}
	}
}
