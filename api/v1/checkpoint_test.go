package v1

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestCheckpointTiers(t *testing.T) {
	var s TrainingTaskSpec
	want := CheckpointTier{Every: Duration(5 * time.Minute), Keep: &CheckpointKeep{Last: 2}}
	if d := cmp.Diff(want, s.LocalTier()); d != "" {
		t.Error(d)
	}
	s.Checkpoint = &Checkpoints{Shared: &CheckpointTier{EverySteps: 7, Keep: &CheckpointKeep{EverySteps: 100}}}
	if d := cmp.Diff(CheckpointTier{EverySteps: 7, Keep: &CheckpointKeep{EverySteps: 100}}, s.SharedTier()); d != "" {
		t.Error(d)
	}
}

func TestWhichTiersAreTuned(t *testing.T) {
	s := TrainingTaskSpec{}
	tuned := func() (out []string) {
		for _, tier := range []string{MemoryTier, "local", "shared"} {
			if s.Tunes(tier) {
				out = append(out, tier)
			}
		}
		return out
	}
	if got := tuned(); got != nil {
		t.Error("without a word of it", got)
	}
	s.Checkpoint = &Checkpoints{Local: &CheckpointTier{Keep: &CheckpointKeep{Last: 1}}}
	if got := tuned(); got != nil {
		t.Error("without auto", got)
	}
	s.Checkpoint.Auto = true
	if d := cmp.Diff([]string{MemoryTier, "local", "shared"}, tuned()); d != "" {
		t.Error(d)
	}
	s.Checkpoint.Local.EverySteps, s.Checkpoint.Shared = 10, &CheckpointTier{Disabled: true}
	if d := cmp.Diff([]string{MemoryTier}, tuned()); d != "" {
		t.Error(d)
	}
}

func TestCheckpointRules(t *testing.T) {
	for name, c := range map[string]struct {
		tier CheckpointTier
		bad  string
	}{
		"fine":            {CheckpointTier{Every: Duration(time.Minute), EverySteps: 10, Keep: &CheckpointKeep{Last: 1}}, ""},
		"off":             {CheckpointTier{Disabled: true}, ""},
		"off with steps":  {CheckpointTier{Disabled: true, EverySteps: 1}, "x.disabled"},
		"too often":       {CheckpointTier{Every: 1}, "x.every"},
		"negative steps":  {CheckpointTier{EverySteps: -1}, "x.everySteps"},
		"too many":        {CheckpointTier{Keep: &CheckpointKeep{Last: 1001}}, "x.keep.last"},
		"best":            {CheckpointTier{Keep: &CheckpointKeep{Best: &CheckpointBest{Metric: "val/loss", Order: OrderMin, Count: 3}}}, ""},
		"best of nothing": {CheckpointTier{Keep: &CheckpointKeep{Best: &CheckpointBest{Order: OrderMax}}}, "x.keep.best.metric"},
		"overlong metric": {CheckpointTier{Keep: &CheckpointKeep{Best: &CheckpointBest{Metric: strings.Repeat("m", 129), Order: OrderMax}}}, "x.keep.best.metric"},
		"torn metric":     {CheckpointTier{Keep: &CheckpointKeep{Best: &CheckpointBest{Metric: "a\nb", Order: OrderMax}}}, "x.keep.best.metric"},
		"no order":        {CheckpointTier{Keep: &CheckpointKeep{Best: &CheckpointBest{Metric: "loss"}}}, "x.keep.best.order"},
		"best count":      {CheckpointTier{Keep: &CheckpointKeep{Best: &CheckpointBest{Metric: "loss", Order: OrderMin, Count: -1}}}, "x.keep.best.count"},
		"negative keeper": {CheckpointTier{Keep: &CheckpointKeep{EverySteps: -1}}, "x.keep.everySteps"},
	} {
		var f faults
		f.checkpointTier("x", &c.tier)
		if got := len(f.list) == 1 && f.list[0].Path == c.bad; got != (c.bad != "") || c.bad == "" && len(f.list) > 0 {
			t.Errorf("%s: %+v", name, f.list)
		}
	}
}

// TestCheckpointFrom: another task's, or one that is uploaded; a task waits for the latter until it is there.
func TestCheckpointFrom(t *testing.T) {
	for _, c := range []struct {
		from CheckpointFrom
		bad  string
	}{
		{CheckpointFrom{Task: "other"}, ""}, {CheckpointFrom{Task: "other", Step: 3}, ""}, {CheckpointFrom{Upload: true}, ""},
		{CheckpointFrom{}, "spec.checkpoint.from.task"}, {CheckpointFrom{Task: "No Name"}, "spec.checkpoint.from.task"},
		{CheckpointFrom{Upload: true, Task: "other"}, "spec.checkpoint.from.upload"}, {CheckpointFrom{Upload: true, Step: 3}, "spec.checkpoint.from.upload"},
	} {
		var f faults
		task := &TrainingTask{Spec: TrainingTaskSpec{Checkpoint: &Checkpoints{From: &c.from}}}
		f.checkpointFrom(&task.Spec)
		if got := f.list; len(got) > 0 != (c.bad != "") || len(got) > 0 && got[0].Path != c.bad {
			t.Errorf("%+v: %+v", c.from, got)
		}
		if task.AwaitsCheckpoint() != c.from.Upload {
			t.Errorf("%+v", c.from)
		}
		task.Status.From = &CheckpointOrigin{}
		if task.AwaitsCheckpoint() {
			t.Errorf("%+v: it is there", c.from)
		}
	}
}
