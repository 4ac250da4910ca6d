package cli

import (
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/cli/clitest"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func TestZoneOutage(t *testing.T) {
	f := clitest.New(t)
	f.Lost = api.Outage{Zone: "beijing-1", Items: []api.OutageTask{}}
	check(t, fermi(f, t, "", "zone", "outage", "beijing-1", "--preview"), result{out: "Without beijing-1 0 tasks would start elsewhere and 0 would wait.\n"})
	f.Lost = api.Outage{Zone: "beijing-1", Move: 1, Wait: 1, More: 3, Items: []api.OutageTask{
		{Project: "lab", Name: "gpt", Replicas: 4, Lost: 2, To: map[string]int{"shanghai-1": 1, "beijing-2": 3}},
		{Project: "lab", Name: "big", Replicas: 9, Lost: 9, Reason: "DevicesBusy", Message: fault.T("All busy.", "全忙。")},
	}}
	check(t, fermi(f, t, "", "zone", "outage", "beijing-1", "--preview"), result{out: `Without beijing-1 1 task would start elsewhere and 1 would wait.
TASK     REPLICAS  LOST  GOES TO, OR WHY IT WAITS
lab/gpt         4     2  beijing-2 × 3, shanghai-1 × 1
lab/big         9     9  All busy. [DevicesBusy]
and 3 more that were not looked at
`})
}
