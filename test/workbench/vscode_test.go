package workbench

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli/tool"
	"github.com/fermi-cluster/fermi/internal/launch/editor"
	"github.com/fermi-cluster/fermi/test/harness"
)

// TestVSCode: VS Code is served to the owner of an environment and to nobody else, with its WebSocket; it writes in the home, and a stop and start changes neither address
// nor files. An environment that lacks it says what to do.
func TestVSCode(t *testing.T) {
	if _, err := os.Stat(editor.Tools + "/vscode/ready"); err != nil {
		t.Skip("fermi tools install vscode was not run on this machine; make e2e-workbench runs it")
	}
	if tool.Dir != editor.Tools {
		t.Fatalf("tools are installed in %s and looked for in %s", tool.Dir, editor.Tools)
	}
	w := newWorld(t)
	w.must("ann", "env", "create", "code", "--vscode", "--cpu", "1", "--memory", "2Gi")
	list, err := client.Ports(t.Context(), w.people["ann"], devenv.Kind, "lab", "code")
	if err != nil || len(list) != 1 || list[0].Port != devenv.VSCodePort || list[0].Name != "vscode" {
		t.Fatalf("%+v, %v", list, err)
	}
	base := "http://" + w.Addr + strings.TrimSuffix(list[0].Path, "/")
	get := func(who, path string) (int, []byte) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+w.secrets[who])
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, body
	}
	var page []byte
	harness.Eventually(t, "its page is served", func() bool {
		var code int
		code, page = get("ann", "/")
		return code == http.StatusOK && bytes.Contains(page, []byte("vscode-workbench-web-configuration"))
	})
	for _, who := range []string{"bob", "mal"} {
		if code, _ := get(who, "/"); code == http.StatusOK {
			t.Errorf("%s sees it", who)
		}
	}
	// What the page loads, and the line to its other half.
	at := regexp.MustCompile(`(/?stable-[0-9a-f]+)/static/out/vs/code/browser/workbench/workbench\.js`).FindSubmatch(page)
	if at == nil {
		t.Fatalf("no script in the page:\n%.2000s", page)
	}
	stable := "/" + strings.TrimPrefix(string(at[1]), "/")
	if code, script := get("ann", stable+strings.TrimPrefix(string(at[0]), string(at[1]))); code != http.StatusOK || len(script) < 10000 {
		t.Errorf("its script: %d, %d bytes", code, len(script))
	}
	dial := func(who string) (*websocket.Conn, error) {
		c, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(base, "http")+stable+"?reconnectionToken=6f2f0a0e-0000-4000-8000-000000000001&reconnection=false&skipWebSocketFrames=false",
			&websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + w.secrets[who]}}})
		return c, err
	}
	c, err := dial("ann")
	if err != nil {
		t.Fatalf("its WebSocket: %v", err)
	}
	_ = c.CloseNow()
	if c, err := dial("bob"); err == nil {
		_ = c.CloseNow()
		t.Error("bob has its WebSocket")
	}
	// The program is nobody's to change, the files are in the home, and an open page alone keeps no environment.
	out := w.must("ann", "env", "shell", "code", "--", "sh", "-c", "touch "+editor.Tools+"/x 2>&1; ls ~/.local/share; echo kept > ~/kept")
	if !strings.Contains(out, "code-server") || !strings.Contains(out, "x'") {
		t.Errorf("inside: %s", out)
	}
	w.must("ann", "env", "stop", "code")
	w.must("ann", "env", "start", "code")
	harness.Eventually(t, "it is served at the same address again", func() bool {
		code, _ := get("ann", "/")
		return code == http.StatusOK
	})
	if out := w.must("ann", "env", "shell", "code", "--", "cat", "kept"); out != "kept\n" {
		t.Error(out)
	}

	w.must("ann", "env", "create", "plain", "--cpu", "500m", "--memory", "256Mi")
	if out, code := w.fermi("ann", "", "env", "open", "plain", "vscode"); code == 0 || !strings.Contains(out, "--vscode") {
		t.Errorf("an environment without it: %s", out)
	}
}
