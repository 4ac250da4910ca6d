package conf

import (
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// maxRate is in MiB a second.
const maxRate = 1 << 20

// checkpoints refuses a store for checkpoints that can't be one.
func (s *Settings) checkpoints() []fault.Field {
	var out []fault.Field
	add := func(key, en, zh string, args ...any) {
		out = append(out, fault.Field{Path: key, Message: fault.T(en, zh, args...)})
	}
	if s.CheckpointsRate < 0 || s.CheckpointsRate > maxRate {
		add("checkpoints.rate", "%d is out of range: 0 to %d are allowed.", "%d 超出范围：允许 0 到 %d。", s.CheckpointsRate, maxRate)
	}
	return append(append(out, place("checkpoints.store", "checkpoints.", Store{Place: s.Checkpoints, Endpoint: s.CheckpointsEndpoint, Credentials: s.CheckpointsCredentials})...), s.store()...)
}

// store refuses one for all bytes that can't be one, and what it can't be together with.
func (s *Settings) store() (out []fault.Field) {
	if s.Store.Place == "" {
		return nil
	}
	out = place("bytes.store", "bytes.", s.Store)
	add := func(key string, text fault.Text) { out = append(out, fault.Field{Path: key, Message: text}) }
	if len(s.EtcdEndpoints) == 0 {
		return out
	}
	if s.Store.Key == "" || !exists(s.Store.Key) {
		add("servers.key.file", fault.T("Servers that share no folder need a file of 32 random bytes, the same for each: head -c 32 /dev/urandom.", "不共享目录的服务器需要一个内容相同的 32 字节随机密钥文件：head -c 32 /dev/urandom。"))
	}
	if s.HistoryURL == "" {
		add("history.url", fault.T("Servers that share no folder need a PostgreSQL for history.", "不共享目录的服务器需要用 PostgreSQL 保存历史。"))
	}
	if s.Shared != "" && s.Shared != s.Data {
		add("shared", fault.T("Give either bytes.store, or a folder that the servers share.", "bytes.store 与共享目录 shared 只能选择其一。"))
	}
	if s.Demo || s.ZonesFile != "" {
		add("bytes.store", fault.T("Nodes of demo and zones stand for the server's own machine, where nothing runs with a store and an etcd outside; machines join with fermi agent.", "demo 与 zones 中的节点由服务器本机承载，而使用 store 与外部 etcd 时本机不运行任务；请用 fermi agent 加入机器。"))
	}
	return out
}

// place refuses what is neither a folder nor a bucket; key is the setting of the place, and the others begin with prefix.
func place(key, prefix string, at Store) (out []fault.Field) {
	add := func(key, en, zh string, args ...any) {
		out = append(out, fault.Field{Path: key, Message: fault.T(en, zh, args...)})
	}
	switch bucket := strings.HasPrefix(at.Place, "s3://"); {
	case at.Place == "":
	case !bucket && !filepath.IsAbs(at.Place):
		add(key, "%s is neither an absolute path nor s3://BUCKET/PREFIX.", "%s 既不是绝对路径，也不是 s3://桶/前缀。", strconv.Quote(at.Place))
	case bucket:
		u, err := url.Parse(at.Place)
		if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			add(key, "This is no s3://BUCKET/PREFIX; credentials go into %scredentials.file.", "不是合法的 s3://桶/前缀；凭据请放入 %scredentials.file。", prefix)
		}
		if at.Credentials == "" || !exists(at.Credentials) {
			add(prefix+"credentials.file", "An S3 store needs a file with its credentials.", "S3 存储需要凭据文件。")
		}
	}
	if u, err := url.Parse(at.Endpoint); at.Endpoint != "" && (err != nil || u.Host == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https") {
		add(prefix+"endpoint", "This is no http:// or https:// address.", "不是 http:// 或 https:// 地址。")
	}
	return out
}
