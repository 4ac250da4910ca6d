package endpoint

import (
	"crypto/tls"
	"net"
	"strings"
	"testing"
)

func keyring(keys ...string) func() [][]byte {
	return func() (out [][]byte) {
		for _, k := range keys {
			out = append(out, []byte(k))
		}
		return out
	}
}

func pinned(t *testing.T, key string) *tls.Config {
	t.Helper()
	target, err := Target("10.0.0.7:1", []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := ClientTLS(target)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// TestResume: a session begun with one server goes on with another that has the same key; after the key changed it is begun anew,
// and nothing is said to a server that has not the key that the target names.
func TestResume(t *testing.T) {
	client := pinned(t, "one")
	for _, want := range []bool{false, true} {
		if got, err := shake(t, ServerTLS(keyring("one")), client); err != nil || got != want {
			t.Errorf("resumed %v, want %v: %v", got, want, err)
		}
	}
	rotated := ServerTLS(keyring("two", "one"))
	if _, err := shake(t, rotated, client); err == nil {
		t.Error("it speaks to a server of another key")
	}
	if got, err := shake(t, rotated, pinned(t, "two")); err != nil || got {
		t.Errorf("resumed %v: %v", got, err)
	}
}

// shake makes a connection, reads a byte over it, with which the ticket has come, and says whether the session was resumed.
func shake(t *testing.T, server, client *tls.Config) (resumed bool, err error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	said := make(chan error, 1)
	go func() {
		conn, err := tls.NewListener(l, server).Accept()
		if err == nil {
			_, err = conn.Write([]byte{1})
			defer conn.Close()
		}
		said <- err
	}()
	defer l.Close()
	conn, err := tls.Dial("tcp", l.Addr().String(), client)
	if err != nil {
		<-said
		return false, err
	}
	defer conn.Close()
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		return false, err
	}
	return conn.ConnectionState().DidResume, <-said
}

// TestTargets: what is not on a unix socket says whose key to expect, or nobody dials it.
func TestTargets(t *testing.T) {
	secure, err := Target("10.0.0.7:7072", []byte("key"))
	if err != nil {
		t.Fatal(err)
	}
	var r Road
	for _, good := range []string{"unix:///run/x.sock", secure} {
		to, err := Split(good)
		if err != nil {
			t.Fatal(good, err)
		}
		if _, err := r.To(to, nil); err != nil {
			t.Error(good, err)
		}
	}
	for _, bad := range []string{"", "unix://x", "tls://10.0.0.7:7072", "tls://10.0.0.7:7072#abc", strings.Replace(secure, ":7072", "", 1), "tls:///a:1" + secure[strings.Index(secure, "#"):]} {
		if to, err := Split(bad); err == nil {
			t.Errorf("%q is taken as %+v", bad, to)
		}
	}
	plain, err := Split("10.0.0.7:7072")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.To(plain, nil); err == nil {
		t.Error("a token would travel in the open")
	}
}
