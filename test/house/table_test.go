package house

import "strings"

// row is one layer, or a part of one with its own rights.
type row struct {
	name string
	// packages are the paths under the module; "x/..." is x and all below.
	packages []string
	// may are the paths it may import beside the standard library and other people's modules.
	may []string
}

var (
	foundation = []string{
		"internal/clock", "internal/fault", "internal/id", "internal/fsm", "internal/run", "internal/conf", "internal/telemetry",
		"internal/accept", "internal/seal", "internal/cores", "internal/slot", "internal/pattern",
	}
	vocabulary = []string{"api/v1", "api/v1/activity", "api/v1/devenv", "api/v1/serving", "api/v1/steady", "api/v1/terminal", "api/v1/card", "api/v1/hold", "api/v1/restored", "api/v1/roundtrip", "api/v1/moment", "api/v1/joined", "api/v1/quota", "api/v1/mount", "api/v1/lending", "api/v1/asset", "api/v1/image", "api/v1/where", "api/v1/spot", "api/v1/array", "api/v1/booking", "api/v1/shape", "api/v1/way"}
	// ports are what layers above know of state, past, bytes and hands: the ports themselves and
	// what is written over them without knowing a technology.
	ports = []string{
		"internal/store", "internal/history", "internal/blob", "internal/blob/logbook", "internal/blob/sealed", "internal/engine", "internal/engine/record",
	}
	judgement = []string{"sched/...", "internal/recipe", "internal/diagnose", "internal/preflight", "internal/selection", "internal/health", "internal/idle"}
	below4    = join(foundation, vocabulary, judgement, ports)
	// serverKernel is what all rooms of the server share: words, limits, the store, who may do what, and a request.
	serverKernel = []string{"internal/server/refuse", "internal/server/limit", "internal/server/truth", "internal/server/access", "internal/server/rest"}
)

