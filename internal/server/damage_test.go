package server

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/fermi-cluster/fermi/internal/blob/sealed"
)

// TestDamagedOutput: bytes that are not those which were stored are not delivered, unless somebody asks for them as they are.
func TestDamagedOutput(t *testing.T) {
	w := newWorld(t)
	task := w.submit("t")
	want := bytes.Repeat([]byte("0123456789abcdef"), 3<<16) // three blocks
	key := "outputs/" + task.Meta.ID + "/worker-0/model"
	must(t, sealed.Put(t.Context(), w.blob, key, bytes.NewReader(want)))
	path := "/api/v1/training-tasks/t/outputs/worker-0/model"
	if status, body := w.fetch(path, ""); status != http.StatusOK || !bytes.Equal(body, want) {
		t.Fatal(status, len(body))
	}
	for _, at := range []int{8, 1<<20 + 8} {
		bad := bytes.Clone(want)
		copy(bad[at:], "flipped!")
		_, err := w.blob.Put(t.Context(), key, bytes.NewReader(bad))
		must(t, err)
		status, body := w.fetch(path, "")
		if at < 1<<20 && (status != http.StatusInternalServerError || !bytes.Contains(body, []byte("Damaged")) || !bytes.Contains(body, []byte("worker-0/model"))) {
			t.Errorf("at %d: %d %.200s", at, status, body)
		}
		if bytes.Contains(body, []byte("flipped!")) || at > 1<<20 && len(body) >= len(want) {
			t.Errorf("at %d: damaged bytes were delivered as good", at)
		}
		// Who asks for the rest hears why, and what lies elsewhere is served.
		if status, body := w.fetch(path, fmt.Sprintf("bytes=%d-", at)); status != http.StatusInternalServerError || !bytes.Contains(body, []byte("Damaged")) {
			t.Errorf("at %d: %d %.200s", at, status, body)
		}
		if status, body := w.fetch(path, "bytes=2097152-"); status != http.StatusPartialContent || !bytes.Equal(body, want[2<<20:]) {
			t.Errorf("at %d: %d, %d bytes", at, status, len(body))
		}
		if status, body := w.fetch(path+"?unverified=true", ""); status != http.StatusOK || !bytes.Equal(body, bad) {
			t.Errorf("at %d: %d, %d bytes", at, status, len(body))
		}
	}
}

// fetch reads bytes as far as they come.
func (w *world) fetch(path, span string) (int, []byte) {
	w.t.Helper()
	var headers []string
	if span != "" {
		headers = []string{"Range", span}
	}
	resp := w.open("GET", path, w.admin, nil, headers...)
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body) // it may be cut
	return resp.StatusCode, body
}
