package reading

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fermi-cluster/fermi/api/v1/mount"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func TestLists(t *testing.T) {
	f := Flags{Datasets: []string{"digits", "faces@3", "faces@latest:/data/f", "@3", "x:rel"}, Models: []string{"base@champion"}, Leaves: "out:final"}
	var wrong []string
	got := f.Lists(func(flag string, why fault.Text) { wrong = append(wrong, flag) })
	want := mount.Lists{
		Datasets: []mount.AssetRef{{Name: "digits"}, {Name: "faces", Version: "3"}, {Name: "faces", Version: "latest", Path: "/data/f"}},
		Models:   []mount.AssetRef{{Name: "base", Version: "champion"}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"--dataset", "--dataset"}, wrong); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(&mount.Output{Name: "out", Path: "final"}, output(f.Leaves)); d != "" {
		t.Error(d)
	}
	if output("") != nil {
		t.Error("no model was wished")
	}
}
