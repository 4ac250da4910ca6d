package cgroup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	mountsV1 = `31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:5 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
`
	selfV1 = "9:name=systemd:/system.slice/a.service\n4:memory:/a/b\n1:cpu,cpuacct:/\n0::/system.slice/a.service\n"
)

func TestParseHierarchies(t *testing.T) {
	for _, tc := range []struct {
		name, mounts, self string
		want               []hierarchy
	}{
		{"v1 and an empty unified tree", mountsV1, selfV1, []hierarchy{
			{controllers: []string{"cpu", "cpuacct"}, mount: "/sys/fs/cgroup/cpu,cpuacct", own: "/sys/fs/cgroup/cpu,cpuacct"},
			{controllers: []string{"memory"}, mount: "/sys/fs/cgroup/memory", own: "/sys/fs/cgroup/memory/a/b"},
			{controllers: []string{"name=systemd"}, mount: "/sys/fs/cgroup/systemd", own: "/sys/fs/cgroup/systemd/system.slice/a.service"},
			{unified: true, mount: "/sys/fs/cgroup/unified", own: "/sys/fs/cgroup/unified/system.slice/a.service"},
		}},
		{
			"v2 session", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "0::/user.slice/s.scope\n",
			[]hierarchy{{unified: true, mount: "/sys/fs/cgroup", own: "/sys/fs/cgroup/user.slice/s.scope"}},
		},
		{
			"container without its own namespace", "30 23 0:26 /docker/1 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n", "4:memory:/docker/1/x\n",
			[]hierarchy{{controllers: []string{"memory"}, mount: "/sys/fs/cgroup/memory", own: "/sys/fs/cgroup/memory/x"}},
		},
		{
			"outside of our namespace", "30 23 0:26 /../.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "0::/../../other\n",
			[]hierarchy{{unified: true, mount: "/sys/fs/cgroup", own: "/sys/fs/cgroup"}},
		},
		{
			"blank in a path", `30 23 0:26 / /a\040b rw - cgroup2 cgroup2 rw` + "\n", "0::/\n",
			[]hierarchy{{unified: true, mount: "/a b", own: "/a b"}},
		},
		{"nonsense", "a b c\n - - -\n1 2 3 4 5 6 - cgroup x\n", ":::\n1:2\n", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := parseHierarchies(tc.mounts, tc.self)
			if d := cmp.Diff(tc.want, got, cmp.AllowUnexported(hierarchy{})); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestAncestors(t *testing.T) {
	h := hierarchy{mount: "/m", own: "/m/a/b"}
	if d := cmp.Diff([]string{"/m", "/m/a", "/m/a/b"}, h.ancestors()); d != "" {
		t.Error(d)
	}
}

func FuzzParseHierarchies(f *testing.F) {
	f.Add(mountsV1, selfV1)
	f.Add(`30 23 0:26 /.. /a\040b\1 rw - cgroup2 cgroup2 rw`, "0::/../x\n")
	f.Fuzz(func(t *testing.T, mounts, self string) {
		for _, h := range parseHierarchies(mounts, self) {
			if h.own != h.mount && !strings.HasPrefix(h.own, strings.TrimSuffix(h.mount, "/")+"/") {
				t.Errorf("own %q is not below mount %q", h.own, h.mount)
			}
			if dirs := h.ancestors(); dirs[len(dirs)-1] != h.own {
				t.Errorf("ancestors %q do not end at %q", dirs, h.own)
			}
		}
	})
}

func TestSettings(t *testing.T) {
	roots := map[string]string{"cpu": "/c", "memory": "/m", "pids": "/p"}
	limits := Limits{CPU: 1500, Memory: 1 << 30, Pids: 9}
	for _, tc := range []struct {
		name    string
		support Support
		limits  Limits
		want    []setting
	}{
		{"v1", Support{Version: 1, Roots: roots}, limits, []setting{
			{"/c", "cpu.cfs_period_us", "100000", true},
			{"/c", "cpu.cfs_quota_us", "150000", false},
			{"/m", "memory.limit_in_bytes", "1073741824", false},
			{"/m", "memory.memsw.limit_in_bytes", "1073741824", true},
		}},
		{"v2", Support{Version: 2, Roots: roots}, limits, []setting{
			{"/c", "cpu.max", "150000 100000", false},
			{"/m", "memory.max", "1073741824", false},
			{"/m", "memory.swap.max", "0", true},
		}},
		{"tiny", Support{Version: 2, Roots: roots}, Limits{CPU: 1}, []setting{{"/c", "cpu.max", "1000 100000", false}}},
		{"no limits", Support{Version: 1, Roots: roots}, Limits{}, nil},
		{"no controllers", Support{Version: 2, Roots: nil}, limits, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, settings(tc.support, tc.limits), cmp.AllowUnexported(setting{})); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]bool{
		"task-01-worker-0-1": true, "a": true, "A_b.c": true,
		"": false, ".": false, "..": false, ".x": false, "-x": false, "a/b": false, "a\x00": false, "名": false,
		strings.Repeat("x", 201): false,
	} {
		if got := ValidName(name); got != want {
			t.Errorf("ValidName(%q) = %v", name, got)
		}
	}
}

func TestSaveLoad(t *testing.T) {
	dir := t.TempDir()
	if g, err := Load(dir); g != nil || err != nil {
		t.Fatalf("Load of nothing = %v, %v", g, err)
	}
	want := &Group{Version: 1, Paths: []string{"/sys/fs/cgroup/memory/fermi/x", "/sys/fs/cgroup/cpu/fermi/x"}}
	if err := want.Save(dir); err != nil {
		t.Fatal(err)
	}
	got, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, bad := range []string{
		``, `{`, `{}`, `{"version":3,"paths":["/a/fermi/x"]}`, `{"version":1,"paths":[]}`,
		`{"version":2,"paths":["/a/fermi/x","/b/fermi/x"]}`, `{"version":1,"paths":["/a/x"]}`,
		`{"version":1,"paths":["/"]}`, `{"version":1,"paths":["/a/fermi/.."]}`, `{"version":1,"paths":["a/fermi/x"]}`,
		`{"version":1,"paths":["/a/fermi/x","/a/fermi/y"]}`, `{"version":1,"paths":["/a/fermi/x"],"more":1}`,
		`{"version":1,"paths":["/a/../fermi/x"]}`, `{"version":1,"paths":["/a/guests/x"]}`, `{"version":1,"paths":["/guests/x"]}`,
		`{"version":1,"paths":["/a/fermi/h/guests/x","/b/fermi/i/guests/x"]}`, `{"version":1,"paths":["/a/fermi/h/guests/x","/b/fermi/x"]}`,
	} {
		if g, err := parse([]byte(bad)); err == nil {
			t.Errorf("%s: accepted as %+v", bad, g)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"version":1,"paths":["/a/fermi/x","/b/fermi/x"]}`))
	f.Add([]byte(`{"version":2,"paths":["/a/fermi/.."]}`))
	f.Add([]byte(`{"version":1,"paths":["/a/fermi/h/guests/x","/b/fermi/h/guests/x"]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := parse(data)
		if err != nil {
			return
		}
		for _, p := range g.Paths {
			above := filepath.Dir(p)
			if filepath.Base(above) == guests {
				above = filepath.Dir(filepath.Dir(above))
			}
			if filepath.Clean(p) != p || filepath.Base(above) != folder {
				t.Errorf("accepted %q", p)
			}
		}
	})
}

func TestNilGroup(t *testing.T) {
	var g *Group
	if pids, err := g.Pids(); len(pids) != 0 || err != nil {
		t.Error(pids, err)
	}
	if err := g.Kill(9); err != nil {
		t.Error(err)
	}
	if err := g.Remove(); err != nil {
		t.Error(err)
	}
	if _, _, _, err := g.Usage(); err == nil {
		t.Error("a group that is none was measured")
	}
}

func TestOwnLimits(t *testing.T) {
	dir := t.TempDir()
	write := func(file, value string) {
		t.Helper()
		file = filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(value+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("two/a/memory.max", "1000")
	write("two/a/cpu.max", "max 100000")
	write("two/a/b/memory.max", "max")
	write("two/a/b/cpu.max", "150000 100000")
	write("two/a/b/pids.max", "7")
	write("one/memory.limit_in_bytes", "9223372036854771712")
	write("one/x/memory.limit_in_bytes", "2000")
	write("one/x/cpu.cfs_quota_us", "-1")
	write("one/x/cpu.cfs_period_us", "100000")
	two := hierarchy{unified: true, mount: dir + "/two", own: dir + "/two/a/b"}
	one := hierarchy{mount: dir + "/one", own: dir + "/one/x"}
	if d := cmp.Diff(Limits{CPU: 1500, Memory: 1000, Pids: 7}, ownLimits([]hierarchy{two, one})); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(Limits{Memory: 2000}, ownLimits([]hierarchy{one})); d != "" {
		t.Error(d)
	}
	if !limitedV2(dir+"/two/a") || !limitedV2(dir+"/two/a/b") || limitedV2(dir+"/two") {
		t.Error("limitedV2 is wrong")
	}
	if !limitedV1(dir+"/one/x") || limitedV1(dir+"/one") {
		t.Error("limitedV1 is wrong")
	}
}
