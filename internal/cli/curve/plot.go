package curve

import (
	"fmt"
	"math"
	"strings"
	"time"
)

const (
	plotRows  = 12
	axisCells = 11
	leastWide = 30
	mostWide  = 160
)

// draw puts a curve on the terminal: each column shows the span between the lowest and highest value in it.
func draw(s *Shell, c Curve, byTime, logarithmic bool) {
	fmt.Fprintln(s.Out, c.title(s))
	lines, left := plot(c, min(max(s.Width, 80)-axisCells-2, mostWide), byTime, logarithmic)
	for _, line := range lines {
		fmt.Fprintln(s.Out, line)
	}
	if len(lines) > 0 {
		from, to := c.ends(byTime)
		width := len([]rune(lines[0])) - axisCells - 2
		fmt.Fprintf(s.Out, "%*s  %s%*s\n", axisCells, "", from, max(width-len(from), len(to)+1), to)
	}
	if n := len(c.NotFinite); n > 0 {
		fmt.Fprintln(s.Out, s.T("× %d [value is|values are] no finite number, the last at step %d: %s", "× 有 %d 个非有限值，最后一个在第 %d 步：%s", n, c.Steps[c.NotFinite[n-1].At], c.NotFinite[n-1].Is))
	}
	if left > 0 {
		fmt.Fprintln(s.Out, s.T("%d [value|values] of 0 or less [has|have] no place on a logarithmic axis", "对数刻度无法显示 %d 个小于等于 0 的值", left))
	}
	fmt.Fprintln(s.Out)
}

// ends are the texts below the first and last column.
func (c *Curve) ends(byTime bool) (from, to string) {
	n := len(c.Steps)
	if byTime {
		at := func(ms int64) string { return time.UnixMilli(ms).Local().Format("01-02 15:04:05") }
		return at(c.Times[0]), at(c.Times[n-1])
	}
	lo, hi := c.span(false)
	return fmt.Sprint(lo), fmt.Sprint(hi)
}

func (c *Curve) span(byTime bool) (lo, hi int64) {
	lo, hi = math.MaxInt64, math.MinInt64
	for i := range c.Steps {
		x := c.Steps[i]
		if byTime {
			x = c.Times[i]
		}
		lo, hi = min(lo, x), max(hi, x)
	}
	return lo, hi
}

// plot gives the lines of the picture; left are values that a logarithmic axis has no place for.
func plot(c Curve, width int, byTime, logarithmic bool) (lines []string, left int) {
	if len(c.Values) == 0 {
		return nil, 0
	}
	width = max(width, leastWide)
	type column struct {
		low, high float64
		any, not  bool
	}
	columns := make([]column, width)
	from, to := c.span(byTime)
	low, high := math.Inf(1), math.Inf(-1)
	for i, v := range c.Values {
		x := c.Steps[i]
		if byTime {
			x = c.Times[i]
		}
		at := &columns[int(float64(x-from)/max(float64(to-from), 1)*float64(width-1))]
		if v == nil {
			at.not = true
			continue
		}
		y := *v
		if logarithmic {
			if y <= 0 {
				left++
				continue
			}
			y = math.Log10(y)
		}
		if !at.any {
			at.low, at.high, at.any = y, y, true
		}
		at.low, at.high = min(at.low, y), max(at.high, y)
		low, high = min(low, y), max(high, y)
	}
	if low > high { // there is no number at all
		low, high = 0, 0
	}
	row := func(y float64) int {
		if high <= low {
			return plotRows / 2
		}
		return min(max(int(math.Round((y-low)/(high-low)*(plotRows-1))), 0), plotRows-1)
	}
	label := func(y float64) string {
		if logarithmic {
			y = math.Pow(10, y)
		}
		return number(y)
	}
	for r := plotRows - 1; r >= 0; r-- {
		var b strings.Builder
		text := ""
		switch {
		case r == plotRows-1 && high > low:
			text = label(high)
		case r == 0 && high > low, high <= low && r == plotRows/2:
			text = label(low)
		}
		fmt.Fprintf(&b, "%*s ┤", axisCells, text)
		for _, col := range columns {
			switch {
			case col.any && row(col.low) == r && row(col.high) == r:
				b.WriteRune('•')
			case col.any && row(col.low) <= r && r <= row(col.high):
				b.WriteRune('│')
			case col.not && r == 0:
				b.WriteRune('×')
			default:
				b.WriteRune(' ')
			}
		}
		lines = append(lines, b.String())
	}
	return lines, left
}
