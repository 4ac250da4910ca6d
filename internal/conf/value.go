package conf

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// value reads and writes one setting as text.
type value interface {
	set(string) *fault.Text // nil when understood
	yaml() string
}

type (
	text  string
	texts []string
	// repeated are texts whose flag may be given several times.
	repeated []string
	flagged  bool
	number   int
	span     time.Duration
	// address is a text that is not repeated in a refusal: it may hold a password by mistake.
	address string
)

func bad(en, zh string) *fault.Text {
	return &fault.Text{EN: en, ZH: zh}
}

func (t *text) set(s string) *fault.Text {
	if strings.ContainsRune(s, 0) || len(s) > 4096 {
		return bad("expected a text of at most 4096 bytes without NUL", "应为不超过 4096 字节且不含 NUL 的文本")
	}
	*t = text(s)
	return nil
}

func (a *address) set(s string) *fault.Text {
	*a = address(s)
	return nil
}

func (a *address) yaml() string { return strconv.Quote(string(*a)) }

func (t *text) yaml() string { return strconv.Quote(string(*t)) }

// set reads a list with commas between its parts.
func (t *texts) set(s string) *fault.Text {
	*t = nil
	for part := range strings.SplitSeq(s, ",") {
		if part = strings.TrimSpace(part); part != "" {
			*t = append(*t, part)
		}
	}
	return nil
}

func (t *texts) yaml() string {
	parts := make([]string, len(*t))
	for i, p := range *t {
		parts[i] = strconv.Quote(p)
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

func (r *repeated) set(s string) *fault.Text { return (*texts)(r).set(s) }
func (r *repeated) yaml() string             { return (*texts)(r).yaml() }

func (f *flagged) set(s string) *fault.Text {
	v, err := strconv.ParseBool(s)
	if err != nil {
		return bad("expected true or false", "应为 true 或 false")
	}
	*f = flagged(v)
	return nil
}

func (f *flagged) yaml() string { return strconv.FormatBool(bool(*f)) }

func (n *number) set(s string) *fault.Text {
	v, err := strconv.Atoi(s)
	if err != nil {
		return bad("expected a whole number", "应为整数")
	}
	*n = number(v)
	return nil
}

func (n *number) yaml() string { return strconv.Itoa(int(*n)) }

func (d *span) set(s string) *fault.Text {
	v, err := time.ParseDuration(s)
	if err != nil {
		return bad("expected a duration with a unit such as 90s or 10m", "应为带单位的时长，例如 90s 或 10m")
	}
	*d = span(v)
	return nil
}

func (d *span) yaml() string { return time.Duration(*d).String() }

// Range is two numbers and all between them.
type Range struct{ First, Last int }

func (r *Range) set(s string) *fault.Text {
	if s == "" {
		*r = Range{}
		return nil
	}
	a, b, ok := strings.Cut(s, "-")
	first, err1 := strconv.Atoi(a)
	last, err2 := strconv.Atoi(b)
	if !ok || err1 != nil || err2 != nil {
		return bad("expected two numbers such as 200000-265535", "应为两个编号，例如 200000-265535")
	}
	*r = Range{first, last}
	return nil
}

func (r *Range) yaml() string {
	if *r == (Range{}) {
		return `""`
	}
	return strconv.Quote(fmt.Sprintf("%d-%d", r.First, r.Last))
}
