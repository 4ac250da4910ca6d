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
	switch bucket := strings.HasPrefix(s.Checkpoints, "s3://"); {
	case s.Checkpoints == "":
	case !bucket && !filepath.IsAbs(s.Checkpoints):
		add("checkpoints.store", "%s is neither an absolute path nor s3://BUCKET/PREFIX.", "%s 既不是绝对路径，也不是 s3://桶/前缀。", strconv.Quote(s.Checkpoints))
	case bucket:
		u, err := url.Parse(s.Checkpoints)
		if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			add("checkpoints.store", "This is no s3://BUCKET/PREFIX; credentials go into checkpoints.credentials.file.", "不是合法的 s3://桶/前缀；凭据请放入 checkpoints.credentials.file。")
		}
		if s.CheckpointsCredentials == "" || !exists(s.CheckpointsCredentials) {
			add("checkpoints.credentials.file", "An S3 store needs a file with its credentials.", "S3 存储需要凭据文件。")
		}
	}
	if u, err := url.Parse(s.CheckpointsEndpoint); s.CheckpointsEndpoint != "" && (err != nil || u.Host == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https") {
		add("checkpoints.endpoint", "This is no http:// or https:// address.", "不是 http:// 或 https:// 地址。")
	}
	return out
}
