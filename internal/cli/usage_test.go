package cli

import (
	"encoding/csv"
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli/clitest"
)

func TestUsage(t *testing.T) {
	f := clitest.New(t)
	check(t, fermi(f, t, "", "usage"), result{err: "Nothing ran in that time.\n"})
	grams := 1234.5
	one := client.UsageSum{Key: "task-1", Name: "=cmd", Replicas: 2, DeviceHours: 16, CoreHours: 128, Costs: []api.PriceTotal{{Currency: "CNY", Total: 161.6}}, KWh: 2.5, Grams: &grams, EnergyBasis: "estimated"}
	two := client.UsageSum{Key: "task-2", Replicas: 1, Running: 1, Costs: []api.PriceTotal{{Currency: "USD", Total: 3}}, KWh: 1, EnergyBasis: "estimated"}
	f.Usage = client.Usage{
		From: clitest.Now.Add(-time.Hour), To: clitest.Now, By: "task", Items: []client.UsageSum{one, two}, Crossing: "not measured",
		Total: client.UsageSum{Replicas: 3, Running: 1, DeviceHours: 16, CoreHours: 128, Costs: append(append([]api.PriceTotal{}, one.Costs...), two.Costs...), KWh: 3.5, EnergyBasis: "estimated"},
	}
	check(t, fermi(f, t, "", "usage", "--by", "task", "--since", "1h", "--until", "0s"), result{out: `NAME    REPLICAS  RUNNING  DEVICE-HOURS  CORE-HOURS                COST     kWh        CO₂
=cmd           2        0        16.000     128.000             ¥161.60  ≈2.500  ≈1.234 kg
task-2         1        1         0.000       0.000            3.00 USD  ≈1.000          -
total          3        1        16.000     128.000  ¥161.60 + 3.00 USD  ≈3.500          -
≈ estimated from tables of device power; traffic between zones: not measured
`})
	if calls := f.Called(); !strings.Contains(calls[len(calls)-1], "/usage") {
		t.Error(calls)
	}
	got := fermi(f, t, "", "usage", "-o", "csv")
	rows, err := csv.NewReader(strings.NewReader(got.out)).ReadAll()
	if err != nil || got.code != 0 || len(rows) != 3 {
		t.Fatalf("%+v %v", got, err)
	}
	want := []string{"task-1", "'=cmd", "2026-05-04T11:00:00Z", "2026-05-04T12:00:00Z", "2", "0", "16.000000", "128.000000", "0.000000", "2.500000", "1234.500000", "estimated", "161.600000", "", "not measured"}
	if strings.Join(rows[1], "|") != strings.Join(want, "|") || rows[0][12] != "cost_CNY" || rows[0][13] != "cost_USD" || rows[2][10] != "" || rows[2][13] != "3.000000" {
		t.Errorf("%q", rows)
	}
	for _, format := range []string{"json", "yaml"} {
		if got := fermi(f, t, "", "usage", "-o", format); got.code != 0 || !strings.Contains(got.out, "crossingTraffic") {
			t.Errorf("%s: %+v", format, got)
		}
	}
	if got := fermi(f, t, "", "get", "tasks", "-o", "csv"); got.code != 2 {
		t.Errorf("csv elsewhere: %+v", got)
	}
}
