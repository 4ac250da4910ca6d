package embedded

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fermi-cluster/fermi/internal/fault"
)

func folder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "f")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "e")
}

func begin(t testing.TB, dir string) *Server {
	t.Helper()
	s, err := Start(t.Context(), Config{Dir: dir, UnsafeNoFsync: true})
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	t.Cleanup(s.Close)
	return s
}

func put(t testing.TB, c *clientv3.Client, key, value string) int64 {
	t.Helper()
	resp, err := c.Put(t.Context(), key, value)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Header.Revision
}

func all(t testing.TB, c *clientv3.Client) map[string]string {
	t.Helper()
	resp, err := c.Get(t.Context(), "/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]string{}
	for _, kv := range resp.Kvs {
		m[string(kv.Key)] = string(kv.Value)
	}
	return m
}

func TestRestartKeepsEverything(t *testing.T) {
	dir := folder(t)
	want := map[string]string{}
	for round := range 3 {
		s := begin(t, dir)
		for i := range 20 {
			k, v := fmt.Sprintf("/k/%d/%d", round, i), strings.Repeat("v", 100*i)
			put(t, s.Client(), k, v)
			want[k] = v
		}
		if diff := cmp.Diff(want, all(t, s.Client())); diff != "" {
			t.Fatal(diff)
		}
		s.Close()
		select {
		case err := <-s.Err():
			t.Fatalf("an orderly end is no error: %v", err)
		default:
		}
	}
}

func TestSocketIsTheOnlyDoor(t *testing.T) {
	before := tcpListeners(t)
	dir := folder(t)
	s := begin(t, dir)
	if diff := cmp.Diff(before, tcpListeners(t)); diff != "" {
		t.Errorf("TCP listeners appeared: %s", diff)
	}
	if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("folder: %v, %v", st.Mode(), err)
	}
	throughSocket(t, s)
}

// tcpListeners are the inodes of this process's sockets that listen on TCP.
func tcpListeners(t *testing.T) map[string]bool {
	t.Helper()
	mine := map[string]bool{}
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc here")
	}
	for _, fd := range fds {
		if l, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(l, "socket:[") {
			mine[strings.Trim(l, "socket:[]")] = true
		}
	}
	found := map[string]bool{}
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		raw, _ := os.ReadFile(table)
		for _, line := range strings.Split(string(raw), "\n") {
			if f := strings.Fields(line); len(f) > 9 && f[3] == "0A" && mine[f[9]] {
				found[f[9]] = true
			}
		}
	}
	return found
}

func throughSocket(t *testing.T, s *Server) {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Endpoint()}, DialTimeout: 10 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	put(t, s.Client(), "/x", "1")
	if diff := cmp.Diff(map[string]string{"/x": "1"}, all(t, c)); diff != "" {
		t.Error(diff)
	}
}

func TestLongFolderName(t *testing.T) {
	dir := filepath.Join(folder(t), strings.Repeat("long-name/", 14))
	throughSocket(t, begin(t, dir))
}

func TestStartEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s, err := Start(ctx, Config{Dir: folder(t), UnsafeNoFsync: true})
	if err == nil {
		s.Close() // it was quicker than the context: fine as well
		return
	}
	if fault.ReasonOf(err) != "Canceled" {
		t.Fatal(err)
	}
}

