package array

import (
	"slices"
	"strconv"
	"strings"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// Bounds of indexes.
const (
	MaxIndexes = 10_000
	maxIndex   = 1_000_000
	maxText    = 4096
)

// Error is why a text names no indexes.
type Error struct{ fault.Text }

func (e *Error) Error() string { return e.EN }

func wrong(en, zh string, args ...any) error { return &Error{fault.T(en, zh, args...)} }

// Parse reads indexes as 1-100, 0-9:3 or 1,4,7-9. They come back in order, each once.
func Parse(text string) ([]int, error) {
	if len(text) > maxText {
		return nil, wrong("The list of indexes has %d characters; at most %d are allowed.", "序号列表有 %d 个字符，最多允许 %d 个。", len(text), maxText)
	}
	return read(text)
}

// read is Parse of what may be long.
func read(text string) ([]int, error) {
	var out []int
	for _, part := range strings.Split(text, ",") {
		first, last, step, ok := span(strings.TrimSpace(part))
		switch {
		case !ok:
			return nil, wrong("%q is no index; write them as 1-100, 0-9:3 or 1,4,7-9.", "%q 不是序号；应写作 1-100、0-9:3 或 1,4,7-9。", clip(part))
		case last > maxIndex:
			return nil, wrong("%d is too large for an index; the largest is %d.", "序号 %d 过大，最大为 %d。", last, maxIndex)
		case first > last:
			return nil, wrong("%d-%d is empty: write the smaller index first.", "%d-%d 为空：请先写较小的序号。", first, last)
		case len(out)+(last-first)/step+1 > MaxIndexes:
			return nil, wrong("There are more than %d indexes; make several arrays.", "序号超过 %d 个，请拆分为多个任务阵列。", MaxIndexes)
		}
		for i := first; i <= last; i += step {
			out = append(out, i)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// span reads A, A-B or A-B:STEP.
func span(text string) (first, last, step int, ok bool) {
	ends, every, stepped := strings.Cut(text, ":")
	from, to, ranged := strings.Cut(ends, "-")
	first, ok = number(from)
	last, step = first, 1
	if ranged && ok {
		last, ok = number(to)
	}
	if stepped && ok {
		step, ok = number(every)
		ok = ok && ranged && step > 0
	}
	return first, last, step, ok
}

// number reads digits alone; more of them than any bound has are still too large afterwards.
func number(text string) (int, bool) {
	if text == "" || len(text) > 9 || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil
}

func clip(text string) string {
	if r := []rune(text); len(r) > 40 {
		return string(r[:40]) + "…"
	}
	return text
}

// ParseAtOnce reads what people type: indexes, and after a % how many of them at once.
func ParseAtOnce(text string) (indexes string, atOnce int, err error) {
	indexes, most, limited := strings.Cut(text, "%")
	if limited {
		n, ok := number(most)
		if !ok || n < 1 {
			return "", 0, wrong("After %% comes how many run at once, as in 1-100%%10, not %q.", "%% 之后是同时运行的数量，例如 1-100%%10，而不是 %q。", clip(most))
		}
		atOnce = n
	}
	_, err = Parse(indexes)
	return indexes, atOnce, err
}

// Format writes sorted indexes in short: as runs of equal steps.
func Format(list []int) string {
	var b strings.Builder
	for i := 0; i < len(list); {
		end := i + 1
		for end < len(list) && list[end]-list[end-1] == list[i+1]-list[i] {
			end++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(list[i]))
		step := 1
		if end-i > 1 {
			step = list[i+1] - list[i]
		}
		switch {
		case end-i < 3 && step > 1: // two far apart say more each for itself
			end = i + 1
		case end-i > 1:
			b.WriteString("-" + strconv.Itoa(list[end-1]))
			if step > 1 {
				b.WriteString(":" + strconv.Itoa(step))
			}
		}
		i = end
	}
	return b.String()
}

// Set reads what Format wrote; nothing is in one that can't be read.
func Set(text string) map[int]bool {
	out := map[int]bool{}
	if text == "" {
		return out
	}
	list, err := read(text)
	if err != nil {
		return out
	}
	for _, i := range list {
		out[i] = true
	}
	return out
}
