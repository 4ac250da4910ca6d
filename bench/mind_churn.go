package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/fermi-cluster/fermi/bench/openb"
	"github.com/fermi-cluster/fermi/sched/pack"
)

// churnSeeds are none of those that anything was chosen by.
var churnSeeds = []int{3001, 3002, 3003, 3004, 3005, 3006, 3007, 3008}

// mindChurn lets the pods of the OpenB traces come and go at six loads, beside FGD and BestFit.
// FERMI_OPENB_TRACES names a part of the traces.
func mindChurn(ctx context.Context, r *report) error {
	names, loads, seeds := openb.Names, []float64{.85, .9, .95, 1, 1.1, 1.3}, churnSeeds
	if small() {
		names, loads, seeds = []string{"default", "cpu250", "gpuspec10"}, []float64{.9, 1.1}, seeds[:1]
	}
	if part := os.Getenv("FERMI_OPENB_TRACES"); part != "" {
		names = strings.Split(part, ",")
	}
	r.Seeds = seeds
	fmt.Println("percent of what was asked in devices that was refused; a mean lifetime is one, of six the last three are counted")
	fmt.Printf("%-12s %5s %18s %8s %8s\n", "trace", "load", "ours", "FGD", "BestFit")
	for _, name := range names {
		t, err := openb.Load(filepath.Join(traces(), "openb"), name)
		if err != nil {
			return fmt.Errorf("the trace is needed (FERMI_TRACES names its folder): %w", err)
		}
		for _, load := range loads {
			var ours, fgd, fit, less []float64
			for _, seed := range seeds {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				play := func(p openb.Policy) float64 { return t.Churn(int64(seed), load, 6, p).Share() }
				ours = append(ours, play(demand(t, pack.Default())))
				fgd = append(fgd, play(openb.NewFGD(t)))
				fit = append(fit, play(openb.BestFit{}))
				less = append(less, ours[len(ours)-1]-min(fgd[len(fgd)-1], fit[len(fit)-1]))
			}
			fmt.Printf("%-12s %5.2f %9.2f ± %.2f %8.2f %8.2f\n", name, load, mean(ours), deviation(ours), mean(fgd), mean(fit))
			// A tie is what lies within two standard errors of the difference.
			tie := 2 * deviation(less) / math.Sqrt(float64(len(less)))
			r.atMost(fmt.Sprintf("%s at %.2f: refused, less the better rival's [points]", name, load), mean(ours)-min(mean(fgd), mean(fit)), math.Ceil(tie*100)/100).Among(less)
		}
	}
	return nil
}
