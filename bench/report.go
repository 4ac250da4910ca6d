package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/fermi-cluster/fermi/bench/result"
)

const (
	resultsFolder = "bench/results"
	resultsPage   = "bench/RESULTS.md"
)

// report is what a benchmark found.
type report struct {
	result.Run
	// SeedsOf is the seeds of each part, where there are parts.
	SeedsOf map[string][]int `json:"seedsOf,omitempty"`

	parts []*report
}

type check = result.Check

func newReport(name string) *report {
	return &report{Run: result.Run{
		Bench: name, Machine: machine(), System: runtime.Version(), Load: load(), Commit: commit(), Date: time.Now().UTC().Format(time.DateOnly), Settings: settings(), Seeds: []int{1},
	}}
}

// part is a report of its own within this one.
func (r *report) part(name string) *report {
	p := newReport(name)
	r.parts = append(r.parts, p)
	return p
}

// add returns the check, so that its spread can be set.
func (r *report) add(name string, value float64, bound string) *check {
	held, _ := result.Holds(value, bound)
	r.Checks = append(r.Checks, check{Name: name, Value: value, Bound: bound, OK: held})
	return &r.Checks[len(r.Checks)-1]
}

// atMost adds a check that value does not exceed bound.
func (r *report) atMost(name string, value, bound float64) *check {
	return r.add(name, value, fmt.Sprintf("<= %g", bound))
}

// atLeast adds a check that value reaches bound.
func (r *report) atLeast(name string, value, bound float64) *check {
	return r.add(name, value, fmt.Sprintf(">= %g", bound))
}

// exactly adds a check that a known figure is met when rounded.
func (r *report) exactly(name string, value, want float64) {
	r.add(name, value, fmt.Sprintf("== %g ± 0.5", want))
}

// tell adds a number that has no bound.
func (r *report) tell(name string, value float64) *check { return r.add(name, value, "") }

// print shows every check and returns the exit status.
func (r *report) print() int {
	code := 0
	if r.SeedsOf == nil {
		fmt.Printf("\n%s, load %s; seeds %v\n", r.Machine, r.Load, r.Seeds)
	} else {
		fmt.Printf("\n%s, load %s; seeds %v\n", r.Machine, r.Load, r.SeedsOf)
	}
	for _, c := range r.Checks {
		mark := "ok  "
		if !c.OK {
			mark, code = "FAIL", 1
		}
		fmt.Printf("%s %-44s %12.3f  %s\n", mark, c.Name, c.Value, c.Bound)
	}
	line, err := json.Marshal(r)
	if err != nil {
		fail(err.Error())
	}
	fmt.Println(string(line))
	return code
}

// keep writes the run, or its parts, and the page. A short version of a benchmark is not kept.
func (r *report) keep() error {
	if small() {
		fmt.Println("a short version: not kept in " + resultsFolder)
		return nil
	}
	all := r.parts
	if len(all) == 0 {
		all = []*report{r}
	}
	for _, one := range all {
		if err := one.Save(resultsFolder); err != nil {
			return err
		}
	}
	return writePage()
}

func writePage() error {
	runs, err := result.Load(resultsFolder)
	if err != nil {
		return err
	}
	page, pictures := result.PlannerPage(runs)
	files := map[string]string{resultsPage: result.Page(runs), "docs/reference/planner.md": page}
	for name, picture := range pictures {
		files["docs/pictures/"+name] = picture
	}
	for name, text := range files {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func machine() string {
	cpu := "unknown CPU"
	if out, err := exec.Command("sh", "-c", "grep -m1 'model name' /proc/cpuinfo | cut -d: -f2").Output(); err == nil {
		cpu = strings.TrimSpace(string(out))
	}
	return fmt.Sprintf("%d × %s", runtime.NumCPU(), cpu)
}

func load() string {
	text, _ := os.ReadFile("/proc/loadavg")
	return strings.Fields(string(text) + " ?")[0]
}

// commit is what is measured; a "+" says that files were changed since.
func commit() string {
	out, err := exec.Command("git", "rev-parse", "--short=7", "HEAD").Output()
	if err != nil {
		return ""
	}
	name := strings.TrimSpace(string(out))
	if exec.Command("git", "diff", "--quiet", "HEAD", "--", ".", ":!bench/results", ":!"+resultsPage, ":!docs/reference/planner.md", ":!docs/pictures").Run() != nil {
		name += "+"
	}
	return name
}

// settings are the variables of the benchmarks that are set. Where data lies is none: the traces are the same everywhere.
func settings() map[string]string {
	out := map[string]string{}
	for _, pair := range os.Environ() {
		name, value, _ := strings.Cut(pair, "=")
		if strings.HasPrefix(name, "FERMI_") && value != "" && name != "FERMI_TRACES" && name != "FERMI_DATA" && name != "FERMI_SERVER" && name != "FERMI_KUBE" && name != "FERMI_BIN" {
			out[name] = value
		}
	}
	return out
}
