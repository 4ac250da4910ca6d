package openb

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// Expected is what the paper's authors published: the mean over their ten seeds of the allocated
// percent at 100 and at 130 percent arrived, per trace.
type Expected map[string][2]float64

// Published reads the authors' results of one policy ("05-BestFit", "06-FGD").
func Published(folder, policy string) (Expected, error) {
	sum, runs := Expected{}, map[string]int{}
	var bad error
	path := filepath.Join(folder, "expected_results", "analysis_allo_discrete.csv")
	err := rows(path, func(field func(string) string, _ func(string) int64) {
		if field("sc_policy") != policy {
			return
		}
		name := strings.TrimPrefix(field("workload"), "openb_pod_list_")
		s := sum[name]
		for i, column := range []string{"100", "130"} {
			v, err := strconv.ParseFloat(field(column), 64)
			if err != nil {
				bad = fmt.Errorf("%s: %s of %s: %w", path, column, name, err)
			}
			s[i] += v
		}
		sum[name] = s
		runs[name]++
	})
	if err := cmp.Or(err, bad); err != nil {
		return nil, err
	}
	for _, name := range Names {
		if runs[name] != 10 {
			return nil, fmt.Errorf("%s: %d runs of %s on %s, 10 expected", path, runs[name], policy, name)
		}
		sum[name] = [2]float64{sum[name][0] / 10, sum[name][1] / 10}
	}
	return sum, nil
}
