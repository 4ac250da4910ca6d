package conf

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/pattern"
)

// Validate lists every refused setting at once.
func (s *Settings) Validate() []fault.Field {
	var out []fault.Field
	add := func(key, en, zh string, args ...any) {
		out = append(out, fault.Field{Path: key, Message: fault.T(en, zh, args...)})
	}
	if s.Data == "" {
		add("data", "Say where the data folder is; $HOME is not set, so there is no default.", "请指定数据目录；$HOME 未设置，没有默认值。")
	}
	if s.Demo && s.ZonesFile != "" {
		add("zones", "Give either demo or zones, not both.", "demo 与 zones 只能选择其一。")
	}
	if s.ZonesFile != "" && !exists(s.ZonesFile) {
		add("zones", "There is no file %s.", "文件 %s 不存在。", strconv.Quote(s.ZonesFile))
	}
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, s.LogLevel) {
		add("log.level", "%s is no level; use debug, info, warn or error.", "%s 不是合法的日志级别，请使用 debug、info、warn 或 error。", strconv.Quote(s.LogLevel))
	}
	if s.LogFormat != "text" && s.LogFormat != "json" {
		add("log.format", "%s is no format; use text or json.", "%s 不是合法的日志格式，请使用 text 或 json。", strconv.Quote(s.LogFormat))
	}
	if s.ArchiveAfter < 0 || s.ArchiveAfter > 366*24*time.Hour {
		add("archive.after", "%s is out of range: 0s to 8784h are allowed.", "%s 超出范围：允许 0s 到 8784h。", s.ArchiveAfter)
	}
	if s.Quantum < time.Second || s.Quantum > 366*24*time.Hour {
		add("quantum", "%s is out of range: 1s to 8784h are allowed.", "%s 超出范围：允许 1s 到 8784h。", s.Quantum)
	}
	if s.Processes < 0 || s.Processes > 1_000_000 {
		add("processes", "%d is out of range: 0 to 1000000 are allowed.", "%d 超出范围：允许 0 到 1000000。", s.Processes)
	}
	if r := s.TenantUIDs; r != (Range{}) && (r.First < minUID || r.Last > maxUID || r.First >= r.Last) {
		add("tenants.uids", "%d-%d is out of range: two numbers from %d to %d, the second larger, are allowed; the last one keeps images.", "%d-%d 超出范围：起止编号须在 %d 到 %d 之间且后者更大；最后一个用于保管镜像。", r.First, r.Last, minUID, maxUID)
	}
	return slices.Concat(out, s.network(), s.etcd(), s.past(), s.checkpoints(), s.folders(), s.doors(), s.pods())
}

// Below minUID are the system's and people's own; maxUID keeps off the numbers that mean nobody.
const minUID, maxUID = 1000, 1<<31 - 2

var hostName = pattern.New(`^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*\.?$`)

// doors refuses what would let strangers in.
func (s *Settings) doors() []fault.Field {
	var out []fault.Field
	add := func(key, en, zh string, args ...any) {
		out = append(out, fault.Field{Path: key, Message: fault.T(en, zh, args...)})
	}
	if (s.TLS.Cert == "") != (s.TLS.Key == "") {
		add("tls.key", "Give both tls.cert and tls.key, or neither.", "tls.cert 与 tls.key 必须同时给出或同时省略。")
	}
	if s.TLS.SelfSigned && s.TLS.Cert != "" {
		add("tls.self-signed", "Give either a certificate or tls.self-signed, not both.", "证书与 tls.self-signed 只能选择其一。")
	}
	for _, h := range s.Hosts {
		if !hostName.MatchString(h) || len(h) > 253 {
			add("hosts", "%s is not the name of a host, such as fermi.example.com, without scheme and port.", "%s 不是合法的主机名，例如 fermi.example.com，不含协议和端口。", strconv.Quote(h))
		}
	}
	for _, f := range []struct{ key, path string }{{"tls.cert", s.TLS.Cert}, {"tls.key", s.TLS.Key}} {
		if f.path != "" && !exists(f.path) {
			add(f.key, "There is no file %s.", "文件 %s 不存在。", strconv.Quote(f.path))
		}
	}
	if at := s.Doors.Launchers; at != "" {
		host, port, err := net.SplitHostPort(at)
		if _, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil {
			add("link.listen", "%s is not an address such as 10.0.0.7:7072.", "%s 不是合法的地址，例如 10.0.0.7:7072。", strconv.Quote(at))
		} else if host == "" || host == "0.0.0.0" || host == "::" {
			add("link.listen", "%s names no address; launchers must be able to dial it.", "%s 未指明地址；启动器需要能够拨通它。", strconv.Quote(at))
		}
	}
	if s.Doors.SSH != "" {
		_, port, err := net.SplitHostPort(s.Doors.SSH)
		if _, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil {
			add("ssh", "%s is not an address such as 0.0.0.0:2222.", "%s 不是合法的地址，例如 0.0.0.0:2222。", strconv.Quote(s.Doors.SSH))
		}
	}
	if s.Doors.Content != "" && (!hostName.MatchString(s.Doors.Content) || len(s.Doors.Content) > 180) {
		add("content.domain", "%s is not a domain, such as apps.example.com, without scheme and port.", "%s 不是合法的域名，例如 apps.example.com，不含协议和端口。", strconv.Quote(s.Doors.Content))
	}
	for _, l := range []struct {
		key, addr string
		required  bool
	}{{"listen", s.Listen, true}} {
		if l.addr == "" && !l.required {
			continue
		}
		host, port, err := net.SplitHostPort(l.addr)
		if n, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil || n > 65535 {
			add(l.key, "%s is not an address such as 127.0.0.1:7070.", "%s 不是合法的地址，例如 127.0.0.1:7070。", strconv.Quote(l.addr))
			continue
		}
		if !Loopback(host) && s.TLS.Cert == "" && !s.TLS.SelfSigned && !s.Insecure {
			add(l.key, "%s can be reached from other machines, and tokens would travel unencrypted; give tls.cert and tls.key or tls.self-signed, listen on 127.0.0.1, or say insecure.", "%s 可被其他机器访问，令牌将以明文传输；请配置 tls.cert 和 tls.key 或 tls.self-signed，或监听 127.0.0.1，或显式设置 insecure。", strconv.Quote(l.addr))
		}
	}
	return out
}

// Loopback says that a host to listen on is this machine's alone. A name other than localhost is
// not trusted to be: what it resolves to is somebody else's choice.
func Loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
