package word

import (
	"strings"
	"testing"
)

func TestParseWord(t *testing.T) {
	for line, ok := range map[string]bool{
		`{"hello":{"pid":1,"rank":0,"generation":1,"version":"1"}}`: true,
		`{"held":{"steps":[]}}`:                   true,
		`{"phase":{"name":"eval","on":true}}`:     true,
		`{"left":{"generation":1}}`:               true,
		`{}`:                                      false,
		`{"held":{"steps":[1]},"bye":{"code":0}}`: false,
		`{"saved":{"step":0}}`:                    false,
		`{"saved":{"step":1,"more":2}}`:           false,
		`{"progress":{"step":-1}}`:                false,
		`{"bye":{"code":0}} {}`:                   false,
		`null`:                                    false,
		`{"held":{"steps":[` + strings.Repeat("1,", 40000) + `1]}}`: false,
	} {
		if _, err := Parse([]byte(line)); (err == nil) != ok {
			t.Errorf("%.80s: %v", line, err)
		}
	}
}
