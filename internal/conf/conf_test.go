package conf

import (
	"bytes"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/pflag"

	"github.com/fermi-cluster/fermi/internal/fault"
)

func load(t *testing.T, file string, environ []string, args ...string) (*Settings, error) {
	t.Helper()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	Bind(flags)
	if file != "" {
		path := filepath.Join(t.TempDir(), "fermi.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--config", path)
	}
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return Load(flags, append([]string{"HOME=/home/li"}, environ...))
}

var defaultEnvs = Envs{Accelerators: 8, Cores: 128, Memory: "1Ti", Storage: "2Ti", UserRunning: 8, UserDevices: 16, UserStorage: "4Ti"}

var defaultStores = Stores{CheckpointsRegion: "us-east-1", CheckpointsRate: 256, Store: Store{Region: "us-east-1"}}

func TestDefaults(t *testing.T) {
	got, err := load(t, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	want := &Settings{Data: "/home/li/.fermi", Listen: "127.0.0.1:7070", LogLevel: "info", LogFormat: "text", ArchiveAfter: 10 * time.Minute, Quantum: 10 * time.Minute, Network: NetworkAuto, TenantBook: "/var/lib/fermi", EtcdPrefix: "/fermi/v1/", Doors: Doors{Peers: "127.0.0.1:0"}, Stores: defaultStores, Envs: defaultEnvs}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Settings{})); diff != "" {
		t.Error(diff)
	}
	if _, err := Load(nil, []string{"HOME=/home/li"}); err != nil {
		t.Error("without flags:", err)
	}
}

func TestOrder(t *testing.T) {
	file := "data: /file\nlog: {level: warn, format: json}\nlisten: 127.0.0.1:1\netcd: {endpoints: ['https://a:1', 'https://b:1']}\nprocesses: 12\n"
	got, err := load(t, file, []string{"FERMI_LOG_LEVEL=debug", "FERMI_LISTEN=127.0.0.1:2"}, "--listen", "127.0.0.1:3", "--demo")
	if err != nil {
		t.Fatal(err)
	}
	want := &Settings{
		Data: "/file", Listen: "127.0.0.1:3", LogLevel: "debug", LogFormat: "json", Demo: true, Processes: 12,
		ArchiveAfter: 10 * time.Minute, Quantum: 10 * time.Minute, Network: NetworkAuto, TenantBook: "/var/lib/fermi", EtcdEndpoints: []string{"https://a:1", "https://b:1"}, EtcdPrefix: "/fermi/v1/", Doors: Doors{Peers: "127.0.0.1:0"}, Stores: defaultStores, Envs: defaultEnvs,
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Settings{})); diff != "" {
		t.Error(diff)
	}
	for key, source := range map[string]string{"listen": "--listen", "log.level": "$FERMI_LOG_LEVEL", "archive.after": "default"} {
		if got.Source(key) != source {
			t.Errorf("%s from %q, want %q", key, got.Source(key), source)
		}
	}
	if !strings.HasPrefix(got.Source("data"), "file /") {
		t.Error(got.Source("data"))
	}
}