// table is the one of the style page, row by row. The first row that names a package counts.
var table = []row{
	{"0 foundation", foundation, []string{"internal/fault", "internal/pattern"}},
	{"1 vocabulary, the form of manifests", []string{"api/v1/tree"}, foundation},
	{"1 vocabulary, amounts", []string{"api/v1/quantity"}, join(foundation, []string{"api/v1/tree"})},
	{"1 vocabulary, replicas that were given up", []string{"api/v1/hold", "api/v1/spot"}, nil},
	{"1 vocabulary, machines that joined", []string{"api/v1/joined"}, foundation},
	{"1 vocabulary, what JSON looks like", []string{"api/v1/shape"}, foundation},
	{"1 vocabulary, signs of work", []string{"api/v1/activity"}, foundation},
	{"1 vocabulary, what is mounted where", []string{"api/v1/mount"}, foundation},
	{"1 vocabulary, moments by two clocks", []string{"api/v1/moment"}, []string{"api/v1/quantity"}},
	{"1 vocabulary, where work would rather stand", []string{"api/v1/where"}, join(foundation, []string{"api/v1/quantity"})},
	{"1 vocabulary, how much one may have", []string{"api/v1/quota"}, join(foundation, []string{"api/v1/quantity"})},
	{"1 vocabulary, how far zones are apart", []string{"api/v1/roundtrip"}, foundation},
	{"1 vocabulary, ways between zones", []string{"api/v1/way"}, foundation},
	{"1 vocabulary, the health of devices", []string{"api/v1/card"}, foundation},
	{"1 vocabulary, kinds and languages with a package of their own", []string{"api/v1/array", "api/v1/asset", "api/v1/booking", "api/v1/devenv", "api/v1/image", "api/v1/restored", "api/v1/serving", "api/v1/steady", "api/v1/terminal"}, join(foundation, []string{"api/v1", "api/v1/activity", "api/v1/lending", "api/v1/mount", "api/v1/quota", "api/v1/shape", "api/v1/spot", "api/v1/steady"})},
	{"1 vocabulary, who runs inside whom", []string{"api/v1/lending"}, nil},
	{"1 vocabulary", vocabulary, join(foundation, []string{"api/v1/tree", "api/v1/quantity", "api/v1/card", "api/v1/hold", "api/v1/terminal", "api/v1/roundtrip", "api/v1/moment", "api/v1/joined", "api/v1/lending", "api/v1/mount", "api/v1/quota", "api/v1/where", "api/v1/spot", "api/v1/way"})},
	{"2 judgement", []string{"sched/..."}, join(foundation, vocabulary, []string{"sched/..."})},
	{"2 judgement, how frameworks start", []string{"internal/recipe"}, join(foundation, vocabulary)},
	{"2 judgement, why ranks fail", []string{"internal/diagnose"}, foundation},
	{"2 judgement, environments as nodes", []string{"internal/selection"}, join(foundation, vocabulary, []string{"internal/recipe"})},
	{"2 judgement, whether anybody works there", []string{"internal/idle"}, join(foundation, vocabulary)},
	{"2 judgement, whether devices are well", []string{"internal/health"}, join(foundation, vocabulary)},
	{"2 judgement, what must hold before they do", []string{"internal/preflight"}, join(foundation, vocabulary)},

	{"3 store", []string{"internal/store"}, join(foundation, vocabulary)},
	{"3 store, embedded etcd", []string{"internal/store/embedded"}, join(foundation, vocabulary, []string{"internal/store"})},
	{"3 store, what is no object", []string{"internal/store/safe"}, join(foundation, vocabulary)},
	{"3 store, for tests", []string{"internal/store/storetest"}, join(foundation, vocabulary, []string{"internal/store", "internal/store/embedded"})},
	{"3 history", []string{"internal/history"}, join(foundation, vocabulary)},
	{"3 history, adapters and their suite", []string{"internal/history/..."}, join(foundation, vocabulary, []string{"internal/history"})},
	{"3 blob", []string{"internal/blob"}, join(foundation, vocabulary)},
	{"3 blob, a failing disk for tests", []string{"internal/blob/folder/faultfs"}, join(foundation, vocabulary, []string{"internal/blob", "internal/blob/folder"})},
	{"3 blob, a server for tests", []string{"internal/blob/s3/s3test"}, join(foundation, vocabulary, []string{"internal/blob", "internal/blob/s3"})},
	{"3 blob, adapters and what stands on the port", []string{"internal/blob/..."}, join(foundation, vocabulary, []string{"internal/blob"})},
	{"3 buckets that people name", []string{"internal/bucket"}, join(foundation, vocabulary)},
	{"3 homes as files of a version", []string{"internal/homecopy"}, join(foundation, vocabulary)},
	{"3 engine", []string{"internal/engine"}, join(foundation, vocabulary)},
	{"3 engine, records", []string{"internal/engine/record"}, join(foundation, vocabulary, []string{"internal/engine"})},
	{"3 engine, the machine's groups", []string{"internal/engine/cgroup", "internal/engine/disk"}, join(foundation, vocabulary)},
	{"3 engine, the machine's network", []string{"internal/engine/network"}, join(foundation, vocabulary, []string{"internal/engine/record"})},
	{"3 engine, the machine's way to others", []string{"internal/engine/tunnel"}, foundation},
	{"3 engine, the machine's parts", []string{"internal/engine/inventory"}, join(foundation, vocabulary, []string{
		"internal/engine", "internal/engine/record", "internal/engine/cgroup",
	})},
	{"3 engine, what devices say of themselves", []string{"internal/engine/sensor"}, join(foundation, vocabulary)},
	{"3 engine, processes of the host", []string{"internal/engine/hostengine"}, join(foundation, vocabulary, []string{
		"internal/engine", "internal/engine/record", "internal/engine/cgroup", "internal/engine/inventory", "internal/engine/network",
	})},
	{"3 engine, on machines that joined", []string{"internal/engine/agentengine"}, join(foundation, vocabulary, []string{"internal/engine"})},
	{"3 engine, who lets a kubelet into registries", []string{"internal/engine/kubeengine/pull"}, join(foundation, vocabulary)},
	{"3 engine, pods", []string{"internal/engine/kubeengine"}, join(foundation, vocabulary, []string{"internal/engine", "internal/engine/record", "internal/engine/kubeengine/pull"})},
	{"3 engine, queues of clusters", []string{"internal/engine/kubeengine/keeper"}, join(foundation, vocabulary, []string{"internal/engine", "internal/engine/kubeengine"})},
	{"3 engine, a cluster for tests", []string{"internal/engine/kubeengine/kubetest"}, nil},
	{"3 engine, in memory", []string{"internal/engine/fakeengine"}, join(foundation, vocabulary, []string{"internal/engine"})},
	{"3 engine, several by zone, the one of now", []string{"internal/engine/router", "internal/engine/current"}, join(foundation, vocabulary, []string{"internal/engine"})},
	{"3 engine, the suite of its adapters", []string{"internal/engine/enginetest"}, join(foundation, vocabulary, []string{"internal/engine"})},

	{"4 reconcile", []string{"internal/reconcile"}, below4},
	{"4 link, where servers are", []string{"internal/link/endpoint"}, foundation},
	{"4 link, who is heard", []string{"internal/link/hearing"}, below4},
	{"4 link, its door", []string{"internal/link/door"}, foundation},
	{"4 link, conversations", []string{"internal/link/talk/..."}, join(below4, []string{"internal/link/talk/talkpb"})},
	{"4 link, what replicas have stored", []string{"internal/link/ledger"}, below4},
	{"4 link, files in chunks", []string{"internal/link/intake"}, []string{"internal/link/linkpb"}},
	{"4 link", []string{"internal/link", "internal/link/linkpb"}, join(below4, []string{"internal/link/linkpb", "internal/link/intake", "internal/link/ledger", "internal/link/endpoint", "internal/link/hearing", "internal/link/pace", "internal/link/message", "internal/link/door", "internal/link/talk/..."})},
	{"4 link, what launchers and leaders say", []string{"internal/link/message"}, join(below4, []string{"internal/link/linkpb", "internal/link/pace"})},
	{"4 link, how ranks get on", []string{"internal/link/pace"}, []string{"internal/link/linkpb"}},
	// The wire of agents; what its frames mean is their engine's.
	{"4 link, agents", []string{"internal/link/agency/..."}, join(below4, []string{"internal/link/agency/agencypb", "internal/link/callhome", "internal/link/endpoint", "internal/link/door", "internal/engine/agentengine"})},
	{"4 link, calls of replicas to the API", []string{"internal/link/callhome"}, join(below4, []string{"internal/link", "internal/link/agency/agencypb"})},
	{"4 link, the road to replicas", []string{"internal/link/forward"}, foundation},
	{"4 link, tokens for proof by others", []string{"internal/link/exchange"}, join(below4, []string{"internal/link", "internal/link/endpoint"})},
	{"4 link, passes of replicas", []string{"internal/link/pass"}, foundation},
	{"4 link, curves, datasets and models", []string{"internal/link/curve", "internal/link/lend", "internal/link/signature"}, join(below4, []string{"internal/link", "internal/link/linkpb"})},
	{"4 control, who takes part", []string{"internal/control/gang"}, join(below4, []string{"internal/link"})},
	{"4 control, how replicas end", []string{"internal/control/ending"}, below4},
	{"4 control, checkpoints", []string{"internal/control/save"}, join(below4, []string{"internal/reconcile", "internal/link", "internal/ckpt", "internal/ckpt/interval", "internal/control/gang"})},
	{"4 control, ways between members", []string{"internal/control/way"}, below4},
	{"4 control, training tasks", []string{"internal/control/train"}, join(below4, []string{"internal/control/way",
		"internal/reconcile", "internal/link", "internal/control/gang", "internal/control/save", "internal/control/train/...", "internal/control/work",
		"internal/control/fence", "internal/link/hearing",
	})},
	{"4 control, what training tasks are judged by", []string{"internal/control/train/..."}, join(below4, []string{"internal/link", "internal/link/hearing", "internal/control/gang", "internal/control/ending"})},
	{"4 control, environments", []string{"internal/control/devenv"}, join(below4, []string{"internal/link", "internal/quota", "internal/control/work"})},
	{"4 control, what is asked of services", []string{"internal/control/serve/demand"}, below4},
	{"4 control, services", []string{"internal/control/serve"}, join(below4, []string{"internal/reconcile", "internal/link", "internal/link/hearing", "internal/control/work", "internal/control/serve/demand"})},
	{"4 control, what was seen of nodes", []string{"internal/control/placement/past"}, below4},
	{"4 control", []string{"internal/control/..."}, join(below4, []string{"internal/reconcile", "internal/link", "internal/link/hearing", "internal/ckpt", "internal/control/work", "internal/control/fence", "internal/control/ending", "internal/control/placement/past", "internal/control/way"})},
	// The launcher stands on the node beside its process tree: it knows cgroups and namespaces, as the host engine does.
	{"4 launch", []string{"internal/launch/..."}, join(below4, []string{"internal/launch/...", "internal/link", "internal/link/callhome", "internal/link/pass", "internal/link/talk/...", "internal/link/curve", "internal/link/lend", "internal/link/signature", "internal/bucket", "internal/homecopy", "internal/ckpt/...", "internal/engine/cgroup", "internal/engine/disk", "internal/engine/network", "sdk/python"})},
	// The SDK's files, nothing more.
	{"4 sdk", []string{"sdk/python"}, nil},
	{"4 assets", []string{"internal/asset"}, below4},
	{"4 quota", []string{"internal/quota"}, join(below4, []string{"internal/blob/ledger", "internal/ckpt", "internal/link"})},
	{"4 ckpt, folders", []string{"internal/ckpt/watch"}, join(below4, []string{"internal/ckpt/form"})},
	{"4 gateway", []string{"internal/gateway"}, join(below4, []string{"internal/gateway/wire", "internal/gateway/cache", "internal/gateway/prefix", "internal/gateway/batch", "internal/gateway/contract", "internal/gateway/gauge"})},
	{"4 ckpt", []string{"internal/ckpt"}, join(below4, []string{"internal/ckpt/tensor"})},
	{"4 ckpt, gateway", []string{"internal/ckpt/...", "internal/gateway/..."}, below4},
	// A user's program that happens to be inside the binary: it knows only what any script knows.
	{"4 sample, rsh", []string{"internal/sample", "internal/rsh", "internal/sftpserver", "internal/sshrelay"}, foundation},

	{"5 client", []string{"client"}, join(foundation, vocabulary)},
	{"5 previews, Parquet files", []string{"internal/preview/parquet"}, nil},
	{"5 previews", []string{"internal/preview"}, join(foundation, vocabulary, []string{"internal/preview/parquet"})},
	{"5 cli", []string{"internal/cli/..."}, join(foundation, vocabulary, []string{"client", "internal/bucket", "internal/homecopy", "internal/preview", "internal/sample", "internal/cli/..."})},
	// The rooms of the server, from the lowest up: each may know those above it in this list, and none knows the server.
	{"5 server, refusals", []string{"internal/server/refuse"}, join(foundation, vocabulary)},
	{"5 server, limits", []string{"internal/server/limit"}, foundation},
	{"5 server, truth", []string{"internal/server/truth"}, join(foundation, vocabulary, ports, []string{"internal/server/refuse"})},
	{"5 server, access", []string{"internal/server/access"}, join(foundation, vocabulary, ports, []string{"internal/server/refuse", "internal/server/truth"})},
	{"5 server, requests", []string{"internal/server/rest"}, join(foundation, vocabulary, ports, []string{"internal/server/refuse", "internal/server/access"})},
	{"5 server, console", []string{"internal/server/console"}, join(foundation, []string{"internal/server/rest"})},
	{"5 server, door", []string{"internal/server/door"}, join(foundation, vocabulary, ports, serverKernel, []string{"internal/link/pass"})},
	{"5 server, streams", []string{"internal/server/stream"}, join(foundation, vocabulary, ports, serverKernel, []string{"internal/server/door"})},
	{"5 server, audit and objects", []string{"internal/server/audit", "internal/server/objects", "internal/server/tracker"}, join(below4, serverKernel, []string{"internal/server/door", "internal/server/stream"})},
	{"5 server, tenants and the cluster", []string{"internal/server/tenant", "internal/server/cluster", "internal/server/report"}, join(below4, serverKernel, []string{
		"internal/quota", "internal/server/door", "internal/server/stream", "internal/server/objects", "internal/server/tracker",
	})},
	{"5 server, archives", []string{"internal/server/archive"}, join(below4, serverKernel, []string{"internal/server/stream", "internal/server/tenant"})},
	{"5 server, training tasks", []string{"internal/server/train"}, join(below4, serverKernel, []string{
		"internal/quota", "internal/server/stream", "internal/server/audit", "internal/server/objects", "internal/server/tracker", "internal/server/tenant", "internal/server/cluster",
		"internal/server/report", "internal/server/archive",
	})},
	{"5 server, other kinds of work", []string{"internal/server/work"}, join(below4, serverKernel, []string{
		"internal/server/objects", "internal/server/report", "internal/server/train",
	})},
	{"5 server, logs", []string{"internal/server/logs"}, join(below4, serverKernel, []string{
		"internal/server/audit", "internal/server/objects", "internal/server/stream", "internal/server/tracker", "internal/server/train",
	})},
	{"5 server, services", []string{"internal/server/serve"}, join(below4, serverKernel, []string{
		"internal/server/logs",
		"internal/server/archive", "internal/server/objects", "internal/server/report", "internal/server/stream", "internal/server/train", "internal/server/work",
	})},
	{"5 server, datasets and models", []string{"internal/server/asset"}, join(below4, serverKernel, []string{
		"internal/asset", "internal/server/audit", "internal/server/objects", "internal/preview", "internal/server/stream", "internal/server/tenant",
	})},
	{"5 server, terminals", []string{"internal/server/terminal"}, join(below4, serverKernel, []string{
		"internal/link/talk/...", "internal/server/audit", "internal/server/objects", "internal/server/stream",
	})},
	{"5 server, SSH", []string{"internal/server/sshdoor"}, join(below4, serverKernel, []string{"internal/sshrelay", "internal/link/talk/...", "internal/server/audit", "internal/server/objects", "internal/server/tenant", "internal/server/terminal"})},
	{"5 server, what environments have of their own", []string{"internal/server/environment"}, join(below4, serverKernel, []string{"internal/quota", "internal/server/objects"})},
	{"5 server, bookings", []string{"internal/server/booking"}, join(below4, serverKernel, []string{"internal/server/objects"})},
	{"5 server, images", []string{"internal/server/image"}, join(below4, serverKernel, []string{"internal/server/objects"})},
	{"5 server, ports", []string{"internal/server/port"}, join(below4, serverKernel, []string{
		"internal/link/talk/...", "internal/server/audit", "internal/server/door", "internal/server/objects", "internal/server/terminal",
	})},
	{"5 server", []string{"internal/server"}, join(below4, []string{
		"internal/server/...", "internal/reconcile", "internal/link", "internal/control/...", "internal/ckpt", "internal/gateway", "internal/quota", "internal/asset",
	})},
	// The console's files, nothing more: handed to the server by the assembly.
	{"5 console", []string{"web"}, nil},

	{"6 assembly", []string{"internal/app/...", "internal/sim"}, []string{"..."}},
	{"6 main", []string{"cmd/..."}, []string{"..."}},
	{"proof", []string{"test/...", "bench/..."}, []string{"..."}},
}

