package array

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	api "github.com/fermi-cluster/fermi/api/v1"
)

func TestParse(t *testing.T) {
	for text, want := range map[string][]int{
		"7": {7}, "1-4": {1, 2, 3, 4}, "0-9:3": {0, 3, 6, 9}, "3,1,1-2": {1, 2, 3}, " 5 , 8-9": {5, 8, 9}, "4-4": {4},
	} {
		if got, err := Parse(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", ",", "1-", "-1", "a", "1:2", "1-5:0", "9-1", "1000001", "99999999999999999999", "1-10001", "0-9999,20000", "1..3", "+1", "１", strings.Repeat("1,", 3000) + "1"} {
		_, err := Parse(text)
		var bad *Error
		if !errors.As(err, &bad) || bad.EN == "" || bad.ZH == "" {
			t.Errorf("%.20q: %v", text, err)
		}
	}
	if list, err := Parse("1-10000"); err != nil || len(list) != MaxIndexes {
		t.Errorf("%d %v", len(list), err)
	}
}

func TestParseAtOnce(t *testing.T) {
	if text, n, err := ParseAtOnce("1-100%10"); text != "1-100" || n != 10 || err != nil {
		t.Error(text, n, err)
	}
	if text, n, err := ParseAtOnce("1-3"); text != "1-3" || n != 0 || err != nil {
		t.Error(text, n, err)
	}
	for _, text := range []string{"1-3%", "1-3%0", "1-3%x", "%3", "1-3%4%5"} {
		if _, _, err := ParseAtOnce(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

// TestFormat: what is written in short is read back the same, and runs are short.
func TestFormat(t *testing.T) {
	for want, list := range map[string][]int{"": {}, "4": {4}, "1-3": {1, 2, 3}, "1-2": {1, 2}, "1,5": {1, 5}, "0-9:3": {0, 3, 6, 9}, "1-3,7,9": {1, 2, 3, 7, 9}} {
		if got := Format(list); got != want {
			t.Errorf("%v: %q, want %q", list, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfNDistinct(rapid.IntRange(0, 300), 1, 200, rapid.ID[int]).Draw(t, "indexes")
		slices.Sort(list)
		got, err := read(Format(list))
		if err != nil || !slices.Equal(got, list) {
			t.Fatalf("%v became %q", list, Format(list))
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"1-100", "0-9:3", "1,2,3", "-", ":", "1-2-3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		list, err := Parse(s)
		if err == nil && (len(list) == 0 || len(list) > MaxIndexes || !slices.IsSorted(list)) {
			t.Errorf("%q: %d", s, len(list))
		}
	})
}

func sweep(change func(*TaskArray)) *TaskArray {
	a := &TaskArray{Meta: api.Meta{Name: "sweep", Project: "lab"}, Spec: TaskArraySpec{Indexes: "1-3", TrainingTaskSpec: api.TrainingTaskSpec{Roles: []api.Role{{Command: []string{"true"}}}}}}
	change(a)
	a.Default()
	return a
}

func TestRules(t *testing.T) {
	a := sweep(func(*TaskArray) {})
	if bad := a.Validate(); len(bad) > 0 || a.Spec.Roles[0].Replicas != 1 || a.Spec.Framework != api.FrameworkPlain {
		t.Fatal(bad, a.Spec)
	}
	if w := a.Workload(); w.Kind != Kind || w.Waits() && w.Phase != "" || w.Meta != &a.Meta || len(w.Roles) != 1 || w.Priority != 500 {
		t.Errorf("%+v", w)
	}
	for path, change := range map[string]func(*TaskArray){
		"spec.indexes":         func(a *TaskArray) { a.Spec.Indexes = "x" },
		"spec.atOnce":          func(a *TaskArray) { a.Spec.AtOnce = -1 },
		"metadata.name":        func(a *TaskArray) { a.Meta.Name = strings.Repeat("a", 56) },
		"spec.inside":          func(a *TaskArray) { a.Spec.Inside = []string{"lab"}; a.Spec.Roles[0].Resources = api.Resources{} },
		"spec.checkpoint.from": func(a *TaskArray) { a.Spec.Checkpoint = &api.Checkpoints{From: &api.CheckpointFrom{Task: "x"}} },
		"spec.roles":           func(a *TaskArray) { a.Spec.Roles = nil },
		"spec.priorityClass":   func(a *TaskArray) { a.Spec.PriorityClass = "best" },
	} {
		found := false
		for _, f := range sweep(change).Validate() {
			found = found || f.Path == path && f.Message.EN != "" && f.Message.ZH != ""
		}
		if !found {
			t.Errorf("%s is not refused", path)
		}
	}
}