// TestPrint: what is printed is a settings file that gives the same settings.
func TestPrint(t *testing.T) {
	first, err := load(t, "", []string{"FERMI_DATA=/a # \"b\"", "FERMI_ETCD_ENDPOINTS=https://a:1,https://b:1"}, "--archive-after", "90s")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := first.Print(&out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "archive:\n  after: 1m30s # --archive-after\n") {
		t.Error(out.String())
	}
	again, err := load(t, out.String(), nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if diff := cmp.Diff(first, again, cmpopts.IgnoreUnexported(Settings{})); diff != "" {
		t.Error(diff)
	}
}

func TestRefusals(t *testing.T) {
	tests := []struct {
		name, file string
		env, args  []string
		keys       []string
	}{
		{"beyond loopback", "", nil, []string{"--listen", "0.0.0.0:7070"}, []string{"listen"}},
		{"every interface", "", nil, []string{"--listen", ":7070"}, []string{"listen"}},
		{"a name", "", nil, []string{"--listen", "node-1:7070"}, []string{"listen"}},
		{"no port", "", nil, []string{"--listen", "127.0.0.1"}, []string{"listen"}},
		{"large port", "", nil, []string{"--listen", "127.0.0.1:70000"}, []string{"listen"}},
		{"unknown key", "lgo: {level: debug}\n", nil, nil, []string{"lgo.level"}},
		{"all at once", "log: {level: loud, format: xml}\nprocesses: -1\n", []string{"FERMI_ARCHIVE_AFTER=10", "FERMI_DEMO=perhaps"}, nil,
			[]string{"demo", "archive.after", "log.level", "log.format", "processes"}},
		{"demo and zones", "", nil, []string{"--demo", "--zones", os.Args[0]}, []string{"zones"}},
		{"zones absent", "", nil, []string{"--zones", "/nowhere/zones.yaml"}, []string{"zones"}},
		{"half of TLS", "", nil, []string{"--tls-cert", os.Args[0]}, []string{"tls.key"}},
		{"TLS absent", "", nil, []string{"--tls-cert", os.Args[0], "--tls-key", "/nowhere/key"}, []string{"tls.key"}},
		{"etcd", "", nil, []string{"--etcd-endpoints", "etcd:2379"}, []string{"etcd.endpoints"}},
		{"etcd, far and open", "", nil, []string{"--etcd-endpoints", "unix:///run/etcd,http://etcd:2379"}, []string{"etcd.endpoints"}},
		{"etcd, open to tasks", "", nil, []string{"--etcd-endpoints", "http://127.0.0.1:2379,http://localhost:2379,http://[::1]:2379"}, []string{"etcd.endpoints", "etcd.endpoints", "etcd.endpoints"}},
		{"network", "", nil, []string{"--network", "10.0.0.0/8"}, []string{"network"}},
		{"network, of everybody", "", nil, []string{"--network", "8.8.0.0/16"}, []string{"network"}},
		{"network, an address", "", nil, []string{"--network", "10.1.0.1/16"}, []string{"network"}},
		{"network, IPv6", "", nil, []string{"--network", "fd00::/16"}, []string{"network"}},
		{"network, empty", "", nil, []string{"--network", ""}, []string{"network"}},
		{"etcd, half of TLS", "", nil, []string{"--etcd-endpoints", "https://etcd:2379", "--etcd-cert", os.Args[0]}, []string{"etcd.key"}},
		{"etcd, TLS absent", "", nil, []string{"--etcd-endpoints", "https://etcd:2379", "--etcd-ca", "/nowhere/ca"}, []string{"etcd.ca"}},
		{"etcd, TLS unused", "", nil, []string{"--etcd-endpoints", "unix:///run/etcd", "--etcd-ca", os.Args[0]}, []string{"etcd.ca"}},
		{"etcd, prefix", "", nil, []string{"--etcd-prefix", "fermi"}, []string{"etcd.prefix"}},
		{"peer, everywhere", "", nil, []string{"--peer-listen", "0.0.0.0:7071"}, []string{"peer.listen"}},
		{"peer, no port", "", nil, []string{"--peer-listen", "10.0.0.7"}, []string{"peer.listen"}},
		{"zone", "", nil, []string{"--zone", "北京-1"}, []string{"zone"}},
		{"history, no URL", "", nil, []string{"--history-url", "db"}, []string{"history.url"}},
		{"history, no host", "", nil, []string{"--history-url", "postgres:///fermi"}, []string{"history.url"}},
		{"history, SQLite", "", nil, []string{"--history-url", "sqlite:///x"}, []string{"history.url"}},
		{"history, password", "", nil, []string{"--history-url", "postgres://u:hunter2@localhost/x"}, []string{"history.url"}},
		{"history, password as option", "history: {url: 'postgres://u@localhost/x?password=hunter2'}\n", nil, nil, []string{"history.url"}},
		{"history, password in no URL", "", []string{"FERMI_HISTORY_URL=postgres://u:hunter2@h:port/" + strings.Repeat("x", 5000)}, nil, []string{"history.url"}},
		{"history, twice the host", "", nil, []string{"--history-url", "postgres://u@localhost/x?host=/a&host=b"}, []string{"history.url"}},
		{"history, far and not proven", "", nil, []string{"--history-url", "postgres://u@db.example/x?sslmode=require"}, []string{"history.url"}},
		{"history, far and half proven", "", nil, []string{"--history-url", "postgres://u@10.0.0.5/x?sslmode=verify-ca"}, []string{"history.url"}},
		{"history, one of two far", "", nil, []string{"--history-url", "postgres://u@/x?host=localhost,db.example&sslmode=require"}, []string{"history.url"}},
		{"history, far and open", "", nil, []string{"--history-url", "postgres://u@db/x?host=/tmp,db.example&sslmode=prefer"}, []string{"history.url"}},
		{"history, password file absent", "", nil, []string{"--history-url", "postgres://u@localhost/x", "--history-password-file", "/nowhere"}, []string{"history.password.file"}},
		{"history, password file alone", "", nil, []string{"--history-password-file", os.Args[0]}, []string{"history.password.file"}},
		{"a folder without a path", "", nil, []string{"--folder", "team"}, []string{"folder"}},
		{"a folder with a relative path", "", []string{"FERMI_FOLDER=team=data"}, nil, []string{"folder"}},
		{"a folder named twice", "folder: [a=/srv/x, a=/srv/y]\n", nil, nil, []string{"folder"}},
		{"a folder around the data", "", nil, []string{"--data", "/srv/a/b", "--folder", "x=/srv/a"}, []string{"folder"}},
		{"a folder in the data", "", nil, []string{"--data", "/srv/a", "--folder", "x=/srv/a/b:ro"}, []string{"folder"}},
		{"everything", "", nil, []string{"--folder", "x=/"}, []string{"folder", "folder"}},
		{"everybody's", "", nil, []string{"--folder", "x=/tmp", "--folder", "y=/var", "--folder", "z=/proc/self"}, []string{"folder", "folder", "folder"}},
		{"uids of people", "", nil, []string{"--tenants-uids", "999-5000"}, []string{"tenants.uids"}},
		{"uids the wrong way round", "tenants: {uids: 5000-4000}\n", nil, nil, []string{"tenants.uids"}},
		{"uids too large", "", nil, []string{"--tenants-uids", "5000-2147483647"}, []string{"tenants.uids"}},
		{"no uids", "", nil, []string{"--tenants-uids", "5000"}, []string{"tenants.uids"}},
		{"archive", "", nil, []string{"--archive-after", "-1s"}, []string{"archive.after"}},
		{"quantum", "", nil, []string{"--quantum", "0s"}, []string{"quantum"}},
		{"no home", "", []string{"HOME="}, nil, []string{"data"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, err := load(t, tc.file, tc.env, tc.args...)
			var e *fault.Error
			if !errors.As(err, &e) || e.Reason != "BadSettings" {
				t.Fatal(err)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("a password is repeated: %v", err)
			}
			var got []string
			for _, f := range e.Fields {
				if strings.Contains(f.Message.EN+f.Message.ZH, "hunter2") {
					t.Errorf("a password is repeated: %+v", f)
				}
				got = append(got, f.Path)
				if f.Message.EN == "" || f.Message.ZH == "" || strings.Contains(f.Message.EN+f.Message.ZH, "%!") {
					t.Errorf("bad text %+v", f)
				}
			}
			if diff := cmp.Diff(tc.keys, got); diff != "" {
				t.Errorf("%s\n%v", diff, err)
			}
		})
	}
}

func TestInsecureAndTLS(t *testing.T) {
	for _, args := range [][]string{
		{"--insecure"}, {"--insecure=true"}, {"--tls-cert", os.Args[0], "--tls-key", os.Args[0]},
	} {
		if _, err := load(t, "", nil, append(args, "--listen", "0.0.0.0:7070")...); err != nil {
			t.Errorf("%v: %v", args, err)
		}
	}
}

func TestHistory(t *testing.T) {
	for _, args := range [][]string{
		{"postgres://u@localhost:5433/x"}, {"postgresql://u@[::1]/x"}, {"postgres://u@/x?host=/run/postgresql"}, {"postgres://u@db.example/x?sslmode=verify-full"},
		{"postgres://u@db.example/x", "--insecure"}, {"postgres://u@127.0.0.1/x", "--history-password-file", os.Args[0]},
	} {
		s, err := load(t, "", nil, append([]string{"--history-url"}, args...)...)
		if err != nil || s.HistoryURL != args[0] {
			t.Errorf("%v: %v", args, err)
		}
	}
}

func FuzzHistoryURL(f *testing.F) {
	for _, s := range []string{"postgres://u@h/x", "postgres://u:p@h,i/x?host=/a,b&sslmode=require", "postgres:%zz", "postgres://h/?password="} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		hosts, _, password, ok := takeApart(raw)
		if !ok {
			return
		}
		if u, err := url.Parse(raw); err != nil || len(hosts) == 0 || !password && strings.Contains(u.User.String(), ":") {
			t.Fatalf("%q: %v %v %v", raw, hosts, password, err)
		}
	})
}

