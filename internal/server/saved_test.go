package server

import (
	"strings"
	"testing"
)

// TestModelOfCheckpoint: what is no checkpoint, or can't be read from here, makes no version, and says which field it was.
func TestModelOfCheckpoint(t *testing.T) {
	w := newWorld(t)
	w.submit("t")
	for _, kind := range []string{"models", "datasets"} {
		w.ok("POST", "/api/v1/"+kind, `{"metadata":{"name":"net","project":"default"}}`, nil)
	}
	at := "/api/v1/models/net/versions"
	for body, want := range map[string]string{
		`{"checkpoint":{"task":"none"}}`:                                                  "checkpoint.task",
		`{"checkpoint":{"task":"t","step":15}}`:                                           "10, 20, 30",
		`{"checkpoint":{"task":"t","step":-1}}`:                                           "checkpoint.step",
		`{"checkpoint":{"task":"t"},"imported":{"folder":"a"}}`:                           "stands alone",
		`{"checkpoint":{"task":"t"},"metadata":{"` + strings.Repeat("a", 300) + `":"b"}}`: "metadata",
	} {
		if a := w.do("POST", at, w.admin, body); a.status != 400 || !strings.Contains(string(a.raw), want) {
			t.Errorf("%.80s: %d %s", body, a.status, a.raw)
		}
	}
	w.refused("POST", "/api/v1/datasets/net/versions", `{"checkpoint":{"task":"t","step":20}}`, 400, "InvalidField")
	w.refused("POST", at, `{"checkpoint":{"task":"t","step":20}}`, 404, "OutOfReach") // of its second rank
	if a := w.do("GET", at, w.admin, nil); strings.Contains(string(a.raw), `"number"`) {
		t.Errorf("a version was made: %s", a.raw)
	}
}
