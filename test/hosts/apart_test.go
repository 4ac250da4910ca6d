package hosts

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/history/pgstore/pgtest"
	"github.com/fermi-cluster/fermi/internal/seal"
	"github.com/fermi-cluster/fermi/internal/store/embedded"
	"github.com/fermi-cluster/fermi/test/harness"
	"github.com/fermi-cluster/fermi/test/hosts/world"
)

// servers are those of a lab whose servers share nothing but an etcd, a PostgreSQL and a bucket.
type servers struct {
	*lab
	args    []string // of each
	running map[string]*world.Cmd
	bucket  *bucket
}

// newServers starts the bucket on a5 and servers on a1, a2 and a3.
func newServers(t *testing.T) *servers {
	t.Helper()
	if os.Getenv("FERMI_S3_SERVER") == "" || os.Getenv(pgtest.Variable) == "" {
		t.Fatal("no S3 server or no PostgreSQL is named: run `make e2e-hosts`")
	}
	bin, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/tmp", "fa") // short: sockets lie in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	etcd, err := embedded.Start(t.Context(), embedded.Config{Dir: filepath.Join(dir, "e"), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Close)
	w := world.New(t, world.Config{Zones: []world.Zone{{Name: "a", Hosts: 5}}})
	l := &lab{t: t, w: w, bin: bin, link: w.Host("a1").At(linkPort), agents: map[string]*world.Cmd{}}
	s := &servers{lab: l, running: map[string]*world.Cmd{}}
	l.report()
	s.bucket = newBucket(t, w.Host("a5"))
	operator := filepath.Join(dir, "operator.key")
	if err := os.WriteFile(operator, seal.NewKey(), 0o600); err != nil {
		t.Fatal(err)
	}
	s.args = append(s.bucket.args(), "--insecure", "--etcd-endpoints", etcd.Endpoint(), "--history-url", pgtest.New(t), "--log-level", "info", "--servers-key-file", operator)
	for _, name := range []string{"a1", "a2", "a3"} {
		s.start(name)
	}
	for _, name := range []string{"a1", "a2", "a3"} {
		s.at(name)
	}
	return s
}

func (s *servers) start(name string) {
	s.t.Helper()
	h := s.w.Host(name)
	s.running[name] = s.begin(h, "server.log", nil, append([]string{
		"server", "--data", filepath.Join(h.Disk(), "up"), "--listen", h.At(apiPort), "--peer-listen", h.At(7071), "--link-listen", h.At(linkPort),
	}, s.args...)...)
}

// at has the lab's client speak to one server from now on, once that is ready.
func (s *servers) at(name string) {
	s.t.Helper()
	h := s.w.Host(name)
	harness.Eventually(s.t, "server "+name+" is ready", func() bool {
		raw, err := os.ReadFile(filepath.Join(h.Disk(), "up", "admin.token"))
		if err != nil {
			return false
		}
		if s.cl, err = client.New(client.Config{Server: "http://" + h.At(apiPort), Token: strings.TrimSpace(string(raw))}); err != nil {
			return false
		}
		ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Second)
		defer cancel()
		_, err = s.cl.Get(ctx, api.KindZone, "", "local")
		return err == nil
	})
}

// talk is a task that says a line every so often, and whether its secret is right.
func (s *servers) talk(name string, lines int) {
	s.t.Helper()
	s.submit(name, 1, func(task *api.TrainingTask) {
		task.Spec.Roles[0].Env = []api.EnvVar{{Name: "WORD", ValueFrom: &api.SecretRef{Secret: "word", Key: "it"}}}
	}, "/bin/sh", "-c", fmt.Sprintf(`i=0; while [ $i -lt %d ]; do echo "line $i"; i=$((i+1)); sleep 0.1; done; [ "$WORD" = xyzzy ] && echo "the word is right on $FERMI_NODE"; echo result > "$FERMI_OUTPUT/result.txt"`, lines))
}

// said waits until a task ended well, and looks at what each of these servers has of it.
func (s *servers) said(name string, lines int, servers ...string) {
	s.t.Helper()
	done := s.phase(name, api.PhaseCompleted)
	if done.Status.Attempt > 1 {
		s.t.Errorf("%s was started again: attempt %d", name, done.Status.Attempt)
	}
	for _, server := range servers {
		s.at(server)
		var log string
		harness.Eventually(s.t, "the log of "+name+" is whole at "+server, func() bool {
			log = s.logs(name)
			return strings.Contains(log, "the word is right on a4")
		})
		if n := strings.Count(log, "line "); n != lines {
			s.t.Errorf("%s at %s: %d lines, not %d", name, server, n, lines)
		}
		if outs, err := s.cl.Outputs(s.t.Context(), "default", name); err != nil || len(outs) != 1 {
			s.t.Errorf("outputs of %s at %s: %+v %v", name, server, outs, err)
		}
	}
}

// TestApart: three servers on three machines share nothing but etcd, PostgreSQL and a bucket. A machine joined at one of them; that server dies for good, with
// its disk, while work runs; the bucket is away for a while; keys are changed. Logs, outputs and secrets are the same at every server, and nothing runs twice.
func TestApart(t *testing.T) {
	s := newServers(t)
	s.at("a2")
	if list, err := s.cl.List(t.Context(), api.KindNode, client.ListOptions{}); err != nil || len(list.Items) != 0 {
		t.Fatalf("servers that share no folder have nodes of their own: %+v %v", list, err)
	}
	secret := &api.Secret{Meta: api.Meta{Name: "word", Project: "default"}, Spec: api.SecretSpec{Data: map[string]string{"it": "xyzzy"}}}
	if _, err := s.cl.Create(t.Context(), secret, false); err != nil {
		t.Fatal(err)
	}
	s.join("a4") // with the address of a1, and nobody else's
	s.talk("first", 5)
	s.said("first", 5, "a1", "a2", "a3")

	// A server dies with all it had.
	s.at("a2")
	s.talk("long", 80)
	s.phase("long", api.PhaseRunning)
	s.kill(s.running["a1"])
	if err := os.RemoveAll(filepath.Join(s.w.Host("a1").Disk(), "up")); err != nil {
		t.Fatal(err)
	}
	s.said("long", 80, "a2", "a3")
	s.start("a1")
	s.said("long", 80, "a1")

	// The bucket is away for a while.
	s.talk("patient", 60)
	s.phase("patient", api.PhaseRunning)
	s.kill(s.bucket.cmd)
	time.Sleep(3 * time.Second) // as long as it is away
	s.bucket.open()
	s.said("patient", 60, "a3", "a1")

	// Keys are changed at one server.
	for _, key := range []string{"link-key", "secret-key"} {
		if _, err := s.cl.Rotate(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	s.kill(s.running["a2"])
	s.start("a2")
	s.at("a2")
	s.until("a4", "ready", func(n *api.Node) bool { return n.Status.Ready })
	s.talk("last", 5)
	s.said("last", 5, "a1", "a2", "a3")
}
