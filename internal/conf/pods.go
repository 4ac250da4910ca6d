package conf

import (
	"path/filepath"
	"strconv"
	"strings"

	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/pattern"
)

// Pods is where replicas become pods.
type Pods struct {
	Clusters []string // as ParseCluster reads them
	Image    string
	Account  string
	Devices  []string // RESOURCE=VENDOR:TYPE
	RDMA     string   // extended resource of the fast network
	Cache    string   // as ParseCache reads it
	// StorageClass is that of homes; "": the cluster's own choice.
	StorageClass string
	// Grow are the zones of clusters whose autoscalers are asked for nodes.
	Grow  []string
	Gangs []string // as ParseGangs reads them
}

// InCluster stands for the credentials of the server's own pod, in the place of a file.
const InCluster = "in-cluster"

// defaultNamespace is Fermi's where none is named.
const defaultNamespace = "fermi"

// ParseCluster reads ZONE=KUBECONFIG[:NAMESPACE].
func ParseCluster(text string) (zone, kubeconfig, namespace string, ok bool) {
	zone, rest, ok := strings.Cut(text, "=")
	kubeconfig, namespace = rest, defaultNamespace
	if i := strings.LastIndexByte(rest, ':'); i >= 0 && !strings.Contains(rest[i:], "/") {
		kubeconfig, namespace = rest[:i], rest[i+1:]
	}
	return zone, kubeconfig, namespace, ok && zoneName.MatchString(zone) && kubeconfig != "" && zoneName.MatchString(namespace)
}

// ParseGangs reads ZONE=KEEPER:QUEUE: the queue of a cluster's own that gangs are handed over to, and who keeps it.
func ParseGangs(text string) (zone, keeper, queue string, ok bool) {
	zone, rest, _ := strings.Cut(text, "=")
	keeper, queue, _ = strings.Cut(rest, ":")
	return zone, keeper, queue, zoneName.MatchString(zone) && (keeper == "kueue" || keeper == "volcano") && zoneName.MatchString(queue)
}

// ParseCache reads DIR[=SIZE]; "" as the size: nobody said how much.
func ParseCache(text string) (dir, size string, ok bool) {
	dir, size, sized := strings.Cut(text, "=")
	return dir, size, filepath.IsAbs(dir) && filepath.Clean(dir) == dir && dir != "/" && (!sized || cacheSize.MatchString(size))
}

var cacheSize = pattern.New(`^[1-9][0-9]{0,5}[KMGT]i$`)

var resourceName = pattern.New(`^[a-zA-Z0-9.-]+/[A-Za-z0-9._-]+$`)

var deviceRow = pattern.New(`^[a-zA-Z0-9.-]+/[A-Za-z0-9._-]+=[A-Za-z0-9-]+:.+$`)

// pods refuses clusters that could never be used.
func (s *Settings) pods() []fault.Field {
	var out []fault.Field
	add := func(key, en, zh string, args ...any) {
		out = append(out, fault.Field{Path: key, Message: fault.T(en, zh, args...)})
	}
	p := &s.Doors.Pods
	had := map[string]bool{}
	for _, text := range p.Clusters {
		zone, file, _, ok := ParseCluster(text)
		switch {
		case !ok:
			add("cluster", "%s is not a cluster such as beijing-k8s=/etc/fermi/beijing.kubeconfig:fermi.", "%s 不是合法的集群，例如 beijing-k8s=/etc/fermi/beijing.kubeconfig:fermi。", strconv.Quote(text))
		case had[zone]:
			add("cluster", "Zone %s is given twice; a zone is one cluster.", "可用区 %s 重复；一个可用区对应一个集群。", zone)
		case file != InCluster && !exists(file):
			add("cluster", "There is no file %s.", "文件 %s 不存在。", strconv.Quote(file))
		}
		had[zone] = true
	}
	for _, zone := range p.Grow {
		if !had[zone] {
			add("pods.grow", "%s is no zone of cluster; name the zone of one that has an autoscaler.", "%s 不是 cluster 中的可用区，请填写具有自动扩缩容的集群所在可用区。", strconv.Quote(zone))
		}
	}
	handed := map[string]bool{}
	for _, text := range p.Gangs {
		zone, _, _, ok := ParseGangs(text)
		switch {
		case !ok:
			add("pods.gangs", "%s is not ZONE=KEEPER:QUEUE, such as beijing-k8s=kueue:research; keepers are kueue and volcano.", "%s 不是 可用区=系统:队列 的形式，例如 beijing-k8s=kueue:research；系统为 kueue 或 volcano。", strconv.Quote(text))
		case !had[zone] || handed[zone]:
			add("pods.gangs", "%s is no zone of cluster, or is given twice.", "%s 不是 cluster 中的可用区，或重复出现。", strconv.Quote(zone))
		}
		handed[zone] = true
	}
	for _, row := range p.Devices {
		if !deviceRow.MatchString(row) {
			add("pods.devices", "%s is not a row such as nvidia.com/gpu=nvidia:A100.", "%s 不是合法的一行，应形如 nvidia.com/gpu=nvidia:A100。", strconv.Quote(row))
		}
	}
	if _, _, ok := ParseCache(p.Cache); !ok && p.Cache != "" {
		add("pods.cache", "%s is not a folder of nodes, such as /var/lib/fermi/cache or /var/lib/fermi/cache=2Ti.", "%s 不是节点上的目录，例如 /var/lib/fermi/cache 或 /var/lib/fermi/cache=2Ti。", strconv.Quote(p.Cache))
	}
	if p.RDMA != "" && !resourceName.MatchString(p.RDMA) {
		add("pods.rdma", "%s is not the name of an extended resource such as rdma/hca.", "%s 不是合法的扩展资源名，应形如 rdma/hca。", strconv.Quote(p.RDMA))
	}
	if len(p.Clusters) == 0 {
		return out
	}
	if p.Image == "" {
		add("pods.image", "Say which image brings the launcher into pods; it has fermi as its entry point.", "请指定把启动器带入 Pod 的镜像，其入口为 fermi。")
	}
	if s.Doors.Launchers == "" {
		add("link.listen", "Launchers in pods dial this server; give an address that the pods reach.", "Pod 中的启动器需要拨通本服务，请给出 Pod 可访问的地址。")
	}
	return out
}
