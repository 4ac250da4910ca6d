package conf

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// Doors are addresses beside the API's.
type Doors struct {
	SSH       string // where people reach their environments; "": nowhere
	Content   string // the domain whose names lead browsers to ports of environments, beside localhost's
	Peers     string // for the other servers
	Launchers string // for launchers that are not on this machine; "": none is
	Pods      Pods   // whose launchers are among them
}

// TLS is how the API is served over HTTPS: by a certificate in files, or by one that it makes itself.
type TLS struct {
	Cert, Key  string
	SelfSigned bool
}

// Store is where the bytes of a cluster lie whose servers share no folder: logs, outputs, code, images, datasets and models.
type Store struct {
	Place       string // a folder or s3://bucket/prefix; "": in the shared folder
	Endpoint    string
	Region      string
	Credentials string // file
	Key         string // file: by it the servers' keys are sealed
}

// Stores are where bytes lie that are not in the shared folder.
type Stores struct {
	// Checkpoints is a folder or s3://bucket/prefix; the credentials are in a file.
	Checkpoints            string
	CheckpointsEndpoint    string
	CheckpointsRegion      string
	CheckpointsCredentials string
	CheckpointsRate        int

	Store Store
}

// Settings is everything `fermi up` and `fermi server` can be told.
type Settings struct {
	Data          string
	Shared        string
	Listen        string
	Demo          bool
	ZonesFile     string
	EtcdEndpoints []string
	EtcdCA        string
	EtcdCert      string
	EtcdKey       string
	EtcdPrefix    string
	Doors         Doors
	Zone          string
	LogLevel      string
	LogFormat     string
	ArchiveAfter  time.Duration
	Quantum       time.Duration
	Processes     int
	Network       string
	TenantUIDs    Range // zero: from the machine's book
	TenantBook    string
	Folders       []string // NAME=PATH or NAME=PATH:ro
	TLS           TLS
	Envs          Envs
	Hosts         []string
	Insecure      bool

	// HistoryURL never holds a password: Validate refuses it.
	HistoryURL          string
	HistoryPasswordFile string

	Stores

	// sources says where each value came from, by key.
	sources map[string]string
}

// entry is a row of the table of settings: one place for key, flag, variable, default and help.
type entry struct {
	key     string // in the file; the flag replaces '.' by '-', the variable '.' and '-' by '_'
	initial string
	help    string
	// at is where the value lives.
	at func(*Settings) value
}

