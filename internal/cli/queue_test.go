package cli

import (
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/cli/clitest"
)

// withShares is a parent that is nearly full and a child that waits.
func withShares(t *testing.T) *clitest.Fake {
	f := clitest.New(t)
	f.Add(
		&api.Queue{Meta: api.Meta{Name: "nlp"}, Spec: api.QueueSpec{Parent: "org", Weight: 3, Guarantee: map[string]int{"A100": 2}}},
		&api.Queue{Meta: api.Meta{Name: "org"}, Spec: api.QueueSpec{Limit: map[string]int{"devices": 8, "cpu": 100}}},
		&api.Queue{Meta: api.Meta{Name: "idle"}, Spec: api.QueueSpec{Paused: true}},
	)
	submitted, start := clitest.Now.Add(-3*time.Minute), clitest.Now.Add(5*time.Minute)
	f.Shares = []api.QueueShare{
		{
			Queue: "nlp", Parent: "org", Weight: 3, FairShare: .75, Share: .4, Dominant: "A100", Waiting: 12, Running: 1,
			Guarantee: map[string]float64{"A100": 2}, Used: map[string]float64{"A100": 3.5, "devices": 3.5, "cpu": 4}, Borrowed: map[string]float64{"A100": 1.5},
			Waits: []api.ShareTask{
				{Project: "lab", Name: "gpt", Queue: "nlp", Devices: 8, Since: &submitted, Reason: "DevicesBusy", Message: api.T("No room now.", "暂无空位。"), EstimatedStart: &start},
				{Queue: "nlp", Devices: .5, Since: &submitted, Reason: "QueueLimit"},
			},
			Runs: []api.ShareTask{{Project: "lab", Name: "bert", Queue: "nlp", Devices: 3.5, Since: &submitted}},
		},
		{Queue: "org", Children: []string{"nlp"}, Weight: 1, FairShare: 1, Share: .8, Dominant: "devices", Waiting: 12, Running: 1,
			Limit: map[string]float64{"devices": 8, "cpu": 100}, Used: map[string]float64{"devices": 8, "cpu": 10}},
	}
	return f
}

func TestQueueList(t *testing.T) {
	f := withShares(t)
	check(t, fermi(f, t, "", "queue", "list"), result{out: "" +
		"QUEUE  STATE   WEIGHT    FAIR  SHARE  RUNNING  WAITING  USED OF LIMIT\n" +
		"org    open         1  100.0%  80.0%        1       12  8/8 devices\n" +
		"  nlp  open         3   75.0%  40.0%        1       12  3.5 A100\n" +
		"idle   paused       1    0.0%   0.0%        0        0  -\n"})
	check(t, fermi(f, t, "", "queue", "list", "--lang", "zh"), result{out: "" +
		"队列   状态    权重    应得   占用  运行  等待  已用/上限\n" +
		"org    开放       1  100.0%  80.0%     1    12  8/8 devices\n" +
		"  nlp  开放       3   75.0%  40.0%     1    12  3.5 A100\n" +
		"idle   已暂停     1    0.0%   0.0%     0     0  -\n"})
}

func TestQueueDescribe(t *testing.T) {
	f := withShares(t)
	check(t, fermi(f, t, "", "queue", "describe", "nlp"), result{out: "" +
		"Queue:          nlp\nParent:         org\nState:          open\nWeight:         3\nFair share now: 75.0%\nShare now:      40.0% (A100)\n" +
		"\nRESOURCE  USED  GUARANTEE  LIMIT  BORROWED\n" +
		"cpu          4          -      -         -\ndevices    3.5          -      -         -\nA100       3.5          2      -       1.5\n" +
		"\nWaiting: 12\n" +
		"TASK         QUEUE  DEVICES  SINCE   REASON       EXPECTED\n" +
		"lab/gpt      nlp          8  3m ago  DevicesBusy  in 5m     No room now.\n" +
		"(of others)  nlp        0.5  3m ago  QueueLimit   -\n" +
		"\nRunning: 1\nTASK      QUEUE  DEVICES  SINCE\nlab/bert  nlp        3.5  3m ago\n"})
	got := fermi(f, t, "", "queue", "describe", "org", "--lang", "zh").out
	for _, want := range []string{"下级:", "当前应得:", "等待：12", "运行：1", "上限"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	check(t, fermi(f, t, "", "queue", "describe", "none"), result{code: 5, err: "error: There is no queue none.\n"})
}
