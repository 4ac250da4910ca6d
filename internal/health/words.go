package health

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// say is fault.T with texts among its arguments, each in its language.
func say(en, zh string, args ...any) fault.Text {
	of := func(lang string) []any {
		out := make([]any, len(args))
		for i, a := range args {
			if t, ok := a.(fault.Text); ok {
				a = t.In(lang)
			}
			out[i] = a
		}
		return out
	}
	return fault.Text{EN: strings.TrimSpace(fault.T(en, en, of("en")...).EN), ZH: fmt.Sprintf(zh, of("zh")...)}
}

// capital begins an English sentence.
func capital(t fault.Text) fault.Text {
	if t.EN != "" {
		t.EN = strings.ToUpper(t.EN[:1]) + t.EN[1:]
	}
	return t
}

func sentence(t fault.Text) fault.Text {
	t = capital(t)
	return fault.Text{EN: t.EN + ".", ZH: t.ZH + "。"}
}

func itoa(n int) string { return strconv.Itoa(n) }
