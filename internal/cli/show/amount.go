package show

import (
	"fmt"
	"io"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func Stamp(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }

// Since says a distance in time the way people do.
func Since(d time.Duration) fault.Text {
	if d < 0 {
		return fault.T("in %s", "%s后", Short(-d))
	}
	if d < time.Second {
		return fault.T("just now", "刚刚")
	}
	return fault.T("%s ago", "%s前", Short(d))
}

// Short is a duration with one or two units: 350ms, 45s, 3m, 1h20m, 5d.
func Short(d time.Duration) string {
	if d > 0 && d < time.Second {
		return fmt.Sprintf("%dms", max(1, d.Milliseconds()))
	}
	d = d.Round(time.Second)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 10*time.Minute && d%time.Minute != 0:
		return fmt.Sprintf("%dm%ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 10*time.Hour && d%time.Hour >= time.Minute:
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours())/24)
}

// Size is a number of bytes for people.
func Size(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	f, units := float64(n)/unit, "KMGTPE"
	for f >= unit && len(units) > 1 {
		f, units = f/unit, units[1:]
	}
	return fmt.Sprintf("%.1f %ciB", f, units[0])
}

func Line(w io.Writer, s string) { _, _ = io.WriteString(w, Visible(s)+"\n") }

func Money(amount float64, currency string) string {
	if currency == api.DefaultCurrency {
		return fmt.Sprintf("¥%.2f", amount)
	}
	return fmt.Sprintf("%.2f %s", amount, currency)
}
