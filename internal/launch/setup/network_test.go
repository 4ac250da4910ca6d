package setup

import "testing"

func TestHostsFile(t *testing.T) {
	got := hostsFile("127.0.0.1 localhost\n127.0.1.1 box box.example\n10.0.0.7\tbox box.example files # ours\n::1 ip6-x\n\n# none\n10.0.0.8 db\nnonsense\n", "100.64.4.2", "box", "worker-0")
	want := "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n100.64.4.2 box worker-0\n10.0.0.7 files\n10.0.0.8 db\n"
	if got != want {
		t.Errorf("%q", got)
	}
}

func TestReachable(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "nameserver 127.0.0.53\n": false, "nameserver ::1": false, "search x\nnameserver 127.0.0.53\nnameserver 9.9.9.9\n": true, "nameserver fe80::1%eth0\n": true, "nameserver x": false,
	} {
		if got := reachable(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
