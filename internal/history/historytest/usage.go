package historytest

import (
	order "cmp"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/fermi-cluster/fermi/internal/history"
)

// usageSums adds a second project and checks sums against the same sums made here.
func usageSums(t *testing.T, h history.History, a, b history.UsageRow) {
	ctx := context.Background()
	c := a
	c.Replica, c.TaskID, c.Project, c.Owner, c.Zone, c.Type, c.Devices, c.PriceHour = "r-2", "task-2", "q", "o2", "z2", "", 0, 1
	c.Start, c.Stop = epoch.Add(30*time.Minute), epoch.Add(45*time.Minute)
	ok(t, h.PutUsage(ctx, c))
	rows := []history.UsageRow{a, b, c}
	key := map[history.UsageKey]func(history.UsageRow) string{
		history.UsageByProject: func(r history.UsageRow) string { return r.Project },
		history.UsageByUser:    func(r history.UsageRow) string { return r.Owner },
		history.UsageByTask:    func(r history.UsageRow) string { return r.TaskID },
		history.UsageByZone:    func(r history.UsageRow) string { return r.Zone },
		history.UsageByType:    func(r history.UsageRow) string { return r.Type },
	}
	for _, by := range history.UsageKeys {
		for _, span := range [][2]time.Duration{{-24 * time.Hour, 24 * time.Hour}, {-time.Hour, 0}, {10 * time.Minute, 40 * time.Minute}, {50 * time.Hour, 51 * time.Hour}, {-9 * time.Hour, -8 * time.Hour}} {
			for _, projects := range [][]string{nil, {}, {"q"}, {"p", "q", "none"}} {
				q := history.UsageQuery{From: epoch.Add(span[0]), To: epoch.Add(span[1]), By: by, Projects: projects}
				got, err := h.SumUsage(ctx, q)
				ok(t, err)
				if diff := cmp.Diff(sums(rows, q, key[by]), got, cmpopts.EquateEmpty(), cmpopts.EquateApprox(1e-9, 0)); diff != "" {
					t.Fatalf("%+v (-want +got)\n%s", q, diff)
				}
			}
		}
	}
	_, err := h.SumUsage(ctx, history.UsageQuery{By: "'; DROP TABLE usage"})
	if err == nil {
		t.Error("an unknown key was taken")
	}
}

// sums is the slow obvious version.
func sums(rows []history.UsageRow, q history.UsageQuery, key func(history.UsageRow) string) []history.UsageSum {
	by := map[string]*history.UsageSum{}
	for _, r := range rows {
		from, to := r.Start, r.Stop
		if to.IsZero() || to.After(q.To) {
			to = q.To
		}
		if from.Before(q.From) {
			from = q.From
		}
		if !to.After(from) || q.Projects != nil && !slices.Contains(q.Projects, r.Project) {
			continue
		}
		s := by[key(r)]
		if s == nil {
			s = &history.UsageSum{Key: key(r)}
			by[key(r)] = s
		}
		d := to.Sub(from)
		s.Replicas++
		if r.Stop.IsZero() {
			s.Running++
		}
		s.Devices += d * time.Duration(r.Devices)
		s.Cores += d * time.Duration(r.CPU) / 1000
		s.MemoryGB += float64(r.Memory>>30) * d.Hours()
		s.Cost += r.PriceHour * d.Hours()
	}
	out := []history.UsageSum{}
	for _, s := range by {
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b history.UsageSum) int {
		return order.Or(order.Compare(b.Cost, a.Cost), order.Compare(a.Key, b.Key))
	})
	return out
}
