package rootfs

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// by brings an image for a project that may have so many bytes.
func (h *hall) by(owner int, ref string, most int64) (*Image, error) {
	i, err := Bring(h.Context(), h.dir, Want{Reference: ref, Owner: owner, Project: "lab", Most: most})
	if err == nil {
		h.Cleanup(func() { i.Close() })
	}
	return i, err
}

// aged makes all charges of a project ones that were not used for a while.
func (h *hall) aged(owner int, i *Image, by time.Duration) {
	h.Helper()
	key, err := keyOf(i.Digest)
	if err != nil {
		h.Fatal(err)
	}
	at := time.Now().Add(-by)
	if err := os.Chtimes((&purse{dir: h.dir, owner: owner}).path(key), at, at); err != nil {
		h.Fatal(err)
	}
}

// sized pushes an image with one file of so many bytes, which compress to few.
func (h *hall) sized(ref string, bytes int) string {
	return h.push("team/"+ref, nil, layerOf(h.T, entry{name: "f", text: strings.Repeat(ref[:1], bytes)}))
}

func overLimit(t *testing.T, err error) {
	t.Helper()
	if f := fault.From(err); err == nil || f.Code != fault.Full || f.Reason != "ProjectLimit" || !strings.Contains(f.Message.EN, `"lab" may have at most`) ||
		!strings.Contains(f.Hint.EN, "--max-images") || f.Hint.ZH == "" || len(f.Fields) != 1 || f.Fields[0].Path != "project.spec.limits.images" {
		t.Fatalf("%v", err)
	}
}

const mb = 1 << 20

// Each project is charged for the images that it brought, in full; one that goes over its limit is refused by name, before it is
// fetched where that is known by then, and leaves nothing.
func TestCharges(t *testing.T) {
	h := newHall(t)
	a, b := h.sized("a:1", 2*mb), h.sized("b:1", 2*mb)
	first, err := h.by(7, a, 3*mb)
	if err != nil {
		t.Fatal(err)
	}
	got := Charged(h.dir, 7)
	if got < 2*mb || got > 2*mb+mb/4 || got != first.Bytes || Charged(h.dir, 8) != 0 {
		t.Errorf("charged %d and %d for %d", got, Charged(h.dir, 8), first.Bytes)
	}
	if again, err := h.by(7, a, 3*mb); err != nil || Charged(h.dir, 7) != got {
		t.Errorf("the same image counts twice: %v %v", again, err)
	}
	fetched := h.gets.Load()
	if _, err := h.by(8, a, 0); err != nil || h.gets.Load() > fetched+1 || Charged(h.dir, 8) != got { // its configuration is asked for
		t.Errorf("the second project: %d, %v", Charged(h.dir, 8), err)
	}
	// The second grows beyond the limit while it is laid out.
	_, err = h.by(7, b, 3*mb)
	overLimit(t, err)
	if Charged(h.dir, 7) != got {
		t.Errorf("what was refused is charged: %d", Charged(h.dir, 7))
	}
	for _, dir := range []string{dirBlobs, dirRoots} {
		if list, err := os.ReadDir(filepath.Join(h.dir, dir)); err != nil || len(list) > 1 || dir == dirBlobs && len(list) > 0 {
			t.Errorf("%s: it left %v %v", dir, list, err)
		}
	}
	// There is no room for even its layers: nothing is fetched.
	fetched = h.gets.Load()
	_, err = h.by(7, b, got)
	overLimit(t, err)
	if h.gets.Load() > fetched+1 {
		t.Errorf("%d layers were fetched", h.gets.Load()-fetched-1)
	}
	if _, err := h.by(7, a, 1); err != nil {
		t.Errorf("a lower limit takes away what is there: %v", err)
	}
	if _, err := h.by(7, b, 5*mb); err != nil {
		t.Errorf("after the limit was raised: %v", err)
	}
}