func TestBackupRestore(t *testing.T) {
	src := begin(t, folder(t))
	for i := range 50 {
		put(t, src.Client(), fmt.Sprintf("/k/%d", i), strings.Repeat("x", 1000))
	}
	rev := put(t, src.Client(), "/last", "one")
	var copied bytes.Buffer
	if err := Backup(t.Context(), src.Client(), &copied); err != nil {
		t.Fatal(err)
	}
	want := all(t, src.Client())
	file := filepath.Join(t.TempDir(), "backup")
	if err := os.WriteFile(file, copied.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	var last int64 = rev
	for range 2 { // the same backup again must not bring old revisions back
		dir := folder(t)
		if err := Restore(file, dir); err != nil {
			t.Fatal(err)
		}
		dst := begin(t, dir)
		if diff := cmp.Diff(want, all(t, dst.Client())); diff != "" {
			t.Fatal(diff)
		}
		put(t, dst.Client(), "/new", "two")
		now := put(t, dst.Client(), "/new", "three")
		if now <= last+1 || now > 1<<53 {
			t.Errorf("revision %d after %d", now, last)
		}
		last = now
		resp := <-dst.Client().Watch(t.Context(), "/", clientv3.WithPrefix(), clientv3.WithRev(rev))
		if resp.CompactRevision == 0 {
			t.Errorf("a watch from an older life must be told to look anew: %+v", resp)
		}
		if err := Restore(file, dir); fault.ReasonOf(err) != "FolderNotEmpty" {
			t.Errorf("restore over a store: %v", err)
		}
	}
}

func TestRestoreRefusesBadBackups(t *testing.T) {
	src := begin(t, folder(t))
	put(t, src.Client(), "/k", "v")
	var copied bytes.Buffer
	if err := Backup(t.Context(), src.Client(), &copied); err != nil {
		t.Fatal(err)
	}
	good := copied.Bytes()
	flipped := bytes.Clone(good)
	flipped[len(flipped)/2] ^= 1
	for name, raw := range map[string][]byte{
		"empty": nil, "short": good[:len(good)-1000], "flipped": flipped, "text": []byte(strings.Repeat("hello ", 1000)),
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t)
			file := filepath.Join(t.TempDir(), "backup")
			if err := os.WriteFile(file, raw, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := Restore(file, dir); fault.ReasonOf(err) != "BadBackup" {
				t.Errorf("got %v", err)
			}
			if left, _ := os.ReadDir(filepath.Dir(dir)); len(left) != 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// filled is a stopped store with something in it.
func filled(t testing.TB) string {
	t.Helper()
	dir := folder(t)
	s := begin(t, dir)
	for i := range 200 {
		put(t, s.Client(), fmt.Sprintf("/k/%d", i), strings.Repeat(fmt.Sprint(i), 500))
	}
	s.Close()
	return dir
}

func edit(t testing.TB, path string, change func([]byte) []byte) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, change(raw), 0o600); err != nil {
		t.Fatal(err)
	}
}

func lastWAL(t testing.TB, dir string) string {
	t.Helper()
	names, err := walFiles(filepath.Join(dir, "member", "wal"))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	return filepath.Join(dir, "member", "wal", names[len(names)-1])
}

func TestDamage(t *testing.T) {
	db := func(dir string) string { return filepath.Join(dir, "member", "snap", "db") }
	wal := func(dir string) string { return lastWAL(t, dir) }
	garble := func(from, n int) func([]byte) []byte {
		return func(raw []byte) []byte {
			for i := from; i < from+n; i++ {
				raw[i] ^= 0xa5
			}
			return raw
		}
	}
	cut := func(n int) func([]byte) []byte { return func(raw []byte) []byte { return raw[:n] } }
	cases := map[string]struct {
		file   func(dir string) string
		change func([]byte) []byte
	}{
		"log cut short":          {wal, cut(20000)},
		"log cut to nothing":     {wal, cut(0)},
		"log garbled":            {wal, garble(30000, 100)},
		"log with a hole":        {wal, func(raw []byte) []byte { clear(raw[30000:60000]); return raw }},
		"log begins with noise":  {wal, garble(0, 200)},
		"db cut short":           {db, cut(8192)},
		"db cut inside the meta": {db, cut(100)},
		"db without meta pages":  {db, func(raw []byte) []byte { clear(raw[:8192]); return raw }},
		"db garbled": {db, func(raw []byte) []byte {
			for i := 2 * 4096; i < len(raw); i += 64 {
				raw[i] ^= 0x5a
			}
			return raw
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dir := filled(t)
			file := c.file(dir)
			edit(t, file, c.change)
			before := digest(t, dir)
			s, err := Start(t.Context(), Config{Dir: dir, UnsafeNoFsync: true})
			if err == nil {
				s.Close()
				t.Fatal("started on damaged files")
			}
			f := fault.From(err)
			if f.Reason != "StoreDamaged" || !strings.Contains(f.Message.EN, file) || !strings.Contains(f.Message.ZH, file) || f.Hint.IsZero() {
				t.Errorf("got %v; hint %v", err, f.Hint)
			}
			if diff := cmp.Diff(before, digest(t, dir)); diff != "" {
				t.Errorf("the folder was changed: %s", diff)
			}
		})
	}
}

func TestMissingLog(t *testing.T) {
	dir := filled(t)
	if err := os.RemoveAll(filepath.Join(dir, "member", "wal")); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), Config{Dir: dir, UnsafeNoFsync: true}); fault.ReasonOf(err) != "StoreDamaged" {
		t.Fatal(err)
	}
}

// A crash leaves the last record half written. That one was never acknowledged: no damage.
func TestTornTailIsNoDamage(t *testing.T) {
	dir := filled(t)
	want := 200
	file := lastWAL(t, dir)
	end := walEnd(t, file)
	edit(t, file, func(raw []byte) []byte {
		// A record's length of 1000 with 100 bytes behind it.
		copy(raw[end:], []byte{0xe8, 3, 0, 0, 0, 0, 0, 0})
		return raw[:end+108]
	})
	s := begin(t, dir)
	if got := len(all(t, s.Client())); got != want {
		t.Errorf("%d of %d keys", got, want)
	}
}

// walEnd is where the records end and the preallocated zeros begin.
func walEnd(t *testing.T, file string) int {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	end := len(bytes.TrimRight(raw, "\x00"))
	return (end + 7) &^ 7
}

func digest(t testing.TB, dir string) map[string]string {
	t.Helper()
	sums := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		sums[path] = fmt.Sprintf("%x", sha256.Sum256(raw))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sums
}
