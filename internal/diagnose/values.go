package diagnose

import (
	"math"
	"strconv"
	"strings"

	"github.com/fermi-cluster/fermi/internal/pattern"
)

// maxValues bounds the numbers that are read from one line.
const maxValues = 16

var (
	// A name, a sign and a number: loss=0.31, "lr": 1e-4, 'grad_norm': nan, acc: 93.1%.
	named = pattern.New(`(?i)(?:^|[^\w./-])["']?((?:(?:lm|grad|train|val|valid|validation|eval|test|learning|loss|consumed) )?[A-Za-z][\w./-]{0,63})["']?\s*[:=]\s*["']?(-?(?:\d+(?:\.\d*)?|\.\d+)(?:e[-+]?\d+)?|[-+]?(?:nan|inf|infinity))(%?)(?:["',;:|)\]}\s]|$)`)
	// Without a sign only words that name what is trained for: loss 2.31, Acc@1 93.1, lm loss 4.2E+00, mfu 41.2%.
	plain = pattern.New(`(?i)(?:^|[^\w./-])((?:(?:train|val|valid|validation|eval|test|lm)[ _])?(?:loss|accuracy|acc(?:@\d)?|ppl|perplexity|lr|grad[ _]norm|mfu))\s+(-?(?:\d+(?:\.\d*)?|\.\d+)(?:e[-+]?\d+)?|[-+]?(?:nan|inf|infinity))(%?)(?:["',;:|)\]}\s]|$)`)
)

// counters say where a line is, not what was reached there.
var counters = map[string]bool{
	"step": true, "steps": true, "global_step": true, "iter": true, "iteration": true, "iterations": true, "epoch": true, "epochs": true, "batch": true, "update": true,
	"rank": true, "local_rank": true, "world_size": true, "pid": true, "line": true, "time": true, "eta": true, "total": true, "seed": true, "port": true, "it": true, "date": true,
}

// Values are the numbers that a line of progress says beside its step, by their names. What is no finite number is one too.
func Values(line string) map[string]float64 {
	line = line[max(0, len(line)-MaxStepLine):]
	if i := strings.LastIndexByte(line, '\r'); i >= 0 {
		line = line[i+1:]
	}
	if strings.IndexByte(line, '\x1b') >= 0 {
		line = escapes.ReplaceAllString(line, "")
	}
	var out map[string]float64
	for _, re := range []*pattern.Pattern{named, plain} {
		for rest := line; len(out) < maxValues; {
			m := re.FindStringSubmatchIndex(rest)
			if m == nil {
				break
			}
			name := strings.Trim(rest[m[2]:m[3]], "./-")
			if v, ok := valueOf(rest[m[4]:m[5]]); ok && name != "" && !counters[strings.ToLower(name[strings.LastIndexByte(name, ' ')+1:])] {
				if out == nil {
					out = map[string]float64{}
				}
				if _, first := out[name]; !first {
					out[name] = v
				}
			}
			rest = rest[m[5]:] // what ends one may begin the next
		}
	}
	return out
}

func valueOf(text string) (float64, bool) {
	switch strings.ToLower(strings.TrimLeft(text, "+")) {
	case "nan", "-nan":
		return math.NaN(), true
	case "inf", "infinity":
		return math.Inf(1), true
	case "-inf", "-infinity":
		return math.Inf(-1), true
	}
	v, err := strconv.ParseFloat(text, 64)
	return v, err == nil
}