// What nobody uses is let go first, the oldest before others; an image that another project has stays for that one.
func TestLetGo(t *testing.T) {
	h := newHall(t)
	refs := []string{h.sized("a:1", 2*mb), h.sized("b:1", 2*mb), h.sized("c:1", 2*mb), h.sized("d:1", 2*mb)}
	var images []*Image
	for n, ref := range refs[:3] {
		i, err := h.by(7, ref, 7*mb)
		if err != nil {
			t.Fatal(err)
		}
		h.aged(7, i, time.Duration(10-n)*time.Hour)
		images = append(images, i)
	}
	if i, err := h.by(8, refs[1], 0); err != nil {
		t.Fatal(err)
	} else if err := i.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := h.by(7, refs[3], 7*mb)
	overLimit(t, err) // all are in use
	for _, i := range images[1:] {
		if err := i.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.by(7, refs[3], 7*mb); err != nil {
		t.Fatal(err)
	}
	there := func(i *Image) bool { _, err := os.Stat(i.Root); return err == nil }
	if !there(images[0]) || !there(images[1]) || !there(images[2]) || Charged(h.dir, 7) > 7*mb || Charged(h.dir, 8) < 2*mb {
		t.Error("who was used last, is in use, or has another owner went")
	}
	// The next is nobody else's: it goes with its bytes.
	if _, err := h.by(7, refs[1], 7*mb); err != nil {
		t.Fatal(err)
	}
	if !there(images[0]) || !there(images[1]) || there(images[2]) {
		t.Error("not the one that nobody uses went")
	}
}

// What one process charged, another holds on; who crashed in between holds nothing.
func TestHeldCharge(t *testing.T) {
	h := newHall(t)
	ref, other := h.sized("a:1", 2*mb), h.sized("b:1", 2*mb)
	i, err := h.by(7, ref, 3*mb)
	if err != nil {
		t.Fatal(err)
	}
	if err := i.Close(); err != nil { // its process ends
		t.Fatal(err)
	}
	_, err = h.by(7, other, 3*mb)
	overLimit(t, err) // it was used a moment ago
	held, err := Held(t.Context(), h.dir, i.Digest, os.Getuid(), 7)
	if err != nil {
		t.Fatal(err)
	}
	h.aged(7, i, time.Hour)
	_, err = h.by(7, other, 3*mb)
	overLimit(t, err)
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := h.by(7, other, 3*mb); err != nil {
		t.Fatal(err)
	}
	if _, err := Held(t.Context(), h.dir, i.Digest, os.Getuid(), 7); err == nil {
		t.Error("what was let go is held")
	}
}

// Many at once never have more than the limit.
func TestChargesAtOnce(t *testing.T) {
	h := newHall(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	came := 0
	for _, name := range []string{"a:1", "b:1", "c:1", "d:1", "e:1", "f:1"} {
		ref := h.sized(name, mb)
		for range 2 { // two replicas of the same task
			wg.Go(func() {
				_, err := h.by(7, ref, 3*mb+mb/2)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					came++
				} else if fault.ReasonOf(err) != "ProjectLimit" {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	if got := Charged(h.dir, 7); got > 3*mb+mb/2 {
		t.Errorf("%d bytes are charged", got)
	}
	roots, err := os.ReadDir(filepath.Join(h.dir, dirRoots))
	if err != nil || len(roots) > 3 {
		t.Errorf("%d images came, %v", len(roots), err)
	}
	t.Log(came, "replicas have their image")
}

// An image of an earlier version, which counted nothing, is measured when it is used.
func TestUncountedImage(t *testing.T) {
	h := newHall(t)
	ref := h.sized("a:1", 2*mb)
	i := h.must(ref)
	if err := i.Close(); err != nil {
		t.Fatal(err)
	}
	place := filepath.Dir(i.Root)
	if err := os.WriteFile(filepath.Join(place, fileAbout), []byte(`{"env":["A=b"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(h.dir, dirOwned)); err != nil {
		t.Fatal(err)
	}
	_, err := h.by(7, ref, mb)
	overLimit(t, err)
	again, err := h.by(7, ref, 3*mb)
	if err != nil || again.Bytes < 2*mb || Charged(h.dir, 7) != again.Bytes || len(again.Env) != 1 {
		t.Errorf("%+v %v", again, err)
	}
	if a, err := readAbout(place); err != nil || a.Bytes != again.Bytes {
		t.Errorf("%+v %v", a, err)
	}
}
