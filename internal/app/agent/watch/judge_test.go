package watch

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/card"
)

var (
	boot = time.Date(2026, 11, 19, 8, 0, 0, 0, time.UTC)
	two  = []api.Device{{UUID: "GPU-a", Bus: "0000:3b:00.0"}, {UUID: "GPU-b", Bus: "0000:5e:00.0"}}
)

func reading(uncorrected, recoveries int64) *card.DeviceReading {
	r := &card.DeviceReading{}
	r.ECC.VolatileUncorrected, r.NVLink.Recovery = &uncorrected, &recoveries
	return r
}

func xid(after time.Duration, code int) card.KernelLine {
	return card.KernelLine{At: boot.Add(after), Bus: "0000:5e:00", Xid: code}
}

func well() map[int]*card.DeviceReading {
	return map[int]*card.DeviceReading{0: reading(0, 5), 1: reading(0, 7)}
}

// TestJudge: what makes a node unwell, which card is named, and whether it stays so.
func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		readings map[int]*card.DeviceReading
		lines    []card.KernelLine
		reason   string
		words    string
	}{
		"all are well, whatever they counted before": {well(), nil, reasonWell, "2 cards are well."},
		"nothing is known of them":                   {nil, nil, reasonWell, "2 cards are well."},
		"memory errors":                              {map[int]*card.DeviceReading{0: reading(0, 0), 1: reading(3, 0)}, nil, reasonFault, "card 1 (0000:5e:00.0): its memory has had errors"},
		"a card that is gone":                        {map[int]*card.DeviceReading{0: {Lost: true}, 1: reading(0, 0)}, nil, reasonFault, "card 0 (0000:3b:00.0): it does not answer"},
		"a driver that is silent":                    {map[int]*card.DeviceReading{0: {Silent: time.Minute}, 1: reading(0, 0)}, nil, reasonUnwell, "card 0"},
		"a driver that is busy":                      {map[int]*card.DeviceReading{0: {Silent: time.Second}, 1: reading(0, 0)}, nil, reasonWell, ""},
		"fallen off the bus":                         {well(), []card.KernelLine{xid(time.Minute, 79)}, reasonFault, "Xid 79"},
		"a program's own error":                      {well(), []card.KernelLine{xid(time.Minute, 31)}, reasonWell, ""},
		"a line of another card":                     {well(), []card.KernelLine{{At: boot.Add(time.Minute), Bus: "0000:99:00", Xid: 79}}, reasonWell, ""},
		"a line of before the start":                 {well(), []card.KernelLine{xid(-time.Minute, 79)}, reasonWell, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBook(boot)
			b.meet(two)
			for _, l := range c.lines {
				b.hear(l)
			}
			got := b.judge(c.readings, boot.Add(time.Hour))
			if got.reason != c.reason || got.unwell != (c.reason != reasonWell) || !strings.Contains(got.message, c.words) {
				t.Errorf("%+v", got)
			}
		})
	}
	if got := newBook(boot).judge(nil, boot); got.unwell || got.reason != reasonNobody {
		t.Errorf("no card: %+v", got)
	}
}

// TestStays: a fault that was counted or logged stands when the agent is replaced, until the machine is started again or an operator mended it; what happens
// later is news again.
func TestStays(t *testing.T) {
	said := func(at time.Time, reason string, notes map[string]string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: notes}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: condition, Status: corev1.ConditionTrue, Reason: reason, Message: "card 1: Xid 79.", LastTransitionTime: metav1.NewTime(at)},
		}}}
	}
	next := func(n *corev1.Node) *book {
		b := newBook(boot)
		b.begin(n)
		b.meet(two)
		return b
	}
	noon := boot.Add(4 * time.Hour)
	if got := next(said(noon, reasonFault, nil)).judge(well(), noon); !got.unwell || got.message != "card 1: Xid 79." {
		t.Errorf("after the agent was replaced: %+v", got)
	}
	if got := next(said(noon, reasonUnwell, nil)).judge(well(), noon); got.unwell {
		t.Errorf("what may pass did: %+v", got)
	}
	if got := next(said(boot.Add(-time.Hour), reasonFault, nil)).judge(well(), noon); got.unwell {
		t.Errorf("after the machine was started again: %+v", got)
	}
	b := next(said(noon, reasonFault, nil))
	b.hear(xid(time.Hour, 79))
	ill := map[int]*card.DeviceReading{0: reading(0, 5), 1: reading(3, 7)}
	if got := b.judge(ill, noon); !got.unwell {
		t.Errorf("%+v", got)
	}
	fixed := map[string]string{mended: noon.Add(time.Minute).Format(time.RFC3339)}
	b.heed(said(noon, reasonFault, fixed))
	if got := b.judge(ill, noon); got.unwell {
		t.Errorf("after it was mended: %+v", got)
	}
	if got := b.judge(map[int]*card.DeviceReading{0: reading(0, 5), 1: reading(4, 7)}, noon); !got.unwell {
		t.Errorf("one more error: %+v", got)
	}
	again := next(said(noon, reasonFault, fixed))
	if got := again.judge(ill, noon.Add(time.Hour)); got.unwell {
		t.Errorf("mended, and the agent was replaced: %+v", got)
	}
	again.hear(xid(5*time.Hour, 79))
	if got := again.judge(ill, noon.Add(2*time.Hour)); !got.unwell {
		t.Errorf("a line after it was mended: %+v", got)
	}
	bad := map[string]string{mended: "yesterday"}
	if got := next(said(noon, reasonFault, bad)).judge(well(), noon); !got.unwell {
		t.Errorf("words that are no time: %+v", got)
	}
}
