package result

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strconv"
	"strings"
)

// planner is the page of docs on how the planner does on data it was not tuned on: what is tried, and how
// to try it.
var planner = []struct{ bench, title, text string }{
	{"mind-overload", "More work than the cluster can do", "For a week there is more work than the cluster can do, in bursts or all day long, then half of what it can. A good planner lets " +
		"short work pass and still comes to the large gangs. Beside it: least attained service, which forgets large gangs for weeks. Try it: `fermi sim --scenario overload`."},
	{"mind-backlog", "A long backlog", "A full cluster, and up to 100,000 tasks of many shapes that all could fit as soon as something ends. A turn of the planner must stay short, and who comes and fits must not wait " +
		"for the others to be refused once more."},
	{"mind-churn", "Small tasks that come and go", "Tasks of the published OpenB traces come at random and end. What is packed badly is paid for by the tasks of whole nodes, which are refused. Beside it: FGD and best fit. " +
		"The score knows how many stand on a node, not when they end: told the exact lifetimes it refused less on one trace (0.59 for 0.82 % at 0.90) and more on another (1.10 for 1.01 %). " +
		"Try it: `fermi sim --scenario churn`."},
	{"mind-topology", "Gangs and the tree of racks and leaves", "Gangs of 1 to 64 nodes come and go in a nearly full cluster. A gang whose nodes hang on one leaf switch is faster; one that waits for such a place is later. " +
		"Try it: `fermi sim --scenario topology`."},
	{"mind-zones", "Work that can wait, and prices", "Gangs that all want the same cheap hours, against the best plan there is; gangs that start at once and take the zone in which price and carbon are least. " +
		"Try it: `fermi sim --scenario deferral`."},
	{"mind-deadlines", "Deadlines", "Six gangs for one node, each with a deadline, against the best of all orders. Try it: `fermi sim --scenario deadlines`."},
}

// PlannerPage is docs/reference/planner.md, and its pictures by name.
func PlannerPage(runs []Run) (page string, pictures map[string]string) {
	var b strings.Builder
	b.WriteString("# The planner on data it was not tuned on\n\nMade by `make results` from the newest runs of `make bench-mind`; all numbers, seeds and machines are in\n" +
		"[bench/RESULTS.md](../../bench/RESULTS.md). A bar is what was measured over what it must be: what ends left of the line holds, what is beyond it was missed.\n" +
		"A check without a bar must be 0 or less.\n")
	pictures = map[string]string{}
	for _, s := range planner {
		at := slices.IndexFunc(runs, func(r Run) bool { return r.Bench == s.bench })
		if at < 0 {
			fmt.Fprintf(&b, "\n## %s\n\n%s Not measured yet.\n", s.title, s.text)
			continue
		}
		name := s.bench + ".svg"
		pictures[name] = bars(s.title, runs[at].Checks)
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n![%s: measured over what it must be](../pictures/%s)\n", s.title, s.text, s.title, name)
		for i, note := range runs[at].Notes {
			if i == 0 {
				b.WriteString("\n")
			}
			fmt.Fprintf(&b, "- %s\n", note)
		}
	}
	return b.String(), pictures
}

const (
	barHeight, barWidth, barLeft = 22, 300, 530
	// furthest is how many times its bound a bar shows at most.
	furthest = 4.0
)

// over is a value over its bound, so that 1 and less holds; ok is false where there is no such ratio.
func over(c Check) (ratio float64, ok bool) {
	sign, text, _ := strings.Cut(c.Bound, " ")
	limit, err := strconv.ParseFloat(text, 64)
	if err != nil || limit <= 0 {
		return 0, false
	}
	if sign == ">=" {
		return limit / max(c.Value, 1e-9), true
	}
	return c.Value / limit, true
}

// bars draws one bar for each check that has a bound.
func bars(title string, checks []Check) string {
	checks = slices.DeleteFunc(slices.Clone(checks), func(c Check) bool { return c.Bound == "" })
	height := len(checks)*barHeight + 40
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12" role="img"><title>%s</title>`+"\n",
		barLeft+barWidth+150, height, html.EscapeString(title))
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="#fff"/>`+"\n")
	line := barLeft + barWidth/furthest
	for i, c := range checks {
		y := 10 + i*barHeight
		name, unit := split(c.Name)
		colour := "#2f9e44"
		if !c.OK {
			colour = "#e03131"
		}
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text>`, barLeft-8, y+14, html.EscapeString(name))
		end := float64(barLeft)
		if ratio, ok := over(c); ok {
			width := barWidth / furthest * min(max(ratio, 0), furthest)
			end += width
			fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%s" height="%d" fill="%s"/>`, barLeft, y+3, tenth(width), barHeight-6, colour)
		}
		fmt.Fprintf(&b, `<text x="%s" y="%d" fill="%s">%s (%s)</text>`+"\n", tenth(max(end, line)+6), y+14, colour,
			html.EscapeString(with(Number(c.Value), unit)), html.EscapeString(bound(c.Bound, unit)))
	}
	fmt.Fprintf(&b, `<path d="M%s 4V%d" stroke="#495057" stroke-dasharray="4 3"/><text x="%s" y="%d" text-anchor="middle" fill="#495057">what it must be</text>`+"\n</svg>\n",
		tenth(line), height-22, tenth(line), height-8)
	return b.String()
}

func tenth(x float64) string { return strconv.FormatFloat(math.Round(x*10)/10, 'f', -1, 64) }
