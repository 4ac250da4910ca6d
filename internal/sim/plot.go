package sim

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
)

// line is one curve of a plot.
type line struct {
	Name   string
	Colour string
	X, Y   []float64
}

const (
	plotWidth, plotHeight = 640, 240
	left, right           = 56, 12
	top, bottom           = 26, 40
)

// plot draws lines as one SVG, with axes from nice numbers. logX is for waits, which span decades.
func plot(title, xName, yName string, logX bool, lines ...line) template.HTML {
	xLow, xHigh, yHigh := math.Inf(1), math.Inf(-1), 0.0
	for _, l := range lines {
		for i := range l.X {
			xLow, xHigh, yHigh = min(xLow, l.X[i]), max(xHigh, l.X[i]), max(yHigh, l.Y[i])
		}
	}
	if math.IsInf(xLow, 1) {
		xLow, xHigh = 0, 1
	}
	if yHigh == 0 {
		yHigh = 1
	}
	xTicks, yTicks := ticks(xLow, xHigh), ticks(0, yHigh)
	if logX {
		xLow, xHigh = max(xLow, 0.1), max(xHigh, 1)
		xTicks = decades(xLow, xHigh)
	}
	yHigh = max(yHigh, yTicks[len(yTicks)-1])
	scaleX := func(x float64) float64 {
		if logX {
			return left + (plotWidth-left-right)*(math.Log(max(x, xLow))-math.Log(xLow))/max(math.Log(xHigh)-math.Log(xLow), 1e-9)
		}
		return left + (plotWidth-left-right)*(x-xLow)/max(xHigh-xLow, 1e-9)
	}
	scaleY := func(y float64) float64 { return plotHeight - bottom - (plotHeight-top-bottom)*y/yHigh }
	var b strings.Builder
	fmt.Fprintf(&b, `<figure><figcaption>%s`, template.HTMLEscapeString(title))
	for _, l := range lines {
		fmt.Fprintf(&b, `<span style="color:%s">— %s</span>`, l.Colour, template.HTMLEscapeString(l.Name))
	}
	fmt.Fprintf(&b, `</figcaption><svg viewBox="0 0 %d %d" role="img" aria-label="%s">`, plotWidth, plotHeight, template.HTMLEscapeString(title))
	for _, y := range yTicks {
		fmt.Fprintf(&b, `<path class="grid" d="M%d %.1fH%d"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`, left, scaleY(y), plotWidth-right, left-6, scaleY(y)+4, short(y))
	}
	for _, x := range xTicks {
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`, scaleX(x), plotHeight-bottom+16, short(x))
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">%s</text><text x="%d" y="12">%s</text>`,
		(left+plotWidth-right)/2, plotHeight-6, template.HTMLEscapeString(xName), 4, template.HTMLEscapeString(yName))
	for _, l := range lines {
		var d strings.Builder
		for k := range l.X {
			form := "H%.1fV%.1f" // all of these are steps
			if k == 0 {
				form = "M%.1f %.1f"
			}
			fmt.Fprintf(&d, form, scaleX(l.X[k]), scaleY(l.Y[k]))
		}
		fmt.Fprintf(&b, `<path class="line" stroke="%s" d="%s"/>`, l.Colour, d.String())
	}
	b.WriteString("</svg></figure>")
	return template.HTML(b.String()) //nolint:gosec // every text above is escaped, all else are numbers
}

// ticks are about five round numbers from low to high.
func ticks(low, high float64) []float64 {
	if !(high > low) {
		return []float64{low}
	}
	raw := (high - low) / 5
	unit := math.Pow(10, math.Floor(math.Log10(raw)))
	step := 10 * unit
	for _, m := range []float64{1, 2, 5} {
		if m*unit >= raw {
			step = m * unit
			break
		}
	}
	var out []float64
	for x := math.Ceil(low/step) * step; x <= high+step/2; x += step {
		out = append(out, x)
	}
	return out
}

func decades(low, high float64) []float64 {
	var out []float64
	for x := math.Pow(10, math.Floor(math.Log10(low))); x <= high*1.001; x *= 10 {
		if x >= low*0.999 {
			out = append(out, x)
		}
	}
	if len(out) == 0 {
		out = []float64{low}
	}
	return out
}

func short(x float64) string {
	for _, u := range []struct {
		size float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if math.Abs(x) >= u.size {
			return strconv.FormatFloat(x/u.size, 'g', 4, 64) + u.name
		}
	}
	return strconv.FormatFloat(math.Round(x*1e6)/1e6, 'g', 4, 64)
}

// cdf is the share of values at or below x, thinned to what can be seen.
func cdf(values []float64) (x, y []float64) {
	slices.Sort(values)
	n := len(values)
	for i := range 257 {
		if n == 0 {
			break
		}
		k := min(n-1, i*n/256)
		x, y = append(x, values[k]), append(y, 100*float64(k+1)/float64(n))
	}
	return x, y
}