// top is what nobody below may import, whatever the row says.
var top = []string{"cmd/...", "internal/app/...", "internal/sim", "test/...", "bench/..."}

// technology names modules that only these packages may speak to.
var technology = []struct {
	module string
	only   []string
}{
	{"go.etcd.io/", []string{"internal/store", "internal/store/embedded", "internal/store/safe", "internal/app"}},
	{"database/sql", []string{"internal/history/..."}},
	{"modernc.org/", []string{"internal/history/sqlstore"}},
	{"github.com/jackc/", []string{"internal/history/pgstore/..."}},
	{"github.com/aws/", []string{"internal/blob/s3", "internal/bucket"}},
	{"golang.zx2c4.com/", []string{"internal/engine/tunnel"}},
	{"github.com/vishvananda/", []string{"internal/engine/network", "internal/engine/tunnel", "test/..."}},
	{"github.com/google/nftables", []string{"internal/engine/network", "internal/engine/tunnel", "test/..."}},
	{"github.com/NVIDIA/", []string{"internal/engine/inventory"}},
	{"k8s.io/", []string{"api/v1", "api/v1/quantity", "internal/engine/kubeengine/...", "internal/app/agent/watch", "internal/app/mirror", "test/pods"}},
	{"google.golang.org/grpc", []string{"internal/link", "internal/link/linkpb", "internal/link/message", "internal/link/talk/...", "internal/link/agency/...", "internal/link/callhome", "internal/link/exchange", "internal/link/intake", "internal/link/ledger", "internal/link/door", "internal/link/curve", "internal/link/lend", "internal/link/signature", "internal/store/...", "internal/app", "internal/launch"}},
}

func join(lists ...[]string) []string {
	var out []string
	for _, l := range lists {
		out = append(out, l...)
	}
	return out
}

func within(path string, patterns []string) bool {
	for _, p := range patterns {
		stem, below := strings.CutSuffix(p, "...")
		switch {
		case p == path, p == "...":
			return true
		case below && (strings.HasPrefix(path, stem) || path+"/" == stem):
			return true
		}
	}
	return false
}

func rowOf(path string) (row, bool) {
	for _, r := range table {
		if within(path, r.packages) {
			return r, true
		}
	}
	return row{}, false
}
