package server

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/server/limit"
)

// begin starts a request and leaves its answer unread.
func (w *world) begin(method, path, token string, body io.Reader) *http.Response {
	w.t.Helper()
	req, err := http.NewRequest(method, w.base+path, body)
	must(w.t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	must(w.t, err)
	w.t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// TestCutDownload: a download ends soon after its token or its reader's membership, and a peer that
// takes no byte does not keep it open; what arrived does not look whole.
func TestCutDownload(t *testing.T) {
	const size = 64 << 20 // more than the buffers between two ends of a connection
	w := newWorld(t, func(c *Config) {
		c.Limits.Recheck, c.Limits.Stall = 10*time.Millisecond, time.Hour
	})
	w.user("ann", api.RoleMember)
	lab := w.put(&api.Project{Meta: api.Meta{Name: "lab"}, Spec: api.ProjectSpec{Members: []string{"ann"}}}).(*api.Project)
	var task struct{ TaskID string }
	made := manifest("one", func(t *api.TrainingTask) { t.Meta.Project = "lab" })
	w.ok("POST", "/api/v1/training-tasks", made, &task)
	_, err := w.blob.Put(context.Background(), "outputs/"+task.TaskID+"/worker-0/big", io.LimitReader(zeros{}, size))
	must(t, err)
	path := "/api/v1/training-tasks/one/outputs/worker-0/big?project=lab"
	for name, lose := range map[string]func(){
		"token":      func() { w.ok("DELETE", "/api/v1/tokens/gone", nil, nil) },
		"membership": func() { lab.Spec.Members = nil; w.put(lab) },
	} {
		t.Run(name, func(t *testing.T) {
			token := w.token("gone", "ann", "", nil)
			defer w.do("DELETE", "/api/v1/tokens/gone", w.admin, nil)
			resp := w.begin("GET", path, token, nil)
			if resp.StatusCode != 200 || resp.ContentLength != size {
				t.Fatalf("%d, %d bytes", resp.StatusCode, resp.ContentLength)
			}
			before := w.downloads()
			lose()
			eventually(t, "the handler has ended", func() bool { return w.downloads() > before })
			if n, err := io.Copy(io.Discard, resp.Body); err == nil || n >= size {
				t.Errorf("%d bytes arrived, %v", n, err)
			}
			lab.Spec.Members = []string{"ann"}
			w.put(lab)
		})
	}
}

// downloads is how many downloads of outputs have ended.
func (w *world) downloads() int {
	w.t.Helper()
	families, err := w.cfg.Metrics.Gather()
	must(w.t, err)
	n := 0
	for _, family := range families {
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if strings.HasSuffix(label.GetValue(), "outputs/{path...}") && m.GetCounter() != nil {
					n += int(m.GetCounter().GetValue())
				}
			}
		}
	}
	return n
}

func TestCutBackup(t *testing.T) {
	ended := make(chan error, 1)
	w := newWorld(t, func(c *Config) {
		c.Limits.Recheck, c.Limits.Stall = 10*time.Millisecond, time.Hour
		c.Backup = func(_ context.Context, out io.Writer) error {
			_, err := io.Copy(out, zeros{})
			ended <- err
			return err
		}
	})
	w.user("ann", api.RoleAdmin)
	resp := w.begin("POST", "/api/v1/backup", w.token("gone", "ann", "", nil), nil)
	w.ok("DELETE", "/api/v1/tokens/gone", nil, nil)
	if err := <-ended; err == nil {
		t.Error("an endless backup ended well")
	}
	if _, err := io.Copy(io.Discard, resp.Body); err == nil {
		t.Error("a cut backup looks whole")
	}
}

// TestCutUpload: an upload ends with its token, and nothing of it stays.
func TestCutUpload(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Limits.Recheck, c.Limits.Stall = 10*time.Millisecond, time.Hour })
	w.user("ann", api.RoleMember)
	token := w.token("gone", "ann", "", nil)
	body, feed := io.Pipe()
	defer feed.Close()
	answers := make(chan int, 1)
	go func() {
		req, _ := http.NewRequest("POST", w.base+"/api/v1/archives", body)
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			answers <- 0 // hung up on
			return
		}
		_ = resp.Body.Close()
		answers <- resp.StatusCode
	}()
	_, err := feed.Write(make([]byte, 1<<20))
	must(t, err)
	w.ok("DELETE", "/api/v1/tokens/gone", nil, nil)
	if status := <-answers; status != 401 && status != 0 {
		t.Errorf("answered %d", status)
	}
	eventually(t, "nothing is left", func() bool { return len(w.blobFiles()) == 0 })
}

// blobFiles are all files of objects in the blob store, temporary ones too.
func (w *world) blobFiles() []string {
	w.t.Helper()
	var out []string
	must(w.t, filepath.WalkDir(w.blobDir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && d.Name() != "swept" { // which says when it was last swept
			out = append(out, path)
		}
		return nil
	}))
	return out
}

// TestCutInTime: with the usual limits whoever is put out is out within five seconds.
func TestCutInTime(t *testing.T) {
	if every := (limit.Limits{}).WithDefaults().Recheck; every > 4*time.Second {
		t.Errorf("callers are looked at every %v", every)
	}
}
