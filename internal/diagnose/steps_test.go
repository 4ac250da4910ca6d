package diagnose

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

var stepRules = LoadSteps()

// lines are those of a sample, each with what it shall say: a number, or "-" where it says none of this rule.
func lines(t testing.TB, file string) (out [][2]string) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(string(raw), "\n")
	if !strings.HasPrefix(head, "# from=") {
		t.Fatalf("%s: the first line is %q", file, head)
	}
	for line := range strings.Lines(rest) {
		want, text, ok := strings.Cut(line, "\t")
		if !ok {
			t.Fatalf("%s: %q", file, line)
		}
		out = append(out, [2]string{want, strings.TrimSuffix(text, "\n")})
	}
	return out
}

// TestEveryStepRuleHasASample, and reads in it what is there.
func TestEveryStepRuleHasASample(t *testing.T) {
	var ids []string
	for _, r := range stepRules {
		ids = append(ids, r.ID)
	}
	eachSample(t, "testdata/steps", ids, func(file, id string) {
		m := Meter{Rules: stepRules}
		for i, line := range lines(t, file) {
			r := stepRules.Read(line[1])
			rule, step, total := r.Rule, r.Step, r.Total
			if found := rule != nil && rule.ID == id; found != (line[0] != "-") {
				t.Fatalf("%s:%d: %v", file, i+2, rule)
			}
			if line[0] == "-" {
				continue
			}
			if m.at.rule == nil { // the meter believes what it hears twice
				m.at, m.heard = source{rule, total}, map[source]int64{}
				if rule.Lines {
					m.at.total = 0
				}
			}
			if got, said, _ := m.Line(line[1]); !said || strconv.FormatInt(got, 10) != line[0] {
				t.Errorf("%s:%d: step %d (%d), not %s", file, i+2, got, step, line[0])
			}
		}
	})
}

func TestAMeterFollowsTheNumberThatRises(t *testing.T) {
	m := Meter{Rules: stepRules}
	for i, line := range []struct {
		text string
		step int64
		said bool
		last bool
	}{
		{"steps: 500", 0, false, false},
		{"Downloading shards: 1/2 [00:01<00:01,  1.00s/it]", 0, true, false},
		{"Downloading shards: 2/2 [00:02<00:00,  1.00s/it]", 2, true, true},
		{"step 1 loss 3", 0, true, false},
		{"step 2 loss 3", 0, true, false},
		{"step 3 loss 3", 0, true, false},
		{"no number here", 0, false, false},
		{"step 4 loss 3", 0, true, false},
		{"step 5 loss 3", 0, true, false},
		{"step 6 loss 3", 0, true, false},
		{"step 7 loss 3", 0, true, false},
		{"step 8 loss 3", 8, true, false},
		{"Validation: 50/100 [00:02<00:02,  1.00s/it]", 0, true, false},
		{"step 9 loss 3", 9, true, false},
		{"step 1 loss 3", 10, true, false}, // the next epoch
		{"step 5 loss 3", 14, true, false},
	} {
		step, said, last := m.Line(line.text)
		if step != line.step || said != line.said || last != line.last {
			t.Errorf("line %d, %q: %d %v %v", i, line.text, step, said, last)
		}
	}
}

