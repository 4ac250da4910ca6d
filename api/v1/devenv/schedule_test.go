package devenv

import (
	"testing"
	"time"
)

func TestDue(t *testing.T) {
	shanghai, err := time.LoadLocation("Asia/Shanghai")
	if err != nil {
		t.Fatal(err)
	}
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	work := Schedule{Start: "0 9 * * 1-5", Stop: "30 19 * * *", TimeZone: "Asia/Shanghai"}
	day := func(month time.Month, d, h, m int, in *time.Location) time.Time {
		return time.Date(2026, month, d, h, m, 0, 0, in)
	}
	for name, c := range map[string]struct {
		s           Schedule
		since, now  time.Time
		start, stop bool
		at, next    time.Time
	}{
		"nothing yet":     {work, day(3, 2, 9, 30, shanghai), day(3, 2, 10, 0, shanghai), false, false, time.Time{}, day(3, 2, 19, 30, shanghai)},
		"at the moment":   {work, day(3, 2, 8, 0, shanghai), day(3, 2, 9, 0, shanghai), true, false, day(3, 2, 9, 0, shanghai), day(3, 2, 19, 30, shanghai)},
		"heeded":          {work, day(3, 2, 9, 0, shanghai), day(3, 2, 9, 0, shanghai), false, false, time.Time{}, day(3, 2, 19, 30, shanghai)},
		"the newest":      {work, day(3, 2, 8, 0, shanghai), day(3, 2, 20, 0, shanghai), false, true, day(3, 2, 19, 30, shanghai), day(3, 3, 9, 0, shanghai)},
		"over a weekend":  {work, day(3, 6, 20, 0, shanghai), day(3, 9, 8, 59, shanghai), false, true, day(3, 8, 19, 30, shanghai), day(3, 9, 9, 0, shanghai)},
		"away for months": {work, day(1, 1, 0, 0, shanghai), day(6, 1, 10, 0, shanghai), true, false, day(6, 1, 9, 0, shanghai), day(6, 1, 19, 30, shanghai)},
		"only stops":      {Schedule{Stop: "0 0 1 * *"}, day(3, 2, 0, 0, time.UTC), day(3, 30, 0, 0, time.UTC), false, false, time.Time{}, day(4, 1, 0, 0, time.UTC)},
		"a missing hour":  {Schedule{Start: "30 2 * * *", TimeZone: "Europe/Berlin"}, day(3, 28, 12, 0, berlin), day(3, 29, 12, 0, berlin), true, false, day(3, 29, 3, 30, berlin), day(3, 30, 2, 30, berlin)},
		"no schedule":     {Schedule{Start: "x"}, day(3, 2, 0, 0, time.UTC), day(3, 30, 0, 0, time.UTC), false, false, time.Time{}, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			start, stop, at, next := c.s.Due(c.since, c.now)
			if start != c.start || stop != c.stop || !at.Equal(c.at) || !next.Equal(c.next) {
				t.Errorf("start %v, stop %v, at %v, next %v", start, stop, at, next)
			}
		})
	}
}

func TestScheduleRules(t *testing.T) {
	for path, s := range map[string]Schedule{
		"spec.schedule":          {},
		"spec.schedule.start":    {Start: "@every 1s"},
		"spec.schedule.stop":     {Stop: "0 25 * * *"},
		"spec.schedule.timeZone": {Stop: "0 5 * * *", TimeZone: "../etc/passwd"},
	} {
		if got := s.check(); len(got) != 1 || got[0].Path != path {
			t.Errorf("%+v: %+v", s, got)
		}
	}
	for _, text := range []string{"TZ=UTC 0 9 * * *", "0 9 * *", "0 0 31 2 *", "0 9 * * 1-5 2026"} {
		if got := (&Schedule{Start: text}).check(); len(got) != 1 {
			t.Errorf("%q: %+v", text, got)
		}
	}
	if got := (&Schedule{Start: "0 9 * * 1-5", Stop: "30 19 * * *", TimeZone: "Asia/Shanghai"}).check(); len(got) > 0 {
		t.Error(got)
	}
}
