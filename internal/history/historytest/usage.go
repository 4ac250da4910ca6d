package historytest

import (
	order "cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/history"
)

// usageSpans adds a second project and a crowd, and checks spans against the same made here.
func usageSpans(t *testing.T, h history.History, a, b history.UsageRow) {
	ctx := context.Background()
	c := a
	c.Replica, c.TaskID, c.Project, c.Owner, c.Zone, c.Type, c.Devices, c.Spot = "r-2", "task-2", "q", "o2", "z2", "", 0, true
	c.Start, c.Stop = epoch.Add(30*time.Minute), epoch.Add(45*time.Minute)
	rows := []history.UsageRow{a, b, c}
	for i := range 12_001 { // more than two pages, many of one time
		d := c
		d.Replica, d.Project, d.Start = fmt.Sprintf("s-%05d", i), "crowd", epoch.Add(time.Duration(i/100)*time.Millisecond)
		rows = append(rows, d)
	}
	for part := range slices.Chunk(rows, 1000) { // a write has its time: no caller has as many at once
		ok(t, h.PutUsage(ctx, part...))
	}
	slices.SortFunc(rows, func(a, b history.UsageRow) int {
		return order.Or(a.Start.Compare(b.Start), order.Compare(a.Replica, b.Replica))
	})
	for _, span := range [][2]time.Duration{{-24 * time.Hour, 24 * time.Hour}, {-time.Hour, 0}, {10 * time.Minute, 40 * time.Minute}, {50 * time.Hour, 51 * time.Hour}, {-9 * time.Hour, -8 * time.Hour}} {
		for _, projects := range [][]string{nil, {}, {"q"}, {"p", "q", "none"}} {
			q := history.UsageSpan{From: epoch.Add(span[0]), To: epoch.Add(span[1]), Projects: projects}
			want := []history.UsageRow{}
			for _, r := range rows {
				if r.Start.Before(q.To) && (r.Stop.IsZero() || r.Stop.After(q.From)) && (projects == nil || slices.Contains(projects, r.Project)) {
					want = append(want, r)
				}
			}
			got := []history.UsageRow{}
			ok(t, h.EachUsage(ctx, q, func(r history.UsageRow) { got = append(got, r) }))
			if !slices.Equal(want, got) { // the long way says what differs
				same(t, want, got)
			}
		}
	}
}

// books: the first of a time stays; a span gets those in force in it.
func books(t *testing.T, h history.History) {
	ctx := context.Background()
	at := func(hours int) time.Time { return epoch.Add(time.Duration(hours) * time.Hour) }
	book := func(zone string, hours int, price float64) history.Book {
		return history.Book{Zone: zone, Since: at(hours), Spec: api.ZoneSpec{PUE: 1.5, Price: api.Price{DeviceHour: &price, Windows: []api.PriceWindow{{From: "22:00", To: "06:00", Factor: .5}}}}}
	}
	a, b, c := book("z", 0, 1), book("z", 10, 2), book("z", 20, 3)
	for _, x := range []history.Book{c, a, b, book("y", 5, 9), book("z", 10, 99)} {
		ok(t, h.PutBook(ctx, x))
	}
	for _, tt := range []struct {
		from, to int
		want     []history.Book
	}{
		{-5, -1, nil}, {-5, 0, nil}, {-5, 5, []history.Book{a}}, {0, 5, []history.Book{a}}, {5, 10, []history.Book{a}}, {5, 11, []history.Book{a, b}},
		{10, 12, []history.Book{b}}, {3, 30, []history.Book{a, b, c}}, {100, 200, []history.Book{c}},
	} {
		got, err := h.BooksOf(ctx, "z", at(tt.from), at(tt.to))
		ok(t, err)
		same(t, tt.want, got)
	}
	got, err := h.BooksOf(ctx, "nowhere", at(0), at(1))
	ok(t, err)
	same(t, []history.Book{}, got)
}

func runs(t *testing.T, h history.History) {
	ctx := context.Background()
	var want []history.Run
	for i := range 5 {
		r := history.Run{
			TaskID: fmt.Sprint("task-", i), Owner: "甲", Name: "p/训练", Framework: "plain", Work: "ab", Devices: 8 * i, Nodes: i, Ran: time.Hour,
			Last: time.Minute, Declared: 2 * time.Hour, Succeeded: i%2 == 0, Ended: epoch.Add(time.Duration(i%3) * time.Hour),
		}
		if i > 0 {
			r.Zones = []string{"a", "b"}[:1+i%2]
		}
		ok(t, h.PutRun(ctx, r))
		ok(t, h.PutRun(ctx, r))
		want = append(want, r)
	}
	slices.SortFunc(want, func(a, b history.Run) int {
		return order.Or(b.Ended.Compare(a.Ended), order.Compare(b.TaskID, a.TaskID))
	})
	for limit, n := range map[int]int{0: 1, 1: 1, 3: 3, 100: 5} {
		got, err := h.NewestRuns(ctx, limit)
		ok(t, err)
		same(t, want[:n], got)
	}
}