// TestAProcessThatGoesOnSaysWhere: the second process of a script begins in a later epoch, whose number alone shows how far it is.
func TestAProcessThatGoesOnSaysWhere(t *testing.T) {
	for name, c := range map[string]struct {
		first, second []string
		step, from    int64 // of the second process: the newest, and how many there were before its first
		reached       int64 // by the first process
	}{
		"imagenet": {
			[]string{"Epoch: [0][  1/100]\tTime", "Epoch: [0][ 11/100]\tTime", "Epoch: [0][ 91/100]\tTime", "Epoch: [1][  1/100]\tTime", "Epoch: [8][ 11/100]\tTime"},
			[]string{"Epoch: [8][  1/100]\tTime", "Epoch: [8][ 11/100]\tTime"}, 811, 800, 811,
		},
		"from one": {
			[]string{"Epoch 1:  50%|█| 50/100 [00:05<00:05, 9it/s]", "Epoch 1: 100%|█| 100/100 [00:05<00:05, 9it/s]", "Epoch 4:  10%|█| 10/100 [00:05<00:05, 9it/s]"},
			[]string{"Epoch 3:   0%|█| 0/100 [00:00<?, ?it/s]", "Epoch 3:  10%|█| 10/100 [00:05<00:05, 9it/s]"}, 210, 200, 310,
		},
		"keras": {
			[]string{"Epoch 1/10", " 30/157 [====>....] - loss: 0.19", "157/157 [=====] - loss: 1.78", "Epoch 2/10", "  7/157 [====>....] - loss: 0.19"},
			[]string{"Epoch 2/10", "  1/157 [>....] - loss: 0.19", "  2/157 [>....] - loss: 0.19"}, 159, 157, 164,
		},
		"mmengine": {
			[]string{"Epoch(train) [1][ 10/196] lr: 3", "Epoch(train) [1][ 20/196] lr: 3"},
			[]string{"Epoch(train) [3][ 10/196] lr: 3", "Epoch(train) [3][ 20/196] lr: 3"}, 2*196 + 20, 2 * 196, 20,
		},
		"no epoch": {
			[]string{"[17] [ 10/100]", "[17] [ 20/100]", "[17] [ 95/100]", "[17] [ 10/100]"}, []string{"[17] [ 10/100]", "[17] [ 20/100]"}, 20, 0, 110,
		},
	} {
		t.Run(name, func(t *testing.T) {
			origins := Origins{}
			tell := func(lines []string) (*Meter, int64) {
				m, newest := &Meter{Rules: stepRules, Origins: origins}, int64(0)
				for _, line := range lines {
					if step, _, _ := m.Line(line); step > 0 {
						newest = step
					}
				}
				return m, newest
			}
			if _, reached := tell(c.first); reached != c.reached {
				t.Errorf("the first reached %d, not %d", reached, c.reached)
			}
			if m, step := tell(c.second); step != c.step || m.From() != c.from {
				t.Errorf("step %d from %d, not %d from %d", step, m.From(), c.step, c.from)
			}
		})
	}
}

func FuzzSteps(f *testing.F) {
	files, _ := filepath.Glob("testdata/steps/*.txt")
	for _, file := range files {
		raw, _ := os.ReadFile(file)
		f.Add(string(raw))
	}
	f.Fuzz(func(t *testing.T, text string) {
		m := Meter{Rules: stepRules}
		for line := range strings.Lines(text) {
			if step, said, last := m.Line(line); step < 0 || step > 0 && !said || last && !said {
				t.Fatalf("%q: %d %v %v", line, step, said, last)
			}
			if len(m.heard) > maxSources+1 {
				t.Fatal("it remembers too much")
			}
		}
	})
}

const stepPage = "../../docs/reference/progress.md"

// TestStepPage: the page is what the table says; -update writes it.
func TestStepPage(t *testing.T) {
	var b bytes.Buffer
	b.WriteString(`# How far a script is, from what it prints

Made from ` + "`internal/diagnose/steps.json`" + ` by ` + "`go generate ./internal/diagnose`" + `. A rank without the SDK is followed by its lines: at most four looks a second, at the
newest lines of each pipe, at the last 1 KiB of a line. The first number that rises counts; another (a download before, an evaluation in
between) only tells that the rank lives, and takes over once the first is heard no more. Where the number starts anew with each epoch, ours
goes on: by the number of the epoch where the rule reads one, so that a process that goes on in a later epoch is where it says, else by counting, and such a process is taken to begin anew. Rules are tried in this order. Steps feed ` + "`status.pace`" + `, what failures cost and the watch for hangs; rules that are *coarse* (they tell of epochs, or
only of lines) feed the watch alone: how fast and how far such a script is stays unknown. Since such a script announces no pause, its
silence may last six usual intervals and at least 30 s, ten minutes before its second line and after its last (12 of 12), and a process that works never hangs. A task without restarts left is not ended for it, only the event ` + "`NoProgress`" + ` is told.

| rule | lines of | tells |
|---|---|---|
`)
	for _, r := range stepRules {
		tells := "steps"
		if r.Coarse {
			tells = "life (coarse)"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", r.ID, r.From, tells)
	}
	if *update {
		if err := os.WriteFile(stepPage, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(stepPage)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, b.Bytes()) {
		t.Errorf("%s is not what the table says: go generate ./internal/diagnose", stepPage)
	}
}