var table = []entry{
	{"data", "", "folder of all state (default $HOME/.fermi)", func(s *Settings) value { return (*text)(&s.Data) }},
	{"shared", "", "folder that several servers of one machine share: engine, blobs, history (default: data)", func(s *Settings) value { return (*text)(&s.Shared) }},
	{"listen", "127.0.0.1:7070", "address of the API", func(s *Settings) value { return (*text)(&s.Listen) }},
	{"demo", "false", "start with the demo topology", func(s *Settings) value { return (*flagged)(&s.Demo) }},
	{"zones", "", "file with Zone and Node manifests to start with", func(s *Settings) value { return (*text)(&s.ZonesFile) }},
	{"etcd.endpoints", "", "endpoints of an etcd outside; embedded when empty", func(s *Settings) value { return (*texts)(&s.EtcdEndpoints) }},
	{"etcd.ca", "", "file with the authority of etcd's certificates; the system's when empty", func(s *Settings) value { return (*text)(&s.EtcdCA) }},
	{"etcd.cert", "", "certificate file with which etcd knows this server; read again for each connection", func(s *Settings) value { return (*text)(&s.EtcdCert) }},
	{"etcd.key", "", "key file of etcd.cert", func(s *Settings) value { return (*text)(&s.EtcdKey) }},
	{"etcd.prefix", "/fermi/v1/", "beginning of every key, for several clusters in one etcd outside", func(s *Settings) value { return (*text)(&s.EtcdPrefix) }},
	{"peer.listen", "127.0.0.1:0", "address where the other servers reach this one (mutual TLS by the shared link.key)", func(s *Settings) value { return (*text)(&s.Doors.Peers) }},
	{"link.listen", "", "address where launchers reach this server that are not on its machine (TLS by link.key); none where empty", func(s *Settings) value { return (*text)(&s.Doors.Launchers) }},
	{"cluster", "", "zone that is a Kubernetes cluster, as ZONE=KUBECONFIG or ZONE=KUBECONFIG:NAMESPACE, with in-cluster for the server's own pod (namespace fermi when not given); may be given several times", func(s *Settings) value { return (*repeated)(&s.Doors.Pods.Clusters) }},
	{"pods.image", "", "image with fermi as its entry point, which brings the launcher into pods; replicas that name no image run in it", func(s *Settings) value { return (*text)(&s.Doors.Pods.Image) }},
	{"pods.account", "", "service account of pods (default: default)", func(s *Settings) value { return (*text)(&s.Doors.Pods.Account) }},
	{"pods.devices", "", "what extended resources of clusters are, beyond those that are known, as RESOURCE=VENDOR:TYPE", func(s *Settings) value { return (*texts)(&s.Doors.Pods.Devices) }},
	{"pods.rdma", "", "extended resource of clusters' fast network, such as rdma/hca: pods with accelerators get one where their node has it", func(s *Settings) value { return (*text)(&s.Doors.Pods.RDMA) }},
	{"pods.cache", "", "folder of clusters' nodes that datasets and models are kept in, so that each node fetches a version once: DIR or DIR=SIZE, where SIZE is what a project may have there (default: half of the disk)", func(s *Settings) value { return (*text)(&s.Doors.Pods.Cache) }},
	{"pods.grow", "", "zones of clusters that have an autoscaler: it is shown what waits for nodes, and nothing is refused there because the cluster is too small now", func(s *Settings) value { return (*texts)(&s.Doors.Pods.Grow) }},
	{"pods.gangs", "", "queues of clusters' own that gangs are handed over to, as ZONE=kueue:LOCALQUEUE or ZONE=volcano:QUEUE: their pods are made when they were let in", func(s *Settings) value { return (*texts)(&s.Doors.Pods.Gangs) }},
	{"pods.storage", "", "storage class of the homes of environments (default: the cluster's)", func(s *Settings) value { return (*text)(&s.Doors.Pods.StorageClass) }},
	{"zone", "", "zone this server stands in: it measures the latency to servers of other zones", func(s *Settings) value { return (*text)(&s.Zone) }},
	{"history.url", "", "postgres://USER@HOST/DATABASE?sslmode=verify-full of a PostgreSQL for history; SQLite in shared when empty", func(s *Settings) value { return (*address)(&s.HistoryURL) }},
	{"history.password.file", "", "file with the password for history.url; without it PGPASSFILE and PGPASSWORD count", func(s *Settings) value { return (*text)(&s.HistoryPasswordFile) }},
	{"checkpoints.store", "", "store that all nodes reach, for checkpoints: a folder, or s3://BUCKET/PREFIX; without it they stay on the nodes' disks", func(s *Settings) value { return (*address)(&s.Checkpoints) }},
	{"checkpoints.endpoint", "", "address of the S3 server; Amazon's when empty", func(s *Settings) value { return (*address)(&s.CheckpointsEndpoint) }},
	{"checkpoints.region", "us-east-1", "region of the S3 server", func(s *Settings) value { return (*text)(&s.CheckpointsRegion) }},
	{"checkpoints.credentials.file", "", "file with {\"accessKeyId\": …, \"secretAccessKey\": …, \"sessionToken\": …}; read again for each request", func(s *Settings) value { return (*text)(&s.CheckpointsCredentials) }},
	{"checkpoints.rate", "256", "most MiB a second that one replica writes there; 0 is no limit", func(s *Settings) value { return (*number)(&s.CheckpointsRate) }},
	{"bytes.store", "", "where logs, outputs, code, images, datasets and models lie: a folder, or s3://BUCKET/PREFIX; in shared when empty. With an etcd outside the servers then share no folder, and run nothing on their own machines", func(s *Settings) value { return (*address)(&s.Store.Place) }},
	{"bytes.endpoint", "", "address of the store's S3 server; Amazon's when empty", func(s *Settings) value { return (*address)(&s.Store.Endpoint) }},
	{"bytes.region", "us-east-1", "region of the store's S3 server", func(s *Settings) value { return (*text)(&s.Store.Region) }},
	{"bytes.credentials.file", "", "file with the store's credentials, as checkpoints.credentials.file", func(s *Settings) value { return (*text)(&s.Store.Credentials) }},
	{"servers.key.file", "", "file of 32 random bytes that every server is given: the keys that servers have in common are kept in etcd, sealed with it", func(s *Settings) value { return (*text)(&s.Store.Key) }},
	{"log.level", "info", "debug, info, warn or error", func(s *Settings) value { return (*text)(&s.LogLevel) }},
	{"log.format", "text", "text or json", func(s *Settings) value { return (*text)(&s.LogFormat) }},
	{"archive.after", "10m", "how long finished work stays live before it goes to the archive", func(s *Settings) value { return (*span)(&s.ArchiveAfter) }},
	{"quantum", "10m", "how long a task stands as it is before an equal may have its place, or before it grows", func(s *Settings) value { return (*span)(&s.Quantum) }},
	{"processes", "0", "how many processes virtual nodes may start; 0: as many as fit the memory", func(s *Settings) value { return (*number)(&s.Processes) }},
	{"network", "auto", "addresses for replicas, each in a network namespace of its own, when run as root: auto, private IPv4 addresses such as 100.64.0.0/14, or host for the machine's own network, which makes it single-tenant", func(s *Settings) value { return (*text)(&s.Network) }},
	{"tenants.uids", "", "FIRST-LAST: uids for projects, one each, when run as root; without it each project gets 65536 that no project of this machine has", func(s *Settings) value { return &s.TenantUIDs }},
	{"tenants.book", "/var/lib/fermi", "folder where all instances of Fermi on this machine write down whose uids are whose", func(s *Settings) value { return (*text)(&s.TenantBook) }},
	{"folder", "", "folder of this machine that projects may be granted, as NAME=PATH or NAME=PATH:ro; may be given several times", func(s *Settings) value { return (*repeated)(&s.Folders) }},
	{"tls.cert", "", "certificate file for HTTPS", func(s *Settings) value { return (*text)(&s.TLS.Cert) }},
	{"tls.key", "", "key file for HTTPS", func(s *Settings) value { return (*text)(&s.TLS.Key) }},
	{"tls.self-signed", "false", "HTTPS with a certificate made in the data folder; its fingerprint is printed", func(s *Settings) value { return (*flagged)(&s.TLS.SelfSigned) }},
	{"hosts", "", "further names of this server, which a browser may use in its address; others are refused", func(s *Settings) value { return (*texts)(&s.Hosts) }},
	{"ssh", "", "address where people reach their environments by SSH, such as 0.0.0.0:2222; none where empty", func(s *Settings) value { return (*text)(&s.Doors.SSH) }},
	{"content.domain", "", "domain whose names lead browsers to ports of environments: PORT--ENV--PROJECT.DOMAIN; beside it PORT--ENV--PROJECT.localhost does", func(s *Settings) value { return (*text)(&s.Doors.Content) }},
	{"images.allow", "", "registries, or the beginnings of names, that images of tasks, environments, services and builds may have, such as registry.example.org/team; any where empty", func(s *Settings) value { return (*texts)(&s.Envs.Images) }},
	{"env.idle.after", "", "after how long without activity environments are stopped whose owners say nothing, such as 2h; none where empty", func(s *Settings) value { return (*amount)(&s.Envs.IdleAfter) }},
	{"env.idle.most", "", "the longest time without activity that an environment may choose before it is stopped, such as 24h; any where empty", func(s *Settings) value { return (*amount)(&s.Envs.IdleMost) }},
	{"env.most.accelerators", "8", "most accelerators of an environment, at most 64", func(s *Settings) value { return (*number)(&s.Envs.Accelerators) }},
	{"env.most.cpu", "128", "most cores of an environment", func(s *Settings) value { return (*number)(&s.Envs.Cores) }},
	{"env.most.memory", "1Ti", "most memory of an environment", func(s *Settings) value { return (*amount)(&s.Envs.Memory) }},
	{"env.most.storage", "2Ti", "most that the home of an environment may hold", func(s *Settings) value { return (*amount)(&s.Envs.Storage) }},
	{"env.user.running", "8", "how many environments a user whose quota says nothing may have running; 0 is no bound", func(s *Settings) value { return (*number)(&s.Envs.UserRunning) }},
	{"env.user.devices", "16", "how many accelerators a user's running environments may have, where the user's quota says nothing; 0 is no bound", func(s *Settings) value { return (*number)(&s.Envs.UserDevices) }},
	{"env.user.storage", "4Ti", "how much the homes of a user's environments may hold, where the user's quota says nothing; 0 is no bound", func(s *Settings) value { return (*amount)(&s.Envs.UserStorage) }},
	{"insecure", "false", "allow listening beyond loopback without TLS", func(s *Settings) value { return (*flagged)(&s.Insecure) }},
}

