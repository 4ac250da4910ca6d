package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
)

// mountPairs is how often a task with datasets and one without start, in turns.
const mountPairs = 20

// hereAfter is what a launcher says of a version once a replica has it.
var hereAfter = regexp.MustCompile(`(large|small)@1 .* is here after (\d+\.\d) s`)

// mounts: what a start costs more with datasets that are on the node already, by the task's own record of when it was placed and when its first
// process ran, which finds them mounted; and what the launcher says of each.
func mounts(ctx context.Context, r *report, cl *client.Client) error {
	if os.Geteuid() != 0 {
		return errors.New("datasets are mounted as root")
	}
	var with, without, more sample
	said := 0.0
	for i := range mountPairs + 1 {
		plain, _, err := startOnce(ctx, cl, fmt.Sprintf("without-%d", i), nil)
		if err != nil {
			return err
		}
		mounted, logged, err := startOnce(ctx, cl, fmt.Sprintf("with-%d", i), []api.AssetRef{{Name: "large", Version: "1"}, {Name: "small", Version: "1"}})
		if err != nil {
			return err
		}
		found := hereAfter.FindAllStringSubmatch(logged, -1)
		if len(found) != 2 {
			return fmt.Errorf("the launcher does not say how long both took:\n%s", logged)
		}
		if i == 0 {
			fmt.Printf("the first time, not cached: %s\n", strings.TrimSpace(logged))
			continue
		}
		for _, f := range found {
			seconds, err := strconv.ParseFloat(f[2], 64)
			if err != nil {
				return err
			}
			said = max(said, seconds)
		}
		with, without, more = append(with, mounted), append(without, plain), append(more, mounted-plain)
	}
	fmt.Printf("placed → runs: without datasets %v\n               with both       %v\n               difference      %v\n", without, with, more)
	r.atMost(fmt.Sprintf("two cached datasets, from placed to mounted and running, beside no dataset, median of %d pairs [ms]", mountPairs), ms(more.quantile(.5)), 100).Among(more.milliseconds())
	r.atMost(fmt.Sprintf("a cached dataset is here, as its launcher says to a tenth, worst of %d [s]", 2*mountPairs), said, 0.1)
	return nil
}

// startOnce runs a task to its end, and says how long it took from its place to its first process, and what its log has.
func startOnce(ctx context.Context, cl *client.Client, name string, datasets []api.AssetRef) (time.Duration, string, error) {
	look := "true"
	if datasets != nil {
		look = "test -e /data/large/000/00000 && test -e /data/small/099/99999"
	}
	t := &api.TrainingTask{Meta: api.Meta{Name: name}, Spec: api.TrainingTaskSpec{Datasets: datasets, Roles: []api.Role{{Command: []string{"sh", "-c", look}}}}}
	t.Spec.Roles[0].Resources.CPU, t.Spec.Roles[0].Resources.Memory = 100, 64<<20
	made, err := client.Create(ctx, cl, t)
	if err != nil {
		return 0, "", err
	}
	for !made.Status.Phase.Finished() {
		select {
		case <-ctx.Done():
			return 0, "", ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
		if made, err = client.Get[*api.TrainingTask](ctx, cl, "", name); err != nil {
			return 0, "", err
		}
	}
	var lines strings.Builder
	if err := cl.Logs(ctx, "", name, client.LogOptions{}, func(l client.LogLine) error {
		fmt.Fprintln(&lines, l.Text)
		return nil
	}); err != nil {
		return 0, "", err
	}
	s := made.Status
	if s.Phase != api.PhaseCompleted || s.PlacedAt == nil || s.StartedAt == nil {
		return 0, "", fmt.Errorf("%s is %s: %s\n%s", name, s.Phase, s.Message.EN, lines.String())
	}
	return s.StartedAt.Sub(*s.PlacedAt), lines.String(), nil
}
