package asset

import (
	"encoding/json"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Bounds of what people write.
const (
	MaxName      = 40 // of a dataset or model: the names of its versions are longer
	MaxText      = 4096
	maxCard      = 64 << 10
	maxMetadata  = 64
	maxSignature = 64 << 10
)

type faults []fault.Field

func (f *faults) add(path, en, zh string, args ...any) {
	*f = append(*f, fault.Field{Path: path, Message: fault.T(en, zh, args...)})
}

func (f *faults) name(m *api.Meta) {
	if len(m.Name) > MaxName {
		f.add("metadata.name", "The name has %d characters; at most %d are allowed.", "名称有 %d 个字符，最多 %d 个。", len(m.Name), MaxName)
	}
}

func (f *faults) text(at, text string, most int) {
	if len(text) > most {
		f.add(at, "It is longer than %d bytes.", "超过 %d 字节。", most)
	}
}

func (f *faults) pairs(at string, pairs map[string]string) {
	if len(pairs) > maxMetadata {
		f.add(at, "At most %d entries.", "最多 %d 项。", maxMetadata)
	}
	for k, v := range pairs {
		if k == "" || len(k) > 128 || len(v) > MaxText {
			f.add(at, "A key has 1 to 128 bytes, a value at most %d.", "键为 1 到 128 字节，值最多 %d 字节。", MaxText)
			return
		}
	}
}

// CheckMetadata lists what is wrong with metadata of a version.
func CheckMetadata(pairs map[string]string) []fault.Field {
	var f faults
	f.pairs("metadata", pairs)
	return f
}

// Validate lists every refused field.
func (d *Dataset) Validate() []fault.Field {
	var f faults
	f.name(&d.Meta)
	f.text("spec.description", d.Spec.Description, MaxText)
	return f
}

// Validate lists every refused field.
func (m *Model) Validate() []fault.Field {
	var f faults
	s := &m.Spec
	f.name(&m.Meta)
	f.text("spec.description", s.Description, MaxText)
	f.text("spec.card", s.Card, maxCard)
	f.pairs("spec.metadata", s.Metadata)
	if raw, err := json.Marshal(s.Signature); err != nil || len(raw) > maxSignature {
		f.add("spec.signature", "It is longer than %d bytes.", "超过 %d 字节。", maxSignature)
	}
	if len(s.Aliases) > maxMetadata || len(s.Stages) > 1000 {
		f.add("spec", "At most %d aliases and 1000 stages.", "最多 %d 个别名、1000 个阶段。", maxMetadata)
	}
	for name, n := range s.Aliases {
		if !api.IsName(name) || name == Latest || isNumber(name) || n < 1 {
			f.add("spec.aliases", "%.64q is no alias of a version: a name that is no number and not latest, and a number from 1 on.", "%.64q 不是合法的版本别名：名称不能是数字或 latest，版本号从 1 开始。", name)
		}
	}
	for number, stage := range s.Stages {
		if n, err := strconv.Atoi(number); err != nil || n < 1 || strconv.Itoa(n) != number || !slices.Contains(Stages, stage) {
			f.add("spec.stages", "A stage is staging, production or archived, by the number of a version.", "阶段为 staging、production 或 archived，键为版本号。")
		}
	}
	return f
}

func isNumber(text string) bool {
	_, err := strconv.Atoi(strings.TrimPrefix(text, "v"))
	return err == nil
}

// Validate lists what the server must not write.
func (v *AssetVersion) Validate() []fault.Field {
	var f faults
	if v.Spec.Number < 1 || v.Spec.Kind != DatasetKind && v.Spec.Kind != ModelKind {
		f.add("spec.number", "A version has a kind and a number from 1 on.", "版本应有类型，编号从 1 开始。")
	}
	return f
}

// CheckSource lists what is wrong with where bytes are said to lie; at is its path in the request.
func CheckSource(at string, s *Source) []fault.Field {
	var f faults
	switch {
	case s == nil || (s.Folder == "") == (s.S3 == nil):
		f.add(at, "Give folder or s3, one of them.", "请指定 folder 或 s3 之一。")
	case s.S3 != nil:
		f.bucket(at+".s3", s.S3)
	case path.IsAbs(s.Folder) || path.Clean(s.Folder) != s.Folder || s.Folder == "." || strings.HasPrefix(s.Folder, "..") || len(s.Folder) > 4096 || strings.ContainsRune(s.Folder, 0):
		f.add(at+".folder", "It must be NAME/path in a folder that the project was granted.", "应为已授予项目的目录中的 NAME/path。")
	}
	return f
}

func (f *faults) bucket(at string, s *S3Source) {
	if s.Endpoint != "" {
		u, err := url.Parse(s.Endpoint)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Path != "" && u.Path != "/" || len(s.Endpoint) > 512 {
			f.add(at+".endpoint", "It must be http://host:port or https://host, and nothing more.", "应为 http://主机:端口 或 https://主机。")
		}
	}
	if !isBucket(s.Bucket) {
		f.add(at+".bucket", "It is no name of a bucket.", "不是合法的桶名称。")
	}
	if s.Prefix != "" && CheckPath(strings.TrimSuffix(s.Prefix, "/")) != nil || len(s.Prefix) > 512 {
		f.add(at+".prefix", "It is no prefix: a relative path without \"..\".", "前缀应为不含 \"..\" 的相对路径。")
	}
	if !api.IsName(s.Secret) {
		f.add(at+".secret", "Name a secret of type s3 of the project.", "请指定项目中 s3 类型的密钥。")
	}
	if len(s.Region) > 64 || strings.ContainsFunc(s.Region, func(r rune) bool { return r <= ' ' || r > '~' }) {
		f.add(at+".region", "It is no region.", "不是合法的区域。")
	}
}

func isBucket(name string) bool {
	return len(name) >= 3 && len(name) <= 63 && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '.'
	})
}