func (e entry) flag() string { return strings.ReplaceAll(e.key, ".", "-") }
func (e entry) variable() string {
	return "FERMI_" + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(e.key))
}

// configFlag and configVariable name the settings file itself.
const (
	configFlag     = "config"
	configVariable = "FERMI_CONFIG"
)

// maxFile bounds the settings file.
const maxFile = 1 << 20

// Bind declares the flags. Their values count only where they were given.
func Bind(flags *pflag.FlagSet) {
	flags.String(configFlag, "", "file of settings in YAML (or $"+configVariable+")")
	for _, e := range table {
		help := e.help + " ($" + e.variable() + ")"
		if _, ok := e.at(&Settings{}).(*flagged); ok {
			flags.Bool(e.flag(), e.initial == "true", help)
			continue
		}
		if _, ok := e.at(&Settings{}).(*repeated); ok {
			flags.StringArray(e.flag(), nil, help)
			continue
		}
		flags.String(e.flag(), e.initial, help)
	}
}

// Load puts the settings together: defaults, file, environment, flags, each over the one before.
// environ is os.Environ's form; flags were bound by Bind, or nil. Every fault comes at once.
func Load(flags *pflag.FlagSet, environ []string) (*Settings, error) {
	s := &Settings{sources: map[string]string{}}
	env := map[string]string{}
	for _, kv := range environ {
		if k, v, ok := strings.Cut(kv, "="); ok {
			env[k] = v
		}
	}
	var faults []fault.Field
	set := func(e entry, v, source string) {
		if err := e.at(s).set(v); err != nil {
			faults = append(faults, fault.Field{Path: e.key, Message: fault.T("%[1]s: %[2]s (from %[4]s)", "%[1]s：%[3]s（来自 %[4]s）", strconv.Quote(v), err.EN, err.ZH, source)})
			return
		}
		s.sources[e.key] = source
	}
	for _, e := range table {
		set(e, e.initial, "default")
	}
	if home := env["HOME"]; home != "" {
		s.Data = filepath.Join(home, ".fermi")
	}
	fromFile, path, err := readFile(flags, env)
	if err != nil {
		return nil, err
	}
	for _, e := range table {
		if v, ok := fromFile[e.key]; ok {
			set(e, v, "file "+path)
			delete(fromFile, e.key)
		}
		if v, ok := env[e.variable()]; ok {
			set(e, v, "$"+e.variable())
		}
		if flags != nil && flags.Changed(e.flag()) {
			v := flags.Lookup(e.flag()).Value
			text := v.String()
			if many, ok := v.(pflag.SliceValue); ok {
				text = strings.Join(many.GetSlice(), ",")
			}
			set(e, text, "--"+e.flag())
		}
	}
	for _, key := range sorted(fromFile) {
		faults = append(faults, fault.Field{Path: key, Message: fault.T("There is no such setting (in %s); known are %s.", "没有这个设置项（位于 %s），可用的有 %s。", path, strings.Join(keys(), ", "))})
	}
	return s, refuse(append(faults, s.Validate()...))
}

