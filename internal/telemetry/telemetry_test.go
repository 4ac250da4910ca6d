package telemetry

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/fermi-cluster/fermi/internal/fault"
)

func TestLogger(t *testing.T) {
	var buf bytes.Buffer
	log, err := NewLogger(&buf, "warn", "json")
	if err != nil {
		t.Fatal(err)
	}
	log.Info("unseen")
	log.Warn("seen", "node", "北京", "token", "abc")
	var line map[string]any
	if err := json.Unmarshal(buf.Bytes(), &line); err != nil {
		t.Fatalf("%v: %s", err, buf.String())
	}
	if line["msg"] != "seen" || line["node"] != "北京" || line["token"] != "***" {
		t.Error(line)
	}
	buf.Reset()
	if log, err = NewLogger(&buf, "", ""); err != nil {
		t.Fatal(err)
	}
	log.Debug("unseen")
	log.Info("seen")
	if got := buf.String(); strings.Contains(got, "unseen") || !strings.Contains(got, "level=INFO msg=seen") {
		t.Error(got)
	}
	for _, bad := range [][2]string{{"loud", "text"}, {"info", "xml"}} {
		if _, err := NewLogger(&buf, bad[0], bad[1]); !fault.Is(err, fault.Invalid) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

func TestRegistry(t *testing.T) {
	r := NewRegistry()
	r.MustRegister(BuildInfo("v1", "abc"))
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, f := range families {
		names[f.GetName()] = true
	}
	for _, want := range []string{"go_goroutines", "process_resident_memory_bytes", "go_build_info", "fermi_build_info"} {
		if !names[want] {
			t.Errorf("no %s", want)
		}
	}
}
