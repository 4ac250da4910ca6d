package bundle

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
)

func make1(t *testing.T, entries int) (file []byte, content map[string]string) {
	t.Helper()
	var out bytes.Buffer
	w, err := NewWriter(&out, Manifest{Format: Format, Version: "v1", Taken: time.Unix(1e9, 0).UTC(), SecretKeys: []string{"ab"}})
	if err != nil {
		t.Fatal(err)
	}
	content = map[string]string{}
	for i := range entries {
		name, body := fmt.Sprintf("blobs/文件-%d", i), strings.Repeat(fmt.Sprint(i, ","), i%700)
		content[name] = body
		if err := w.Add(name, int64(len(body)), time.Unix(1e9, 5), strings.NewReader(body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), content
}

func read1(file []byte) (Summary, map[string]string, error) {
	got := map[string]string{}
	s, err := Read(bytes.NewReader(file), func(Manifest) error { return nil }, func(name string, r io.Reader) error {
		raw, err := io.ReadAll(r)
		got[name] = string(raw)
		return err
	})
	return s, got, err
}

func TestWhole(t *testing.T) {
	for _, n := range []int{0, 1, sumsEvery - 2, sumsEvery - 1, sumsEvery, 2*sumsEvery + 7} {
		file, want := make1(t, n)
		s, got, err := read1(file)
		if err != nil || len(got) != n || s.Entries != n+1 || s.Version != "v1" {
			t.Fatalf("%d: %v %+v", n, err, s)
		}
		for name, body := range want {
			if got[name] != body {
				t.Fatalf("%s differs", name)
			}
		}
	}
}

// TestDamage: every flip and cut is refused, or what was read is what was written.
func TestDamage(t *testing.T) {
	file, want := make1(t, 40)
	rng := rand.New(rand.NewPCG(3, 4))
	refused := 0
	for i := range 2000 {
		bad := bytes.Clone(file)
		switch i % 4 {
		case 0:
			bad = bad[:rng.IntN(len(bad))]
		case 1:
			bad = bad[:rng.IntN(len(bad)/512)*512] // at a member's boundary, often
		default:
			bad[rng.IntN(len(bad))] ^= 1 << rng.IntN(8)
		}
		_, got, err := read1(bad)
		if err != nil {
			if code := fault.CodeOf(err); code != fault.Invalid {
				t.Fatalf("%d: %v", i, err)
			}
			refused++
			continue
		}
		if len(got) != len(want) {
			t.Fatalf("%d: %d of %d entries and no error", i, len(got), len(want))
		}
		for name, body := range want {
			if got[name] != body {
				t.Fatalf("%d: %s differs and no error", i, name)
			}
		}
	}
	if refused < 1000 {
		t.Errorf("only %d were refused", refused)
	}
}

// TestNamed: the error names the entry.
func TestNamed(t *testing.T) {
	file, _ := make1(t, 400)
	at := bytes.Index(file, []byte(strings.Repeat("333,", 20)))
	if at < 0 {
		at = bytes.Index(file, []byte("333,333,"))
	}
	file[at+1] ^= 1
	if _, _, err := read1(file); !strings.Contains(fmt.Sprint(err), "文件-333") {
		t.Error(err)
	}
}

// TestOlder: one from before there were sums is read; one that only says so is not.
func TestOlder(t *testing.T) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for name, body := range map[string]string{manifestName: `{"format":3,"version":"v0"}`} {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(body))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if s, _, err := read1(out.Bytes()); err != nil || s.Sealed() {
		t.Errorf("%v %+v", err, s)
	}
	newer, _ := make1(t, 1)
	if _, _, err := read1(bytes.Replace(newer, []byte(`"format":4`), []byte(`"format":3`), 1)); fault.ReasonOf(err) != "BadBackup" {
		t.Error(err)
	}
	if _, _, err := read1(bytes.Replace(newer, []byte(`"format":4`), []byte(`"format":9`), 1)); fault.ReasonOf(err) != "NewerBackup" {
		t.Error(err)
	}
}
