package booking

import (
	"fmt"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Bounds of a booking.
const (
	maxSpan      = 366 * 24 * time.Hour
	maxNotice    = 90 * 24 * time.Hour
	maxNodes     = 1000
	maxProjects  = 100
	maxLabels    = 16
	usualNotice  = api.Duration(24 * time.Hour)
	maxLabelText = 128
)

var _ interface {
	api.Defaulter
	api.Validator
} = (*Booking)(nil)

// Default fills what the user left out.
func (b *Booking) Default() {
	if b.Spec.Notice == 0 {
		b.Spec.Notice = usualNotice
	}
}

// Validate lists every refused field.
func (b *Booking) Validate() (out []fault.Field) {
	s := &b.Spec
	add := func(path, en, zh string, args ...any) {
		out = append(out, fault.Field{Path: path, Message: fault.T(en, zh, args...)})
	}
	switch span := s.To.Sub(s.From); {
	case s.To.IsZero():
		add("spec.to", "Say when it ends, as 2026-11-20T06:00:00Z.", "请给出结束时间，如 2026-11-20T06:00:00Z。")
	case span <= 0:
		add("spec.to", "It ends at %s, before it begins at %s.", "结束时间 %s 早于开始时间 %s。", s.To.UTC().Format(time.RFC3339), s.From.UTC().Format(time.RFC3339))
	case span > maxSpan:
		add("spec.to", "It may last 366 days at most.", "最长 366 天。")
	}
	if d := s.Devices; d != nil {
		if d.Count < 1 || d.Count > maxDevices {
			add("spec.devices.count", "%d is out of range: from 1 to %d.", "%d 超出范围：应为 1 到 %d。", d.Count, maxDevices)
		}
		if len(d.Type) > 64 {
			add("spec.devices.type", "At most 64 bytes.", "最多 64 字节。")
		}
		if s.Maintenance() {
			add("spec.devices", "A maintenance is of nodes: name them, a zone or labels.", "维护以节点为单位：请指定 nodes、zone 或 labels。")
		}
	} else if s.Zone == "" && len(s.Nodes) == 0 && len(s.Labels) == 0 {
		add("spec.nodes", "Say which nodes: a zone, nodes or labels; or how many devices.", "请指定节点：zone、nodes 或 labels；或指定 devices 数量。")
	}
	if len(s.Nodes) > maxNodes {
		add("spec.nodes", "There are %d nodes; at most %d are allowed: name a zone or labels.", "节点有 %d 个，最多 %d 个；请改用 zone 或 labels。", len(s.Nodes), maxNodes)
	}
	names := func(path string, list []string, most int) {
		seen := map[string]bool{}
		for i, name := range list[:min(len(list), most)] {
			at := fmt.Sprintf("%s[%d]", path, i)
			switch {
			case !api.IsName(name):
				add(at, "%q is no name.", "%q 不是合法的名称。", name[:min(len(name), 64)])
			case seen[name]:
				add(at, "%s is given twice.", "%s 重复出现。", name)
			}
			seen[name] = true
		}
	}
	names("spec.nodes", s.Nodes, maxNodes)
	names("spec.projects", s.Projects, maxProjects)
	if len(s.Projects) > maxProjects {
		add("spec.projects", "There are %d projects; at most %d are allowed.", "项目有 %d 个，最多 %d 个。", len(s.Projects), maxProjects)
	}
	if len(s.Labels) > maxLabels {
		add("spec.labels", "There are %d labels; at most %d are allowed.", "标签有 %d 个，最多 %d 个。", len(s.Labels), maxLabels)
	}
	for k, v := range s.Labels {
		if k == "" || v == "" || len(k) > maxLabelText || len(v) > maxLabelText {
			add("spec.labels", "A label has a name and a value of at most %d bytes each.", "标签的名称与值不能为空，且各不超过 %d 字节。", maxLabelText)
			break
		}
	}
	if s.Notice < 0 || s.Notice.Std() > maxNotice {
		add("spec.notice", "%s is out of range: up to 90 days are allowed.", "%s 超出范围：最长 90 天。", s.Notice)
	}
	if len(s.Reason) > 256 {
		add("spec.reason", "At most 256 bytes.", "最多 256 字节。")
	}
	return out
}
