package fault

import (
	"reflect"
	"strconv"
	"strings"

	"github.com/fermi-cluster/fermi/internal/pattern"
)

// A number and the word after it agree: in "%d [task is|tasks are] waiting" the first form is for 1, the second for all
// other numbers. The number is the last %d before the brackets. Only the English half of a Text needs it.

var (
	forms = pattern.New(`\[([^\[\]|%]*)\|([^\[\]|%]*)\]`)
	verbs = pattern.New(`%(%|[-+# 0]*(\[(\d+)\])?[\d.]*[a-zA-Z])`)
)

// agree settles the forms in a format, before the arguments are put in: what these hold is left alone.
func agree(format string, args []any) string {
	if !strings.Contains(format, "|") {
		return format
	}
	var out strings.Builder
	from := 0
	for _, at := range forms.FindAllStringSubmatchIndex(format, -1) {
		n, ok := lastNumber(format[:at[0]], args)
		if !ok {
			continue
		}
		form := format[at[4]:at[5]]
		if n == 1 {
			form = format[at[2]:at[3]]
		}
		out.WriteString(format[from:at[0]] + form)
		from = at[1]
	}
	return out.String() + format[from:]
}

// lastNumber is the argument of the last %d in head.
func lastNumber(head string, args []any) (n int64, ok bool) {
	next := 0
	for _, m := range verbs.FindAllStringSubmatch(head, -1) {
		if m[1] == "%" {
			continue
		}
		if m[3] != "" {
			next, _ = strconv.Atoi(m[3])
			next--
		}
		if strings.HasSuffix(m[1], "d") && next >= 0 && next < len(args) {
			switch v := reflect.ValueOf(args[next]); {
			case v.CanInt():
				n, ok = v.Int(), true
			case v.CanUint():
				n, ok = int64(v.Uint()), true
			}
		}
		next++
	}
	return n, ok
}
