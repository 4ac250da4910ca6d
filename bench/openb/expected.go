package openb

import (
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/fermi-cluster/fermi/internal/sim"
)

// Expected is what the paper's authors published: the mean over their ten seeds of the allocated
// percent at 100 and at 130 percent arrived, per trace.
type Expected map[string][2]float64

// Published reads the authors' results of one policy ("05-BestFit", "06-FGD").
func Published(folder, policy string) (Expected, error) {
	sum, runs := Expected{}, map[string]int{}
	const file = "analysis_allo_discrete.csv"
	_, err := read(filepath.Join(folder, "expected_results"), file, func(r io.Reader) (struct{}, error) {
		return struct{}{}, sim.Table(r, []string{"sc_policy", "workload", "100", "130"}, func(row sim.Row) error {
			if row.Text("sc_policy") != policy {
				return nil
			}
			name := strings.TrimPrefix(row.Text("workload"), "openb_pod_list_")
			s := sum[name]
			for i, column := range []string{"100", "130"} {
				v, err := strconv.ParseFloat(row.Text(column), 64)
				if err != nil {
					return fmt.Errorf("%s of %s: %w", column, name, err)
				}
				s[i] += v
			}
			sum[name] = s
			runs[name]++
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	for _, name := range Names {
		if runs[name] != 10 {
			return nil, fmt.Errorf("%s: %d runs of %s on %s, 10 expected", file, runs[name], policy, name)
		}
		sum[name] = [2]float64{sum[name][0] / 10, sum[name][1] / 10}
	}
	return sum, nil
}
