package attack

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/test/harness"
)

// TestArchives: code that one project uploaded is not another's, whoever knows its digest.
func TestArchives(t *testing.T) {
	w := invade(t, true)
	var body bytes.Buffer
	zip := gzip.NewWriter(&body)
	pack := tar.NewWriter(zip)
	w.do(pack.WriteHeader(&tar.Header{Name: "secret.txt", Typeflag: tar.TypeReg, Mode: 0o644, Size: 5}))
	_, err := pack.Write([]byte("ours\n"))
	w.do(err, pack.Close(), zip.Close())
	archive, err := w.vic.PutArchive(t.Context(), bytes.NewReader(body.Bytes()), int64(body.Len()))
	w.do(err)
	mine := shell(other, "mine", "cat secret.txt")
	mine.Spec.Code = &api.Code{Archive: archive.Digest}
	_, err = w.vic.Submit(t.Context(), mine, false)
	w.do(err)
	w.says(w.vic, other, "mine", "ours")
	if has, err := w.mal.HasArchive(t.Context(), archive.Digest); err == nil && has {
		t.Error("mallory is told that the archive is there")
	}
	theirs := shell(lab, "theirs", "cat secret.txt")
	theirs.Spec.Code = &api.Code{Archive: archive.Digest}
	if _, err := w.mal.Submit(t.Context(), theirs, false); err == nil {
		w.ends(w.mal, lab, "theirs")
		if strings.Contains(w.log(lab, "theirs"), "ours") {
			t.Error("mallory ran another project's code")
		}
	}
}

// TestAudit: who knocks is written down, and what was written can't be changed unseen.
func TestAudit(t *testing.T) {
	w := invade(t, true)
	for range 30 {
		resp, err := http.Post("http://"+w.Addr+"/api/v1/session", "application/json", strings.NewReader(`{"user":"vic","password":"guess"}`))
		w.do(err)
		resp.Body.Close()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+w.Addr+"/api/v1/training-tasks", nil)
		w.do(err)
		req.Header.Set("Authorization", "Bearer fermi_nobody-0000000000000000000000000000000000000000")
		if resp, err = http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
		}
	}
	w.launch(shell(lab, "talk", "echo hello"))
	w.ends(w.mal, lab, "talk")
	if _, _, code := w.run(w.malToken, "logs", "talk", "--project", lab); code != 0 {
		t.Fatal("mallory can't read its own log")
	}
	if _, _, code := w.run(w.malToken, "logs", "service", "--project", other); code == 0 {
		t.Error("mallory reads another project's log")
	}
	harness.Eventually(t, "the audit has the failed sign-ins, the refused tokens and the reads", func() bool {
		all := w.must("audit", "export", "-")
		return strings.Contains(all, "sign-in") && strings.Contains(all, "authenticate") && strings.Contains(all, "BadSignIn") && strings.Contains(all, "talk")
	})
	if strings.Contains(w.must("audit", "export", "-"), "guess") {
		t.Error("a password is in the audit")
	}
	w.must("audit", "verify")
	if out, errs, code := w.run(w.malToken, "audit", "export", "-"); code == 0 && strings.Contains(out, other) {
		t.Errorf("mallory reads the audit of others: %s %s", out, errs)
	}
	w.hold("audit")
}

// TestEscapes: what a task prints does not command the terminal of who reads it.
func TestEscapes(t *testing.T) {
	w := invade(t, true)
	w.launch(shell(lab, "escapes", `printf '\033]0;owned\007\033[2J\033[1;1H\033]52;c;ZXZpbA==\007 plain text \302\233 31m \342\200\256 end\n'`))
	w.ends(w.mal, lab, "escapes")
	out := w.log(lab, "escapes")
	if strings.ContainsAny(out, "\x1b\x07") || strings.Contains(out, "\u009b") || strings.Contains(out, "\u202e") {
		t.Errorf("escapes reach the terminal: %q", out)
	}
	if !strings.Contains(out, "plain text") {
		t.Errorf("the text is gone: %q", out)
	}
}
