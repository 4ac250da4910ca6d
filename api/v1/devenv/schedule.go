package devenv

import (
	"errors"
	"strings"
	"time"
	_ "time/tzdata" // machines without a table of time zones

	"github.com/netresearch/go-cron"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// times reads five fields as cron has them; nil: none.
func times(text string) (cron.Schedule, error) {
	if text == "" {
		return nil, nil
	}
	if len(text) > 128 || len(strings.Fields(text)) != 5 || strings.ContainsAny(text, "@=") { // no words and zones of the library's own
		return nil, errors.New("not five fields")
	}
	return cron.ParseStandard(text)
}

func zone(name string) (*time.Location, error) {
	if name == "" {
		return time.UTC, nil
	}
	if name == "Local" || len(name) > 64 {
		return nil, errors.New("no zone")
	}
	return time.LoadLocation(name)
}

func (s *Schedule) check() (out []fault.Field) {
	add := func(path, en, zh string, args ...any) {
		out = append(out, fault.Field{Path: path, Message: fault.T(en, zh, args...)})
	}
	if s.Start == "" && s.Stop == "" {
		add("spec.schedule", "Say when it starts, or when it stops, or both.", "请指定启动时间、停止时间，或两者都指定。")
	}
	for path, text := range map[string]string{"spec.schedule.start": s.Start, "spec.schedule.stop": s.Stop} {
		if t, err := times(text); err != nil || t != nil && t.Next(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
			add(path, "%q is no time such as 0 9 * * 1-5: minute, hour, day of the month, month and day of the week.", "%q 不是合法的时间，应形如 0 9 * * 1-5：分、时、日、月、星期。", clip(text))
		}
	}
	if _, err := zone(s.TimeZone); err != nil {
		add("spec.schedule.timeZone", "%q is no time zone such as Asia/Shanghai.", "%q 不是合法的时区，应形如 Asia/Shanghai。", clip(s.TimeZone))
	}
	return out
}

// longest is how far back a schedule is looked at that was not heeded: a server that was away for longer does what is due by its last times only.
const longest = 8 * 24 * time.Hour

// Due is what a schedule says at a moment: whether the newest of its times after since is one to start or to stop, and when; none is neither. next
// is when it speaks again; zero: never. A schedule that is none says nothing.
func (s *Schedule) Due(since, now time.Time) (start, stop bool, at, next time.Time) {
	where, err := zone(s.TimeZone)
	if err != nil {
		return false, false, at, next
	}
	from := since
	if oldest := now.Add(-longest); from.Before(oldest) {
		from = oldest
	}
	for _, x := range []struct {
		text string
		word *bool
	}{{s.Stop, &stop}, {s.Start, &start}} { // where both speak at one moment, it starts
		t, err := times(x.text)
		if err != nil || t == nil {
			continue
		}
		last, then := time.Time{}, t.Next(from.In(where))
		for ; !then.IsZero() && !then.After(now); then = t.Next(then) {
			last = then
		}
		if !last.IsZero() && !last.Before(at) {
			start, stop, at = false, false, last
			*x.word = true
		}
		if !then.IsZero() && (next.IsZero() || then.Before(next)) {
			next = then
		}
	}
	return start, stop, at.UTC(), next.UTC()
}
