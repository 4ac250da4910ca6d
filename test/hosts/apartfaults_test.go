package hosts

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/test/harness"
	"github.com/fermi-cluster/fermi/test/hosts/world"
)

var serverNames = []string{"a1", "a2", "a3"}

// leading is the server that leads by what all of them wrote down.
func (s *servers) leading() (name string) {
	s.t.Helper()
	last := -1
	for _, server := range serverNames {
		raw, err := os.ReadFile(filepath.Join(s.w.Host(server).Disk(), "server.log"))
		if err != nil {
			s.t.Fatal(err)
		}
		for line := range strings.Lines(string(raw)) {
			if _, after, ok := strings.Cut(line, "this server leads\""); ok {
				_, after, _ = strings.Cut(after, "epoch=")
				if epoch, err := strconv.Atoi(strings.Fields(after + " ?")[0]); err == nil && epoch > last {
					last, name = epoch, server
				}
			}
		}
	}
	return name
}

// others are the servers but one.
func others(name string) (out []string) {
	for _, s := range serverNames {
		if s != name {
			out = append(out, s)
		}
	}
	return out
}

// serverHarms are what befalls servers that share no folder; each gives the server that suffers, "": none, and how it is mended.
var serverHarms = []struct {
	name string
	do   func(s *servers, random *rand.Rand) (hurt string, mend func())
}{
	{"the leader is killed", func(s *servers, _ *rand.Rand) (string, func()) {
		name := s.leading()
		s.kill(s.running[name])
		return name, func() { s.start(name) }
	}},
	{"a follower is killed", func(s *servers, random *rand.Rand) (string, func()) {
		name := others(s.leading())[random.IntN(2)]
		s.kill(s.running[name])
		return name, func() { s.start(name) }
	}},
	{"the leader's machine stands still", func(s *servers, _ *rand.Rand) (string, func()) {
		h := s.w.Host(s.leading())
		h.Freeze()
		return h.Name(), h.Thaw
	}},
	{"the leader's machine is cut off", func(s *servers, _ *rand.Rand) (string, func()) {
		h := s.w.Host(s.leading())
		h.Cut(world.Both)
		return h.Name(), h.Heal
	}},
	{"the leader's machine is deaf", func(s *servers, _ *rand.Rand) (string, func()) {
		h := s.w.Host(s.leading())
		h.Cut(world.In)
		return h.Name(), h.Heal
	}},
	{"the leader's machine loses power, and its disk", func(s *servers, _ *rand.Rand) (string, func()) {
		h := s.w.Host(s.leading())
		h.PowerOff()
		if err := os.RemoveAll(filepath.Join(h.Disk(), "up")); err != nil {
			s.t.Fatal(err)
		}
		return h.Name(), func() {
			h.Boot()
			s.start(h.Name())
		}
	}},
	{"the bucket is away", func(s *servers, _ *rand.Rand) (string, func()) {
		s.kill(s.bucket.cmd)
		return "", s.bucket.open
	}},
}

// TestApartFaults: three servers that share nothing but etcd, PostgreSQL and a bucket are hurt one after the other, in an order of FERMI_HOSTS_SEED, FERMI_HOSTS_ROUNDS times,
// while a task talks on a fourth machine. Another server takes tasks meanwhile, which run; no task is started twice or lost, and all servers tell the same of each.
func TestApartFaults(t *testing.T) {
	s := newServers(t)
	s.at("a2")
	secret := &api.Secret{Meta: api.Meta{Name: "word", Project: "default"}, Spec: api.SecretSpec{Data: map[string]string{"it": "xyzzy"}}}
	if _, err := s.cl.Create(t.Context(), secret, false); err != nil {
		t.Fatal(err)
	}
	s.join("a4")
	seed := harness.EnvInt("FERMI_HOSTS_SEED", 1)
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	for round := range harness.EnvInt("FERMI_HOSTS_ROUNDS", 1) {
		for _, i := range random.Perm(len(serverHarms)) {
			harm := serverHarms[i]
			before, during := fmt.Sprintf("before-%d-%d", round, i), fmt.Sprintf("during-%d-%d", round, i)
			s.at(serverNames[random.IntN(3)])
			s.talk(before, 60)
			s.phase(before, api.PhaseRunning)
			begun := time.Now()
			hurt, mend := harm.do(s, random)
			s.at(others(hurt)[random.IntN(len(others(hurt)))])
			s.talk(during, 20)
			s.phase(during, api.PhaseRunning)
			t.Logf("seed %d, %s (%s): a task that came then runs after %s", seed, harm.name, hurt, time.Since(begun).Round(100*time.Millisecond))
			mend()
			s.said(before, 60, serverNames...)
			s.said(during, 20, serverNames...)
			if t.Failed() {
				t.Fatalf("%s; FERMI_HOSTS_SEED=%d", harm.name, seed)
			}
		}
	}
}
