package result

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Run is one run of a benchmark or suite on one machine.
type Run struct {
	Bench   string `json:"bench"`
	Machine string `json:"machine"` // its processors: "2 × Intel(R) Xeon(R) Processor @ 2.50GHz"
	System  string `json:"system,omitempty"`
	Load    string `json:"load,omitempty"` // of the last minute, when the run ended
	Commit  string `json:"commit,omitempty"`
	Date    string `json:"date"` // 2026-11-18
	// Settings are the variables that made it another run than the usual one.
	Settings map[string]string `json:"settings,omitempty"`
	Seeds    []int             `json:"seeds,omitempty"`
	Checks   []Check           `json:"checks"`
	Notes    []string          `json:"notes,omitempty"` // one line each
}

// Check is one number.
type Check struct {
	Name   string  `json:"name"` // ends with its unit: "ready after exec [s]"
	Value  float64 `json:"value"`
	Spread string  `json:"spread,omitempty"`
	Bound  string  `json:"bound,omitempty"` // "<= 1", ">= 20", "== 365 ± 0.5"; none: only told
	OK     bool    `json:"ok"`
}

// Among says between which values of the run this one lies, in the check's own unit.
func (c *Check) Among(values []float64) {
	if len(values) > 1 {
		c.Spread = fmt.Sprintf("%s to %s, %d values", Number(slices.Min(values)), Number(slices.Max(values)), len(values))
	}
}

// File is where the run lies in a folder of results.
func (r *Run) File() string { return r.Bench + "." + slug(r.Machine) + ".json" }

func slug(text string) string {
	text = strings.NewReplacer("(R)", "", "(TM)", "", "×", "x").Replace(text)
	words := strings.FieldsFunc(strings.ToLower(text), func(c rune) bool { return c >= unicode.MaxASCII || !unicode.IsLetter(c) && !unicode.IsDigit(c) })
	if len(words) == 0 {
		return "unknown"
	}
	return strings.Join(words, "-")
}

// Save puts the run in the place of the one before it on the same machine.
func (r *Run) Save(dir string) error {
	var data bytes.Buffer
	enc := json.NewEncoder(&data)
	enc.SetEscapeHTML(false) // <= and >= as people write them
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, r.File()), data.Bytes(), 0o644)
}

// Load reads all runs of a folder, in the order of their files' names.
func Load(dir string) ([]Run, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	var runs []Run
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.DisallowUnknownFields()
		var r Run
		if err := dec.Decode(&r); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if want := r.File(); filepath.Base(file) != want {
			return nil, fmt.Errorf("%s is a run of %s: its name should be %s", file, r.Bench, want)
		}
		runs = append(runs, r)
	}
	return runs, nil
}

// Holds says whether a value keeps a bound, and whether the bound could be read.
func Holds(value float64, bound string) (held, known bool) {
	f := strings.Fields(bound)
	if len(f) < 2 {
		return true, bound == ""
	}
	limit, err := strconv.ParseFloat(f[1], 64)
	if err != nil {
		return false, false
	}
	switch {
	case f[0] == "<=":
		return value <= limit, true
	case f[0] == ">=":
		return value >= limit, true
	case f[0] == "==" && len(f) == 4 && f[2] == "±":
		within, err := strconv.ParseFloat(f[3], 64)
		return value >= limit-within && value <= limit+within, err == nil
	}
	return false, false
}
