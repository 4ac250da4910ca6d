package setup

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fermi-cluster/fermi/internal/engine/record"
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
