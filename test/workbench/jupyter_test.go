package workbench

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/test/harness"
)

// TestJupyter: a notebook environment starts JupyterLab, and a cell runs through the door with a kernel over a WebSocket; its secret is nowhere to be seen.
func TestJupyter(t *testing.T) {
	at := os.Getenv("FERMI_JUPYTER")
	if at == "" {
		t.Skip("FERMI_JUPYTER names no folder with JupyterLab; make e2e-workbench installs one")
	}
	w := newWorld(t)
	w.must("ann", "env", "create", "nb", "--type", "notebook", "--cpu", "1", "--memory", "2Gi", "--env", "PATH="+filepath.Join(at, "bin")+":/usr/bin:/bin")
	list, err := client.Ports(t.Context(), w.people["ann"], devenv.Kind, "lab", "nb")
	if err != nil || len(list) != 1 || list[0].Port != devenv.NotebookPort {
		t.Fatalf("%+v, %v", list, err)
	}
	base := "http://" + w.Addr + strings.TrimSuffix(list[0].Path, "/")
	cell := func(who string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
		defer cancel()
		cmd := exec.CommandContext(ctx, filepath.Join(at, "bin", "python"), "-c", runCell)
		cmd.Env = append(os.Environ(), "BASE="+base, "TOKEN="+w.secrets[who])
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	last := ""
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(last)
		}
	})
	harness.Eventually(t, "JupyterLab answers and runs a cell", func() bool {
		out, err := cell("ann")
		last = out
		return err == nil && strings.Contains(out, "answer 42")
	})
	for _, who := range []string{"bob", "mal"} {
		if out, err := cell(who); err == nil {
			t.Errorf("%s runs a cell: %s", who, out)
		}
	}
	// Its secret: neither in arguments nor in the log; and without it Jupyter lets nobody in, also from inside.
	out := w.must("ann", "env", "shell", "nb", "--", "sh", "-c", `ps axww -o args= | grep -c "$JUPYTER_TOKEN"; python3 - <<'END'
import urllib.request, urllib.error
try:
    urllib.request.urlopen("http://127.0.0.1:8888/api/kernels"); print("open")
except urllib.error.HTTPError as e:
    print("closed", e.code)
END
true`)
	if !strings.Contains(out, "closed 403") || !strings.HasPrefix(out, "0\n") && !strings.HasPrefix(out, "1\n") {
		t.Errorf("inside: %s", out)
	}
	w.must("ann", "env", "delete", "nb", "--yes")
}

// runCell starts a kernel by Jupyter's REST API and talks to it as Jupyter's protocol has it.
const runCell = `
import json, os, urllib.request, uuid, websocket
base, auth = os.environ["BASE"], "Bearer " + os.environ["TOKEN"]
def call(method, path, body=None):
    r = urllib.request.Request(base + path, method=method, data=None if body is None else json.dumps(body).encode(), headers={"Authorization": auth, "Content-Type": "application/json"})
    with urllib.request.urlopen(r, timeout=20) as f:
        text = f.read()
    return json.loads(text) if text else None
kernel = call("POST", "/api/kernels", {"name": "python3"})["id"]
try:
    ws = websocket.create_connection(base.replace("http://", "ws://") + "/api/kernels/" + kernel + "/channels", header=["Authorization: " + auth], timeout=30)
    mid = uuid.uuid4().hex
    ws.send(json.dumps({"channel": "shell", "header": {"msg_id": mid, "username": "", "session": uuid.uuid4().hex, "msg_type": "execute_request", "version": "5.3"},
        "parent_header": {}, "metadata": {}, "content": {"code": "print('answer', 6*7)", "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False}}))
    while True:
        m = json.loads(ws.recv())
        if m["parent_header"].get("msg_id") != mid: continue
        if m["msg_type"] == "stream": print(m["content"]["text"])
        if m["msg_type"] == "status" and m["content"]["execution_state"] == "idle": break
    ws.close()
finally:
    call("DELETE", "/api/kernels/" + kernel)
`
