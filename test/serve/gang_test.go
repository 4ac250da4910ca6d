package serve

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/fermi-cluster/fermi/test/harness"
)

// memberServer is a member of a gang: each says who it is; the lead, which alone is told $PORT, asks all others for each answer. It breaks the connection
// when one of them is not there.
const memberServer = `
import http.server, json, os, urllib.request

me = os.environ["FERMI_ROLE"] + "-" + os.environ["FERMI_INDEX"]
lead = "PORT" in os.environ
others = os.environ["FERMI_ROLE_DECODE_ADDRS"].split(",") + os.environ["FERMI_ROLE_PREFILL_ADDRS"].split(",")
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

class Member(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        body = {"name": me, "node": os.environ["FERMI_NODE"], "rank": os.environ["RANK"], "world": os.environ["WORLD_SIZE"], "master": os.environ["MASTER_ADDR"]}
        if self.path != "/who":
            try:
                body = {"model": "spirals", "replica": os.environ["FERMI_TASK"], "lead": me, "members": [json.load(opener.open("http://" + a + "/who", timeout=5)) for a in others]}
            except OSError:
                self.close_connection = True
                return
        text = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

port = os.environ["PORT"] if lead else os.environ["FERMI_PORT"]
http.server.ThreadingHTTPServer(("0.0.0.0", int(port)), Member).serve_forever()
`

// TestGang: a replica is a gang of two roles over three nodes. Its lead answers, and everybody was told where the others are. When a member is killed, no
// request fails, for there is another replica, and the whole gang starts again.
func TestGang(t *testing.T) {
	folder := t.TempDir()
	for _, err := range []error{os.Chmod(filepath.Dir(folder), 0o755), os.Chmod(folder, 0o755), os.WriteFile(filepath.Join(folder, "member.py"), []byte(memberServer), 0o644)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	w := newWorld(t, "--folder", "work="+folder)
	w.grant("work")
	manifest := filepath.Join(t.TempDir(), "pairs.yaml")
	if err := os.WriteFile(manifest, []byte(`
kind: InferenceService
metadata: {name: pairs}
spec:
  replicas: 2
  template:
    command: [python3, member.py]
    code: {folder: work}
    health: {path: /}
    roles:
    - {name: decode, members: 2, resources: {accelerators: {count: 8}}}
    - {name: prefill}
`), 0o644); err != nil {
		t.Fatal(err)
	}
	w.fermi("apply", "-f", manifest)
	type answer struct {
		Lead, Replica string
		Members       []struct{ Name, Node, Rank, World, Master string }
	}
	asked := func() (a answer) {
		t.Helper()
		status, body, err := ask(t.Context(), http.MethodGet, w.gateway+"/inference/pairs/", w.key, nil)
		if err != nil || status != 200 || json.Unmarshal([]byte(body), &a) != nil {
			t.Fatalf("%d %v %s", status, err, body)
		}
		return a
	}
	ready := func() {
		t.Helper()
		harness.Eventually(t, "both replicas answer", func() bool { return strings.Contains(w.fermi("service", "list"), "2/2") })
	}
	ready()
	a := asked()
	var names, nodes []string
	for i, m := range a.Members {
		names, nodes = append(names, m.Name), append(nodes, m.Node)
		if m.World != "3" || m.Rank != []string{"0", "1", "2"}[i] || m.Master != a.Members[0].Master {
			t.Errorf("member %s is rank %s of %s, and its lead is at %s", m.Name, m.Rank, m.World, m.Master)
		}
	}
	if want := []string{"decode-0", "decode-1", "prefill-0"}; a.Lead != "decode-0" || !slices.Equal(names, want) {
		t.Errorf("%s asked %v", a.Lead, names)
	}
	if nodes[0] == nodes[1] {
		t.Errorf("two members with all of a node's devices are both on %s", nodes[0])
	}

	l := w.load("pairs")
	l.more(t, 50)
	hurt := w.replicas("pairs")[0]
	was := hurt.Status.Attempt
	killed := false
	for _, pid := range harness.Processes("FERMI_TASK_ID=" + hurt.Meta.ID) {
		raw, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
		if strings.Contains(string(raw), "FERMI_ROLE=prefill\x00") {
			killed = syscall.Kill(pid, syscall.SIGKILL) == nil || killed
		}
	}
	if !killed {
		t.Fatal("there is no member to kill")
	}
	harness.Eventually(t, "the whole gang has started again", func() bool {
		for _, r := range w.replicas("pairs") {
			if r.Meta.ID == hurt.Meta.ID {
				return r.Status.Attempt > was && r.Status.Ready
			}
		}
		return false
	})
	ready()
	l.more(t, 50)
	l.check(t, "a member was killed")
	w.fermi("service", "stop", "pairs")
	if left := w.replicas("pairs"); len(left) > 0 {
		t.Errorf("%d replicas are left", len(left))
	}
}