func refuse(faults []fault.Field) error {
	if len(faults) == 0 {
		return nil
	}
	first := faults[0]
	return fault.New(fault.Invalid, "BadSettings", fault.T("%[1]d settings are refused; the first is %[2]s: %[3]s", "%[1]d 个设置项有误，第一个是 %[2]s：%[4]s", len(faults), first.Path, first.Message.EN, first.Message.ZH)).WithFields(faults...)
}

// readFile is the settings file as key → text; nothing when none was named.
func readFile(flags *pflag.FlagSet, env map[string]string) (map[string]string, string, error) {
	path := env[configVariable]
	if flags != nil && flags.Changed(configFlag) {
		path = flags.Lookup(configFlag).Value.String()
	}
	if path == "" {
		return nil, "", nil
	}
	data, err := readBounded(path)
	if err != nil {
		return nil, "", fault.New(fault.Invalid, "BadSettings", fault.T("Can't read the settings file %s.", "无法读取设置文件 %s。", strconv.Quote(path))).Because(err)
	}
	out, err := parse(data)
	if err != nil {
		return nil, "", fault.New(fault.Invalid, "BadSettings", fault.T("The settings file %s is not a YAML object of settings.", "设置文件 %s 不是由设置项组成的 YAML 对象。", strconv.Quote(path))).Because(err)
	}
	return out, path, nil
}

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("more than %d bytes", maxFile)
	}
	return data, nil
}

