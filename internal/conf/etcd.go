package conf

import (
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/pattern"
)

// etcd refuses what would let strangers into the state, or could never connect.
func (s *Settings) etcd() []fault.Field {
	var out []fault.Field
	add := func(key, en, zh string, args ...any) {
		out = append(out, fault.Field{Path: key, Message: fault.T(en, zh, args...)})
	}
	secure := 0
	for _, e := range s.EtcdEndpoints {
		u, err := url.Parse(e)
		if err != nil || !slices.Contains([]string{"http", "https", "unix", "unixs"}, u.Scheme) || u.Host == "" && u.Path == "" {
			add("etcd.endpoints", "%s is not an endpoint such as https://etcd-1:2379.", "%s 不是合法的端点，例如 https://etcd-1:2379。", strconv.Quote(e))
			continue
		}
		if strings.HasSuffix(u.Scheme, "s") {
			secure++
		}
		switch {
		case u.Scheme != "http" || s.Insecure:
		case Loopback(u.Hostname()):
			add("etcd.endpoints", "%s is open to every process of this machine, tasks among them: whoever reaches it owns the cluster; use unix:///PATH in a folder of root's, https with etcd.ca, etcd.cert and etcd.key, or say insecure.", "%s 对本机所有进程（包括任务）开放，能访问它的人即可控制整个集群；请使用仅 root 可进入目录中的 unix:///PATH，或使用 https 并配置 etcd.ca、etcd.cert 和 etcd.key，或显式设置 insecure。", strconv.Quote(e))
		default:
			add("etcd.endpoints", "%s is on another machine and not encrypted: whoever reaches it owns the cluster; use https with etcd.ca, etcd.cert and etcd.key, or say insecure.", "%s 位于其他机器且未加密，能访问它的人即可控制整个集群；请使用 https 并配置 etcd.ca、etcd.cert 和 etcd.key，或显式设置 insecure。", strconv.Quote(e))
		}
	}
	if (s.EtcdCert == "") != (s.EtcdKey == "") {
		add("etcd.key", "Give both etcd.cert and etcd.key, or neither.", "etcd.cert 与 etcd.key 必须同时给出或同时省略。")
	}
	for _, f := range []struct{ key, path string }{{"etcd.ca", s.EtcdCA}, {"etcd.cert", s.EtcdCert}, {"etcd.key", s.EtcdKey}} {
		switch {
		case f.path == "":
		case !exists(f.path):
			add(f.key, "There is no file %s.", "文件 %s 不存在。", strconv.Quote(f.path))
		case secure == 0:
			add(f.key, "No endpoint in etcd.endpoints begins with https, so nothing would be encrypted.", "etcd.endpoints 中没有以 https 开头的端点，通信不会加密。")
		}
	}
	if p := s.EtcdPrefix; !strings.HasPrefix(p, "/") || !strings.HasSuffix(p, "/") || len(p) < 3 || len(p) > 256 || strings.Contains(p, "//") {
		add("etcd.prefix", "%s is not a prefix such as /fermi/v1/, with a slash at both ends.", "%s 不是合法的前缀，应形如 /fermi/v1/，首尾均为斜杠。", strconv.Quote(p))
	}
	host, port, err := net.SplitHostPort(s.Doors.Peers)
	if _, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil {
		add("peer.listen", "%s is not an address such as 10.0.0.7:7071.", "%s 不是合法的地址，例如 10.0.0.7:7071。", strconv.Quote(s.Doors.Peers))
	} else if host == "" || host == "0.0.0.0" || host == "::" {
		add("peer.listen", "%s names no address; the other servers must be able to dial it.", "%s 未指明地址；其他服务需要能够拨通它。", strconv.Quote(s.Doors.Peers))
	}
	if s.Zone != "" && !zoneName.MatchString(s.Zone) {
		add("zone", "%s is not the name of a zone such as beijing-1.", "%s 不是合法的可用区名称，例如 beijing-1。", strconv.Quote(s.Zone))
	}
	return out
}

var zoneName = pattern.New(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