func TestFileTrouble(t *testing.T) {
	if _, err := Load(nil, []string{"HOME=/h", "FERMI_CONFIG=/nowhere/fermi.yaml"}); fault.ReasonOf(err) != "BadSettings" {
		t.Error(err)
	}
	for _, file := range []string{"- a\n", "a: 1\na: 2\n", "log: {level: a}\nlog.level: b\n", strings.Repeat("#", maxFile+1)} {
		if _, err := load(t, file, nil); fault.ReasonOf(err) != "BadSettings" {
			t.Errorf("%.20q: %v", file, err)
		}
	}
}

func TestLoopback(t *testing.T) {
	for host, want := range map[string]bool{"127.0.0.1": true, "127.9.9.9": true, "::1": true, "localhost": true, "::ffff:127.0.0.1": true, "": false, "0.0.0.0": false, "::": false, "10.0.0.1": false, "localhost.evil": false} {
		if Loopback(host) != want {
			t.Errorf("Loopback(%q) = %t", host, !want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"log: {level: debug}", "a: [1, x, 2.5]", "a: {b: {c: null}}", "log.level: a\nlog: {level: b}", "[", "&a [*a]"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		out, err := parse(data)
		if err != nil {
			return
		}
		for k, v := range out {
			for _, e := range table {
				if e.key == k {
					_ = e.at(&Settings{}).set(v)
				}
			}
		}
	})
}

func TestDoorSettings(t *testing.T) {
	for _, tc := range []struct {
		env  []string
		want string // the refused key; "" is accepted
	}{
		{[]string{"FERMI_LISTEN=0.0.0.0:7070"}, "listen"},
		{[]string{"FERMI_LISTEN=0.0.0.0:7070", "FERMI_TLS_SELF_SIGNED=true"}, ""},
		{[]string{"FERMI_TLS_SELF_SIGNED=true", "FERMI_TLS_CERT=/dev/null", "FERMI_TLS_KEY=/dev/null"}, "tls.self-signed"},
		{[]string{"FERMI_HOSTS=fermi.example,node-1"}, ""},
		{[]string{"FERMI_HOSTS=https://fermi.example"}, "hosts"},
		{[]string{"FERMI_HOSTS=fermi.example:7070"}, "hosts"},
		{[]string{"FERMI_HOSTS=*.example"}, "hosts"},
	} {
		_, err := Load(nil, append(tc.env, "HOME=/home/li"))
		got := ""
		if err != nil {
			got = fault.From(err).Fields[0].Path
		}
		if got != tc.want {
			t.Errorf("%v: %q is refused (%v), want %q", tc.env, got, err, tc.want)
		}
	}
}