// parse flattens {log: {level: debug}} to log.level.
func parse(data []byte) (map[string]string, error) {
	var tree map[string]any
	if err := yaml.UnmarshalStrict(data, &tree); err != nil {
		return nil, err
	}
	out := map[string]string{}
	return out, flatten(out, "", tree)
}

func flatten(out map[string]string, prefix string, tree map[string]any) error {
	for k, v := range tree {
		key := prefix + k
		if sub, ok := v.(map[string]any); ok {
			if err := flatten(out, key+".", sub); err != nil {
				return err
			}
			continue
		}
		if _, twice := out[key]; twice {
			return fmt.Errorf("%s is given twice", strconv.Quote(key))
		}
		switch v := v.(type) {
		case nil:
			out[key] = ""
		case []any:
			parts := make([]string, len(v))
			for i, e := range v {
				parts[i] = fmt.Sprint(e)
			}
			out[key] = strings.Join(parts, ",")
		case float64:
			out[key] = strconv.FormatFloat(v, 'f', -1, 64)
		default:
			out[key] = fmt.Sprint(v)
		}
	}
	return nil
}

// Source says where the value of a key came from: default, file PATH, $VARIABLE or --flag.
func (s *Settings) Source(key string) string { return s.sources[key] }

// Print writes the settings as YAML, each with its source as a comment.
func (s *Settings) Print(w io.Writer) error {
	group := ""
	for _, e := range table {
		head, leaf, nested := strings.Cut(e.key, ".")
		indent := ""
		if nested {
			if head != group {
				if _, err := fmt.Fprintf(w, "%s:\n", head); err != nil {
					return err
				}
			}
			group, indent = head, "  "
		} else {
			group, leaf = "", e.key
		}
		if _, err := fmt.Fprintf(w, "%s%s: %s # %s\n", indent, leaf, e.at(s).yaml(), oneLine(s.sources[e.key])); err != nil {
			return err
		}
	}
	return nil
}

func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029 {
			return ' '
		}
		return r
	}, s)
}

func keys() []string {
	out := make([]string, len(table))
	for i, e := range table {
		out[i] = e.key
	}
	return out
}

func sorted(m map[string]string) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

// exists says whether a named file can be seen; other trouble than absence shows when it is read.
func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
