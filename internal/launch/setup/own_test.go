package setup

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/launch/inside"
	"github.com/fermi-cluster/fermi/internal/launch/rootfs"
)

// Every number is mapped once, inside and outside, and the user's own is the project's.
func TestIDsOf(t *testing.T) {
	for _, tenant := range []record.Tenant{{UID: 1 << 20, IDs: 1 << 20}, {UID: 5000, IDs: 1 << 21}} {
		for _, own := range []int{0, 1, 2, 1000, record.IDsEach - 2, record.IDsEach - 1} {
			ids, next, seen := idsOf(tenant, own), 0, map[int]bool{}
			for _, m := range ids {
				if m.Inside != next || m.Count < 1 {
					t.Fatalf("%d: %+v", own, ids)
				}
				next += m.Count
				for _, at := range []int{m.Outside, m.Outside + m.Count - 1} {
					if m.Count > 1 && seen[at] || at != tenant.UID && (at < tenant.IDs || at >= tenant.IDs+record.IDsEach) {
						t.Fatalf("%d: %d of %+v", own, at, ids)
					}
					seen[at] = true
				}
			}
			if next != record.IDsEach {
				t.Errorf("%d: %d numbers", own, next)
			}
			if at := outsideOf(ids, own); at != tenant.UID {
				t.Errorf("%d is %d outside, the project is %d", own, at, tenant.UID)
			}
		}
	}
}

// TestWants: a layer begins with what a version keeps of one, once, over the image that it names; what is no digest, or has no place here, is refused.
func TestWants(t *testing.T) {
	const reference, version = "r.example/lab/debian:12", "blake3:1"
	digest := "sha256:" + strings.Repeat("ab", 32)
	l := &layers{at: t.TempDir(), reference: reference}
	if err := l.wants(version, ""); err != nil || l.begins != "" || l.pinned() != reference {
		t.Error(err, l)
	}
	for _, bad := range []string{"sha256:../x", digest + "/", strings.ToUpper(digest), "x"} {
		if err := l.wants(version, bad); fault.ReasonOf(err) != "NoLayer" {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if err := l.wants(version, digest); err != nil || l.pinned() != "r.example/lab/debian@"+digest {
		t.Error(err, l.pinned())
	}
	if err := l.laid(); err != nil {
		t.Fatal(err)
	}
	again := &layers{at: l.at, reference: reference}
	if err := again.wants(version, digest); err != nil || again.begins != "" {
		t.Error("it is laid twice:", err)
	}
	if err := (&layers{reference: reference}).wants(version, digest); fault.ReasonOf(err) != "NoLayerHere" {
		t.Error(err)
	}
}

func outsideOf(ids []inside.IDs, n int) int {
	for _, m := range ids {
		if n >= m.Inside && n < m.Inside+m.Count {
			return m.Outside + n - m.Inside
		}
	}
	return -1
}

func TestCommandOf(t *testing.T) {
	says := &rootfs.Says{Entrypoint: []string{"/entry", "-x"}, Cmd: []string{"serve"}}
	for _, c := range []struct{ args, want []string }{{nil, []string{"/entry", "-x", "serve"}}, {[]string{"other"}, []string{"/entry", "-x", "other"}}} {
		if diff := cmp.Diff(c.want, commandOf(says, c.args)); diff != "" {
			t.Error(diff)
		}
	}
	if got := commandOf(&rootfs.Says{}, nil); len(got) != 0 {
		t.Error(got)
	}
}
