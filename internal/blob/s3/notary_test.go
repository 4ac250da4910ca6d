package s3_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/blob/blobtest"
	"github.com/fermi-cluster/fermi/internal/blob/s3"
	"github.com/fermi-cluster/fermi/internal/blob/s3/s3test"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func anything(string, bool) error { return nil }

// notarized is a store without credentials, whose requests a notary proves.
func notarized(t *testing.T, cfg s3.Config, may func(key string, write bool) error) *s3.Store {
	t.Helper()
	n, err := s3.NewNotary(cfg)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Credentials = nil
	cfg.Sign = func(ctx context.Context, r *http.Request) error { return n.Sign(ctx, r, time.Now(), may) }
	return open(t, cfg)
}

// TestNotaryConformance: a store does without credentials all that it does with them.
func TestNotaryConformance(t *testing.T) {
	blobtest.Run(t, func(t *testing.T) blob.Store { return notarized(t, s3test.Server(t), anything) })
}

// TestNotaryAsks: it is asked about each object and each list, and what it refuses does not happen.
func TestNotaryAsks(t *testing.T) {
	cfg := s3test.Server(t)
	mine := notarized(t, cfg, func(key string, write bool) error {
		if strings.HasPrefix(key, "mine/") || !write && strings.HasPrefix(key, "seen/") {
			return nil
		}
		return fault.New(fault.Forbidden, "NotMine", fault.T("No.", "不行。"))
	})
	all := open(t, cfg)
	ctx := t.Context()
	for _, key := range []string{"mine/a", "seen/a", "other/a"} {
		if _, err := all.Put(ctx, key, strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what string, err error, ok bool) {
		if ok != (err == nil) || !ok && !fault.Is(err, fault.Forbidden) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for folder, may := range map[string]struct{ read, write bool }{"mine": {true, true}, "seen": {true, false}, "other": {}} {
		_, err := mine.Put(ctx, folder+"/b", strings.NewReader("y"))
		check("put "+folder, err, may.write)
		r, _, err := mine.Open(ctx, folder+"/a")
		check("open "+folder, err, may.read)
		if r != nil {
			r.Close()
		}
		_, err = mine.List(ctx, folder+"/", "", 10)
		check("list "+folder, err, may.read)
		check("delete "+folder, mine.Delete(ctx, folder+"/a"), may.write)
		check("delete all of "+folder, mine.Delete(ctx, folder+"/"), may.write)
	}
	_, err := mine.List(ctx, "", "", 10)
	check("list everything", err, false)
	if left, err := all.List(ctx, "", "", 10); err != nil || len(left) != 2 {
		t.Errorf("%v %v", left, err)
	}
}

// TestNotaryRefuses: what is no request that a store makes is not signed, whatever may says.
func TestNotaryRefuses(t *testing.T) {
	n, err := s3.NewNotary(s3.Config{
		Endpoint: "https://s3.example", Region: "cn-north-1", Bucket: "b", Prefix: "fermi",
		Credentials: func(context.Context) (string, string, string, error) { return "id", "secret", "token", nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what, method, url, header string
		key                       string // "": it is refused
	}{
		{"an object", "GET", "https://s3.example/b/fermi/task-1/x?x-id=GetObject", "", "task-1/x"},
		{"an object to write", "PUT", "https://s3.example/b/fermi/task-1/x%20y?x-id=PutObject", "", "task-1/x y"},
		{"a list", "GET", "https://s3.example/b?list-type=2&max-keys=10&prefix=fermi%2Ftask-1%2F", "", "task-1/"},
		{"another bucket", "GET", "https://s3.example/c/fermi/task-1/x", "", ""},
		{"another folder", "GET", "https://s3.example/b/other/task-1/x", "", ""},
		{"a bucket by its host", "GET", "https://c.s3.example/b/fermi/task-1/x", "", ""},
		{"a list of all", "GET", "https://s3.example/b?list-type=2", "", ""},
		{"a list of half a name", "GET", "https://s3.example/b?list-type=2&prefix=fermi%2Ftask-1", "", ""},
		{"two prefixes", "GET", "https://s3.example/b?list-type=2&prefix=fermi%2Ftask-1%2F&prefix=fermi%2F", "", ""},
		{"upwards", "GET", "https://s3.example/b/fermi/task-1/../task-2/x", "", ""},
		{"upwards, written otherwise", "GET", "https://s3.example/b/fermi/task-1/%2e%2e/task-2/x", "", ""},
		{"a slash, written otherwise", "GET", "https://s3.example/b/fermi/task-1%2Fx", "", ""},
		{"the bucket's policy", "PUT", "https://s3.example/b?policy", "", ""},
		{"who may read an object", "PUT", "https://s3.example/b/fermi/task-1/x?acl", "", ""},
		{"many deletions", "POST", "https://s3.example/b?delete", "", ""},
		{"the bucket", "DELETE", "https://s3.example/b", "", ""},
		{"a copy from elsewhere", "PUT", "https://s3.example/b/fermi/task-1/x", "X-Amz-Copy-Source", ""},
		{"an object for all to read", "PUT", "https://s3.example/b/fermi/task-1/x", "X-Amz-Acl", ""},
	} {
		r, err := http.NewRequest(c.method, c.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD")
		if c.header != "" {
			r.Header.Set(c.header, "/b/fermi/task-2/x")
		}
		asked := ""
		err = n.Sign(t.Context(), r, time.Unix(1, 0), func(key string, _ bool) error { asked = key; return nil })
		if asked != c.key || (err == nil) != (c.key != "") || (r.Header.Get("Authorization") != "") != (c.key != "") {
			t.Errorf("%s: asked for %q, %v", c.what, asked, err)
		}
		if c.key != "" && r.Header.Get("X-Amz-Security-Token") != "token" {
			t.Errorf("%s: %v", c.what, r.Header)
		}
	}
}
