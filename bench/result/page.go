package result

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

const head = `# Measurements

Made by ` + "`make results`" + ` from the files in [results](results): one file for each benchmark and machine, with its newest run. A benchmark
writes its own file and this page. 🔴 marks a bound that was missed. Numbers of one machine can be compared with each other, not with those
of another; all clients run on the measured machine too.

`

// Page is the whole of bench/RESULTS.md.
func Page(runs []Run) string {
	var b strings.Builder
	b.WriteString(head)
	summary(&b, runs)
	for _, g := range groups {
		section(&b, g, runs)
	}
	return b.String()
}

// summary counts, and names what is red.
func summary(b *strings.Builder, runs []Run) {
	checked := 0
	var red []string
	for _, r := range runs {
		for _, c := range r.Checks {
			if c.Bound == "" {
				continue
			}
			checked++
			if !c.OK {
				name, unit := split(c.Name)
				red = append(red, fmt.Sprintf("- %s, %s: %s (bound %s), on %s", r.Bench, name, with(Number(c.Value), unit), bound(c.Bound, unit), short(r.Machine)))
			}
		}
	}
	fmt.Fprintf(b, "%d numbers have a bound; %d of them miss it:\n\n%s\n\n", checked, len(red), strings.Join(red, "\n"))
}

func section(b *strings.Builder, g group, runs []Run) {
	fmt.Fprintf(b, "## %s\n\n", g.title)
	for _, s := range g.subjects {
		of := slices.DeleteFunc(slices.Clone(runs), func(r Run) bool { return r.Bench != s.name })
		if len(of) == 0 {
			continue
		}
		slices.SortStableFunc(of, func(a, b Run) int { return cmp.Compare(b.Date, a.Date) })
		fmt.Fprintf(b, "### %s\n\n%s `%s`.\n\n", s.name, s.about, s.run)
		for _, r := range of {
			table(b, r)
		}
	}
}

func table(b *strings.Builder, r Run) {
	where := []string{short(r.Machine)}
	if r.System != "" {
		where = append(where, r.System)
	}
	if r.Commit != "" {
		where = append(where, "`"+r.Commit+"`")
	}
	where = append(where, r.Date)
	if r.Load != "" {
		where = append(where, "load "+r.Load)
	}
	for _, name := range slices.Sorted(keys(r.Settings)) {
		where = append(where, "`"+name+"="+r.Settings[name]+"`")
	}
	fmt.Fprintf(b, "%s:\n\n| | measured | spread | bound | |\n|---|---|---|---|---|\n", strings.Join(where, ", "))
	for _, c := range r.Checks {
		name, unit := split(c.Name)
		mark := ""
		if c.Bound != "" {
			mark = "✓"
			if !c.OK {
				mark = "🔴"
			}
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", cell(name), with(Number(c.Value), unit), cell(c.Spread), bound(c.Bound, unit), mark)
	}
	b.WriteString("\n")
	for _, n := range r.Notes {
		fmt.Fprintf(b, "- %s\n", n)
	}
	if len(r.Notes) > 0 {
		b.WriteString("\n")
	}
}

func keys(m map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// short leaves out what every maker writes.
func short(machine string) string {
	return strings.Join(strings.Fields(strings.NewReplacer("(R)", "", "(TM)", "", "Processor", "", "CPU", "").Replace(machine)), " ")
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// split takes the unit off the name of a check: "first load [kB]".
func split(name string) (text, unit string) {
	if i := strings.LastIndex(name, " ["); i >= 0 && strings.HasSuffix(name, "]") {
		return name[:i], name[i+2 : len(name)-1]
	}
	return name, ""
}

func with(number, unit string) string { return strings.TrimSpace(number + " " + unit) }

func bound(text, unit string) string {
	if text == "" {
		return ""
	}
	sign, value, _ := strings.Cut(text, " ")
	sign = strings.NewReplacer("<=", "≤", ">=", "≥", "==", "=").Replace(sign)
	if v, err := strconv.ParseFloat(value, 64); err == nil {
		value = Number(v)
	}
	return sign + " " + with(value, unit)
}

// Number shows four digits, or all of a whole number, with commas: 0.168, 1.95, 130,000.
func Number(v float64) string {
	if v != math.Trunc(v) && math.Abs(v) < 1e4 && v != 0 {
		digits := 3 - int(math.Floor(math.Log10(math.Abs(v))))
		pow := math.Pow(10, float64(digits))
		v = math.Round(v*pow) / pow
	} else {
		v = math.Round(v)
	}
	text := strings.Replace(strconv.FormatFloat(v, 'f', -1, 64), "-", "−", 1)
	whole, rest, dot := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0 && whole[i-1] >= '0' && whole[i-1] <= '9'; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if dot {
		whole += "." + rest
	}
	return whole
}
