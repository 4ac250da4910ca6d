package conf

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCache: a folder of nodes, with how much of it a project may have.
func TestCache(t *testing.T) {
	for text, wrong := range map[string]bool{
		"": false, "/var/lib/fermi/cache": false, "/data=2Ti": false,
		"data": true, "/": true, "/data/": true, "/data/../etc": true, "/data=": true, "/data=2": true, "/data=0Gi": true, "/data=much": true,
	} {
		var s Settings
		s.Doors.Pods.Cache = text
		if got := s.pods(); wrong != (len(got) == 1 && got[0].Path == "pods.cache") {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// TestGangs: a queue of a cluster's own is named with its zone and who keeps it; what can't be one is refused by its words.
func TestGangs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		gangs []string
		wrong string
	}{
		{[]string{"k1=kueue:research"}, ""},
		{[]string{"k1=volcano:default"}, ""},
		{[]string{"k1=slurm:research"}, "keepers are kueue and volcano"},
		{[]string{"k1=kueue:"}, "is not ZONE=KEEPER:QUEUE"},
		{[]string{"kueue:research"}, "is not ZONE=KEEPER:QUEUE"},
		{[]string{"k2=kueue:research"}, "is no zone of cluster"},
		{[]string{"k1=kueue:a", "k1=volcano:b"}, "given twice"},
	} {
		var s Settings
		s.Doors.Launchers = "10.0.0.7:7072"
		s.Doors.Pods = Pods{Clusters: []string{"k1=" + file + ":fermi"}, Image: "fermi:1", Gangs: c.gangs}
		got := ""
		for _, f := range s.pods() {
			got += f.Path + ": " + f.Message.EN + "\n"
		}
		if c.wrong == "" && got != "" || c.wrong != "" && (!strings.Contains(got, c.wrong) || !strings.HasPrefix(got, "pods.gangs: ")) {
			t.Errorf("%v: %q", c.gangs, got)
		}
	}
}
