package diagnose

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestValues(t *testing.T) {
	for line, want := range map[string]map[string]float64{
		"step 12 loss=0.31 lr=1e-4":                                                                              {"loss": 0.31, "lr": 1e-4},
		"iter 10: loss 2.3012, time 20.11ms, mfu 41.20%":                                                         {"loss": 2.3012, "mfu": 41.2},
		`{'loss': 1.2345, 'grad_norm': nan, 'learning_rate': 5e-05, 'epoch': 0.32}`:                              {"loss": 1.2345, "grad_norm": math.NaN(), "learning_rate": 5e-5},
		`{"step": 7, "loss": -Infinity, "acc": 93}`:                                                              {"loss": math.Inf(-1), "acc": 93},
		" iteration      100/     500 | consumed samples:  800 | lm loss: 4.2E+00 | grad norm: 1.5 | skipped: 0": {"consumed samples": 800, "lm loss": 4.2, "grad norm": 1.5, "skipped": 0},
		"Epoch: [0][ 10/500]\tTime 0.1 (0.2)\tLoss 6.9e+00 (7.0e+00)\tAcc@1 0.10 (  0.2)":                        {"Loss": 6.9, "Acc@1": 0.1},
		"Epoch 3:  40%|████      | 40/100 [00:04<00:06, 9.80it/s, v_num=3, train_loss=0.52]":                     {"v_num": 3, "train_loss": 0.52},
		"Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.301":                                                           {"Loss": 2.301},
		"\x1b[1mstep\x1b[0m=3 loss=\x1b[32m0.5\x1b[0m":                                                           {"loss": 0.5},
		"step 3 done":                {},
		"connecting to host:80":      {"host": 80},
		"2026-11-18 12:30:01 step=4": {},
		"old loss=1\rstep 5 loss=2":  {"loss": 2},
	} {
		if diff := cmp.Diff(want, Values(line), cmpopts.EquateEmpty(), cmpopts.EquateNaNs()); diff != "" {
			t.Errorf("%q (-want +got)\n%s", line, diff)
		}
	}
}

func FuzzValues(f *testing.F) {
	f.Add("step 12 loss=0.31 lr=1e-4, acc: 3%")
	f.Add("loss=loss=loss: nan 'a': -inf")
	f.Fuzz(func(t *testing.T, line string) {
		got := Values(line)
		if len(got) > maxValues {
			t.Fatal(len(got))
		}
		for name := range got {
			if name == "" || len(name) > 80 {
				t.Fatalf("%q", name)
			}
		}
	})
}
