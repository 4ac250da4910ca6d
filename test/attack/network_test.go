package attack

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// listen answers on a port, on every address, and says so.
func listen(port int) string {
	return fmt.Sprintf(`perl -MIO::Socket -e '$| = 1; my $s = IO::Socket::INET->new(Listen => 9, LocalPort => %d, ReuseAddr => 1, Proto => "tcp") or do { print "not bound: $!\n"; exit 1 };
	print "addresses " . join(" ", grep { !/^127/ } split(/\s+/, `+"`hostname -I`"+`)) . "\nbound\n"; while (my $c = $s->accept) { my $l = <$c>; print "heard: $l\n"; print $c "welcome\n"; close $c }'`, port)
}

// reach tries to connect, and says how it went.
func reach(targets ...string) string {
	var b strings.Builder
	for _, at := range targets {
		fmt.Fprintf(&b, `perl -MIO::Socket -e 'exit(IO::Socket::INET->new(PeerAddr => "%[1]s", Timeout => 2) ? 0 : 1)' && echo "reached %[1]s" || echo "closed %[1]s"
`, at)
	}
	return b.String() + "echo tried\n"
}

// TestNetwork: tenants share no network with each other or with the host.
func TestNetwork(t *testing.T) {
	w := invade(t, true)
	victim := shell(other, "service", listen(18080))
	_, err := w.vic.Submit(t.Context(), victim, false)
	w.do(err)
	log := w.says(w.vic, other, "service", "bound")
	_, rest, _ := strings.Cut(log, "addresses ")
	address, _, _ := strings.Cut(rest, "\n")
	address = strings.Fields(address + " ")[0]
	// A listener of the host's on every address, and one on loopback.
	all, err := net.Listen("tcp", "0.0.0.0:0")
	w.do(err)
	defer all.Close()
	port := all.Addr().(*net.TCPAddr).Port
	targets := []string{address + ":18080", "127.0.0.1:18080", w.Addr, fmt.Sprintf("127.0.0.1:%d", port), "169.254.169.254:80"}
	for _, a := range hostAddresses(t) {
		targets = append(targets, fmt.Sprintf("%s:%d", a, port), a+":18080")
	}
	w.launch(shell(lab, "knock", reach(targets...)))
	said := w.says(w.mal, lab, "knock", "tried")
	for _, at := range targets {
		if strings.Contains(said, "reached "+at) {
			t.Errorf("mallory reached %s", at)
		}
		if !strings.Contains(said, "closed "+at) && !strings.Contains(said, "reached "+at) {
			t.Errorf("%s was not tried:\n%s", at, said)
		}
	}
	// The control: the same project reaches it, and so does the host.
	friend := shell(other, "friend", reach(address+":18080"))
	_, err = w.vic.Submit(t.Context(), friend, false)
	w.do(err)
	if said := w.says(w.vic, other, "friend", "tried"); !strings.Contains(said, "reached "+address) {
		t.Errorf("replicas of one project don't reach each other:\n%s", said)
	}
	conn, err := net.DialTimeout("tcp", address+":18080", 5*time.Second)
	if err != nil {
		t.Errorf("the host does not reach a replica: %v", err)
	} else {
		conn.Close()
	}
	w.hold("network")
	t.Run("the API's port while the server is away", func(t *testing.T) { grabPort(t, w) })
}

// grabPort: mallory waits on the API's port, and the operator calls while the server restarts.
func grabPort(t *testing.T, w *world) {
	_, port, _ := net.SplitHostPort(w.Addr)
	script := "until " + strings.ReplaceAll(listen(0), "LocalPort => 0", "LocalPort => "+port) + "; do sleep 0.1; done"
	w.launch(shell(lab, "grab", script))
	w.says(w.mal, lab, "grab", "bound")
	w.Kill()
	out, errs, code := w.run("", "train", "list")
	if code == 0 {
		t.Errorf("somebody answered for the server: %s %s", out, errs)
	}
	w.start()
	w.must("train", "list")
	w.hold("the API's port")
}

// start is the server again.
func (w *world) start() {
	w.t.Helper()
	w.do(w.Start(w.t.Context()))
}

// hostAddresses are those of this machine that are not loopback.
func hostAddresses(t *testing.T) (list []string) {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			list = append(list, n.IP.String())
		}
	}
	return list
}

// log is all that a task printed.
func (w *world) log(project, name string) string {
	w.t.Helper()
	out, errs, code := w.run("", "logs", name, "--project", project)
	if code != 0 {
		w.t.Fatalf("logs of %s: %s", name, errs)
	}
	return out
}

// TestFetch: what a tenant names to be fetched is fetched through its own network, not the host's.
func TestFetch(t *testing.T) {
	w := invade(t, true)
	bait, err := net.Listen("tcp", "127.0.0.1:0")
	w.do(err)
	defer bait.Close()
	came := make(chan string, 64)
	go func() {
		for {
			c, err := bait.Accept()
			if err != nil {
				return
			}
			came <- c.RemoteAddr().String()
			c.Close()
		}
	}()
	at := bait.Addr().String()
	for i, url := range []string{"file://" + w.Dir, w.Dir, "ext::sh -c id"} {
		task := shell(lab, fmt.Sprintf("local-%d", i), "cat admin.token; true")
		task.Spec.Code = &api.Code{Git: &api.Git{URL: url}}
		_, err := w.mal.Submit(t.Context(), task, false)
		w.refused("a repository at "+url, err, "spec.code.git.url")
	}
	for name, url := range map[string]string{"git-http": "http://" + at + "/x.git", "git-ssh": "ssh://git@" + at + "/x.git"} {
		task := shell(lab, name, "true")
		task.Spec.Code = &api.Code{Git: &api.Git{URL: url}}
		if _, err := w.mal.Submit(t.Context(), task, false); err == nil {
			w.ends(w.mal, lab, name)
		}
	}
	image := shell(lab, "image", "true")
	image.Spec.Image = at + "/team/thing:1"
	_, err = w.mal.Submit(t.Context(), image, false)
	w.do(err)
	w.works("meanwhile")
	if done := w.ends(w.mal, lab, "image"); done.Status.Phase != api.PhaseFailed {
		t.Errorf("an image of the host's loopback: %s", done.Status.Phase)
	}
	select {
	case from := <-came:
		t.Errorf("the host's loopback was reached for a tenant, from %s", from)
	default:
	}
	w.hold("fetching")
}
