package v1

import (
	"math"
	"path"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/fermi-cluster/fermi/api/v1/where"
	"github.com/fermi-cluster/fermi/internal/pattern"
)

// Bounds shared by the kinds.
const (
	maxDescription = 4096
	maxLabels      = 64
	maxLabelValue  = 256
	maxPath        = 4096
	maxReplicas    = where.MostReplicas // of a gang in total
	maxSpares      = 64                 // of a role
	maxDevices     = 64                 // of a node: a placement's mask has 64 bits
	maxWord        = 64                 // types, racks, currencies: characters
	maxList        = 1000               // names in a list

	maxCPU    = MilliCPU(100_000 * 1000)
	minMemory = Bytes(1 << 20)
	maxMemory = Bytes(1 << 50)
	maxSpan   = Duration(10 * 366 * 24 * time.Hour)
)

var (
	labelName   = pattern.New(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)
	labelPrefix = pattern.New(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$`)
	envName     = pattern.New(`^[A-Za-z_][A-Za-z0-9_]*$`)
	paramName   = pattern.New(`^[A-Za-z_][A-Za-z0-9_.-]*$`)
	digest      = pattern.New(`^sha256:[0-9a-f]{64}$`)
	hex64       = pattern.New(`^[0-9a-f]{64}$`)
	currency    = pattern.New(`^[A-Z]{3}$`)
)

// meta checks what every object has.
func (f *faults) meta(m *Meta, info KindInfo) {
	if m.Name != "" {
		f.name("metadata.name", m.Name)
	}
	if m.DisplayName != "" && m.DisplayName != m.Name {
		f.displayName("metadata.displayName", m.DisplayName)
	}
	switch {
	case info.Project:
		f.name("metadata.project", m.Project)
	case m.Project != "":
		f.add("metadata.project", "A %s belongs to the whole cluster, not to a project; leave this field out.", "%s 属于整个集群，不属于任何项目，请去掉此字段。", info.Kind)
	}
	if len(m.Owner) > 2*maxName || !printable(m.Owner) {
		f.add("metadata.owner", "The owner is the name of a user.", "owner 应为用户名。")
	}
	f.labels("metadata.labels", m.Labels)
}

func (f *faults) labels(at string, labels map[string]string) {
	if len(labels) > maxLabels {
		f.add(at, "There are %d labels; at most %d are allowed.", "标签有 %d 个，最多允许 %d 个。", len(labels), maxLabels)
		return
	}
	for _, key := range sortedKeys(labels) {
		prefix, name, split := strings.Cut(key, "/")
		if !split {
			prefix, name = "", key
		}
		if !labelName.MatchString(name) || split && (len(prefix) > 253 || !labelPrefix.MatchString(prefix)) {
			f.add(child(at, key), "%s is not a label key: use up to 63 letters, digits, '-', '_' and '.', optionally after a DNS prefix, such as example.com/team.", "%s 不是合法的标签键：请使用不超过 63 个字母、数字、'-'、'_' 或 '.'，前面可加 DNS 前缀，例如 example.com/team。", quote(key))
		}
		if v := labels[key]; utf8.RuneCountInString(v) > maxLabelValue || !printable(v) {
			f.add(child(at, key), "A label's value has at most %d characters, without control characters.", "标签值最多 %d 个字符，且不能包含控制字符。", maxLabelValue)
		}
	}
}

func (f *faults) description(at, s string) {
	if n := utf8.RuneCountInString(s); n > maxDescription {
		f.add(at, "The description has %d characters; at most %d are allowed.", "描述有 %d 个字符，最多允许 %d 个。", n, maxDescription)
		return
	}
	for _, r := range s {
		if r != '\n' && r != '\t' && r != '\r' && forbiddenRune(r) || r == utf8.RuneError {
			f.add(at, "The character %U is a control or text-direction character; remove it.", "描述不能包含控制字符或文字方向字符 %U，请删除。", r)
			return
		}
	}
}

// word checks a short free text such as a device type or a rack.
func (f *faults) word(at, s string, required bool) {
	switch {
	case s == "" && required:
		f.add(at, "This field is required.", "此字段必填。")
	case utf8.RuneCountInString(s) > maxWord || !printable(s) || strings.TrimSpace(s) != s:
		f.add(at, "Expected at most %d printable characters without spaces at the ends.", "此处最多 %d 个可打印字符，首尾不能有空格。", maxWord)
	}
}

// printable says that a text shows on one line as what it is.
func printable(s string) bool {
	for _, r := range s {
		if forbiddenRune(r) || r == utf8.RuneError || !unicode.IsGraphic(r) {
			return false
		}
	}
	return true
}

// names checks a list of object names for form, number and repetition.
func (f *faults) names(at string, names []string) {
	if len(names) > maxList {
		f.add(at, "There are %d names; at most %d are allowed.", "名称有 %d 个，最多允许 %d 个。", len(names), maxList)
		return
	}
	seen := make(map[string]bool, len(names))
	for i, n := range names {
		f.name(item(at, i), n)
		if seen[n] {
			f.add(item(at, i), "%s stands twice in the list; name it once.", "%s 在列表中重复，请只保留一个。", quote(n))
		}
		seen[n] = true
	}
}

// span checks a duration between 0 and ten years.
func (f *faults) span(at string, d Duration) {
	if d < 0 || d > maxSpan {
		f.add(at, "%s is out of range: a duration from 0s to 10 years (87840h) is allowed.", "%s 超出范围：允许 0s 到 10 年（87840h）。", d)
	}
}

func (f *faults) count(at string, n, low, high int) {
	if n < low || n > high {
		f.add(at, "%d is out of range: %d to %d are allowed.", "%d 超出范围：允许 %d 到 %d。", n, low, high)
	}
}

// amount checks a number that is a price or a latency.
func (f *faults) amount(at string, x, high float64) {
	if math.IsNaN(x) || x < 0 || x > high {
		f.add(at, "%v is out of range: 0 to %v are allowed.", "%v 超出范围：允许 0 到 %v。", x, high)
	}
}

// relative checks a path inside a folder we chose: it must not lead out.
func (f *faults) relative(at, p string) {
	if p == "" {
		return
	}
	if len(p) > maxPath || strings.ContainsRune(p, 0) || path.IsAbs(p) || path.Clean(p) != p || p == ".." || strings.HasPrefix(p, "../") {
		f.add(at, "%s must be a relative path without \"..\", \"//\" or a slash at its end, such as src/train.", "%s 应为相对路径，不能包含 \"..\"、\"//\" 或以斜杠结尾，例如 src/train。", quote(p))
	}
}
