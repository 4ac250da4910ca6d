package cli

import (
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/restored"
	"github.com/fermi-cluster/fermi/internal/cli/clitest"
)

func TestDescribeShowsRecoveriesByPhase(t *testing.T) {
	f := clitest.New(t)
	task := clitest.SomeTask("gpt-1", "GPT大模型", api.PhaseRunning)
	started, failed := clitest.Now.Add(-100*time.Second), clitest.Now.Add(-50*time.Second)
	at := func(s float64) *time.Time {
		out := failed.Add(time.Duration(s * float64(time.Second)))
		return &out
	}
	task.Status.StartedAt = &started
	task.Status.Time = &api.TimeUse{From: started, At: clitest.Now, Doing: api.TimeEffective, Step: 7, Spent: map[string]api.Duration{api.TimeEffective: api.Duration(90 * time.Second), api.TimeRecovering: api.Duration(10 * time.Second)}}
	lost := int64(12)
	rank := 3
	task.Status.Interruptions = &api.Interruptions{
		Count: 2, Causes: map[string]int{"killed": 1, "memory-limit": 1}, LostSteps: 12, LostTime: api.Duration(10 * time.Second),
		Recovered: 2, Phases: map[string]api.Duration{"detect": api.Duration(time.Second), "start": api.Duration(19 * time.Second)},
		Last: []api.Recovery{{Cause: "launcher-lost", Node: "n02", FailedAt: started, SeenAt: started}, {Cause: "killed", Rank: &rank, Node: "n01", FailedAt: failed, SeenAt: *at(0.25), AttributedAt: at(0.25), OpenedAt: at(0.5), RunningAt: at(2), SteppedAt: at(3), EndedAt: at(10), RecoverySteps: api.RecoverySteps{Step: 7, Restore: 5, LostSteps: &lost, Passed: true, Source: restored.Instant}}},
	}
	task.Status.Pace = &api.Pace{Step: 7, StepTime: api.Duration(250 * time.Millisecond), SamplesPerSecond: 128, TokensPerSecond: 4096, FlopsPerSecond: 2e14, MFU: 0.5, DataWait: 0.125, LossScale: 65536, SkippedSteps: 3}
	task.Status.Intervals = []api.SaveInterval{{Tier: api.MemoryTier, Why: api.T("Every 40 steps.", "每 40 步。")}, {Tier: "shared", Why: api.T("Every hour.", "每小时。")}}
	f.Add(task)
	for lang, words := range map[string][]string{
		"en": {"step 7, 0.250 s a step, 128.0 samples/s, 4096.0 tokens/s, 200.00 TFLOPS, MFU 50.0 % (≤ 55 %), 12.5 % waiting for data, loss scale 65536, 3 steps skipped", "Saves in memory:", "Every 40 steps.", "Saves in the store:", "Every hour.", "90.00 %", "2 (killed 1, memory-limit 1)", "12", "10.00 s (< 5m", "detect 0.50 s, start 9.50 s", "launcher-lost (on n02), detect", "killed (rank 3 on n01), detect 0.25 s, attribute 0.00 s, place 0.25 s, start 1.50 s, restore 1.00 s, catch up 7.00 s, from step 5 of an instant save in memory, 12 steps lost", "effective 1m30s, recovering 10s"},
		"zh": {"训练速度", "内存保存", "每 40 步。", "等待数据 12.5 %", "损失缩放 65536，跳过 3 步", "有效时间", "重算步数", "平均恢复时间", "launcher-lost（n02）", "killed（n01 上的 rank 3）, 发现 0.25 s", "追赶 7.00 s，从内存中的即时保存的第 5 步继续"},
	} {
		got := fermi(f, t, "", "describe", "task", "gpt-1", "--lang", lang)
		for _, want := range words {
			if !strings.Contains(got.out, want) {
				t.Errorf("no %q in\n%s", want, got.out)
			}
		}
	}
}

// TestWhatIsNotKnownIsShownAsSuch: a task that tells no steps has no effective time, no lost steps and no time to recover.
func TestWhatIsNotKnownIsShownAsSuch(t *testing.T) {
	f := clitest.New(t)
	task := clitest.SomeTask("gpt-2", "", api.PhaseRunning)
	started, ran := clitest.Now.Add(-100*time.Second), clitest.Now.Add(-50*time.Second)
	task.Status.StartedAt = &started
	task.Status.Time = &api.TimeUse{From: started, At: clitest.Now, Doing: api.TimeUnknown, Spent: map[string]api.Duration{api.TimeUnknown: api.Duration(100 * time.Second)}}
	task.Status.Interruptions = &api.Interruptions{Count: 1, Untold: 1, Causes: map[string]int{"killed": 1}, Last: []api.Recovery{{Cause: "killed", FailedAt: ran, SeenAt: ran, EndedAt: &ran}}}
	f.Add(task)
	got := fermi(f, t, "", "describe", "task", "gpt-2", "--lang", "en").out
	for _, want := range []string{"unknown: it told no steps", "unknown 1m40s", "unknown: it was not seen to pass", "lost steps unknown"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "100.00 %") || strings.Contains(got, "0.00 %") {
		t.Error(got)
	}
}
